#include "rubato/simulate/simulation.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "rubato/base/status.h"

namespace rubato {
namespace {

constexpr double kDay = 86400;
constexpr double kRounding = 1e-6;  // Of sums of seconds; a deadline missed by less is met.

JobView MakeView(const Workload& workload, size_t i) {
  const TraceJob& job = workload.trace.jobs[i];
  JobView view;
  view.id = JobId(static_cast<int64_t>(i));
  view.submitted_s = job.submit_s;
  view.deadline_s = job.deadline_s;
  view.deadline = job.deadline;
  view.priority = job.priority;
  view.iterations = view.remaining = job.iterations;
  view.curves = workload.curves[i];
  view.asked_gpus = job.asked_gpus;
  view.floor_gpus = job.floor_gpus;
  if (job.max_gpus > 0) view.max_gpus = job.max_gpus;
  view.batch_size = job.batch_size;
  return view;
}

JobResult MakeResult(const Workload& workload, size_t i) {
  const TraceJob& job = workload.trace.jobs[i];
  JobResult result;
  result.id = JobId(static_cast<int64_t>(i));
  result.submit_s = job.submit_s;
  result.deadline_s = job.deadline_s;
  result.best_effort = job.deadline == DeadlineKind::kNone;
  result.soft = job.deadline == DeadlineKind::kSoft;
  return result;
}

}  // namespace

Simulation::Simulation(const Workload& workload, const Policy& policy,
                       const SimulateOptions& options)
    : workload_(workload),
      policy_(policy),
      options_(options),
      cost_(options.overhead == Overhead::kNone ? RescaleCost::None()
                                                : RescaleCost::ForCluster(workload.cluster.gpus())),
      placement_(workload.cluster),
      audit_(workload.cluster),
      rng_(options.seed) {
  result_.policy = std::string(policy.name());
  for (size_t i = 0; i < workload.trace.jobs.size(); ++i) {
    result_.job_results.push_back(MakeResult(workload, i));
  }
}

absl::StatusOr<SimulationResult> Simulation::Run() {
  const absl::Time began = options_.clock ? options_.clock->Now() : absl::UnixEpoch();
  now_s_ = workload_.trace.jobs.front().submit_s;
  const double start_s = now_s_;
  ScheduleFailure();
  int64_t jobs_done = 0;
  for (;;) {
    double next = NextEvent();
    if (due_ && policy_.decides_by_slot()) next = std::max(now_s_, decided_s_ + options_.slot_s);
    if (next == kNever) break;
    Advance(next);
    if (!due_) continue;
    RUBATO_RETURN_IF_ERROR(Decide());
    if (options_.progress && ++jobs_done % 256 == 0) {
      options_.progress(static_cast<int64_t>(next_arrival_ - views_.size()));
    }
  }
  for (size_t i = 0; i < views_.size(); ++i) ClosePiece(i);
  TallyJobs(result_);
  result_.gpu_hours_offered = workload_.cluster.gpus() * (now_s_ - start_s) / 3600;
  result_.utilisation =
      result_.gpu_hours_offered > 0 ? result_.gpu_hours_used / result_.gpu_hours_offered : 0;
  TallyDecisions(decisions_, result_);
  if (options_.clock) {
    result_.wall_seconds = absl::ToDoubleSeconds(options_.clock->Now() - began);
  }
  return std::move(result_);
}

double Simulation::NextEvent() {
  double next = kNever;
  if (next_arrival_ < workload_.trace.jobs.size()) {
    next = workload_.trace.jobs[next_arrival_].submit_s;
  }
  if (std::exchange(ends_changed_, false)) {
    next_end_s_ = ends_.empty() ? kNever : *std::min_element(ends_.begin(), ends_.end());
  }
  next = std::min(next, next_end_s_);
  if (next == kNever && views_.empty()) return kNever;  // Failures alone keep nobody waiting.
  next = std::min(next, wake_s_);
  if (!repairs_.empty()) next = std::min(next, repairs_.front().first);
  // Jobs that no policy serves are not waited for, or failures would go on for ever.
  if (next < kNever) next = std::min(next, next_failure_s_);
  return std::max(next, now_s_);
}

void Simulation::Advance(double t) {
  // A slot may hold several events; each is handled at its own time.
  while (true) {
    const double next = NextEvent();
    now_s_ = std::min(next, t);
    if (next > t) break;
    EndJobs();
    FailAndRepair();
    AdmitArrivals();
    if (wake_s_ <= now_s_) {
      wake_s_ = kNever;
      due_ = true;
    }
    if (now_s_ >= t) break;
  }
}

void Simulation::EndJobs() {
  if (next_end_s_ > now_s_) return;
  for (size_t i = 0; i < views_.size();) {
    if (ends_[i] > now_s_) {
      ++i;
      continue;
    }
    ClosePiece(i);
    JobResult& result = result_.job_results[static_cast<size_t>(views_[i].id.value())];
    result.end_s = ends_[i];
    result.met = result.end_s <= result.deadline_s + kRounding;
    RUBATO_CHECK_OK(placement_.Apply({{views_[i].id, views_[i].pool, 0}}).status());
    Remove(i);
    due_ = true;
  }
}

void Simulation::AdmitArrivals() {
  while (next_arrival_ < workload_.trace.jobs.size() &&
         workload_.trace.jobs[next_arrival_].submit_s <= now_s_) {
    views_.push_back(MakeView(workload_, next_arrival_++));
    if (lately_.size() == 2 * kLatelyMax)
      lately_.erase(lately_.begin(), lately_.end() - kLatelyMax);
    lately_.push_back(views_.back());
    running_.push_back({.anchor_s = now_s_, .anchor_left = views_.back().remaining});
    holds_.push_back(0);
    ends_.push_back(kNever);
    due_ = true;
  }
}

void Simulation::ScheduleFailure() {
  if (options_.failures_per_node_day <= 0) return;
  const double per_s =
      options_.failures_per_node_day * static_cast<double>(workload_.cluster.nodes.size()) / kDay;
  next_failure_s_ = now_s_ + rng_.Exponential(1 / per_s);
}

void Simulation::FailAndRepair() {
  while (!repairs_.empty() && repairs_.front().first <= now_s_) {
    placement_.RepairNode(repairs_.front().second);
    audit_.RepairNode(repairs_.front().second);
    repairs_.erase(repairs_.begin());
    due_ = true;
  }
  if (next_failure_s_ > now_s_) return;
  const int node = static_cast<int>(rng_.Below(workload_.cluster.nodes.size()));
  ScheduleFailure();
  const bool down = std::any_of(repairs_.begin(), repairs_.end(),
                                [&](const auto& repair) { return repair.second == node; });
  if (down) return;
  ++result_.failures;
  Refresh();
  audit_.FailNode(node);
  for (JobId job : placement_.FailNode(node)) {
    // The survivors hold the model, so no work is lost, only time.
    const size_t i = IndexOf(job);
    ClosePiece(i);
    SetGpus(i, 0);
    views_[i].last_resize_s = now_s_;
    Restart(i, 0);
  }
  repairs_.push_back({now_s_ + options_.repair_s, node});
  due_ = true;
}

absl::Status Simulation::Decide() {
  Refresh();
  ClusterView view;
  view.now_s = now_s_;
  for (size_t p = 0; p < workload_.cluster.pools.size(); ++p) {
    const Pool& pool = workload_.cluster.pools[p];
    view.pools.push_back(
        {.gpus = placement_.alive_gpus(static_cast<int>(p)),
         .down = pool.gpus - placement_.alive_gpus(static_cast<int>(p)),
         .gpus_per_node = workload_.cluster.nodes[static_cast<size_t>(pool.first_node)].gpus});
  }
  view.jobs = views_.span();
  view.lately = lately_;
  if (lately_.size() > kLatelyMax) view.lately.remove_prefix(lately_.size() - kLatelyMax);
  view.cost = cost_;
  view.slot_s = options_.slot_s;
  view.cooldown_s = options_.cooldown_s;
  view.reserve_gpus = options_.reserve_gpus;
  const Clock* clock = options_.decision_clock ? options_.decision_clock : options_.clock;
  const absl::Time before = clock ? clock->Now() : absl::UnixEpoch();
  Plan plan = policy_.Decide(view);
  const absl::Time after = clock ? clock->Now() : absl::UnixEpoch();
  decisions_.push_back(
      {absl::ToDoubleMicroseconds(after - before), static_cast<int>(views_.size())});
  HonourCooldown(view, plan);
  if (absl::Status s = CheckPlan(view, plan); !s.ok()) return Broken(s);
  if (plan.wake_s <= now_s_) {
    return absl::InternalError(absl::StrFormat("%s: asked at %.3f s to be woken at %.3f s",
                                               policy_.name(), now_s_, plan.wake_s));
  }
  due_ = false;
  decided_s_ = now_s_;
  wake_s_ = plan.wake_s;
  promises_ = promises_ || !plan.promises.empty();
  for (size_t i = 0; i < plan.promises.size(); ++i) {
    running_[i].promise = std::move(plan.promises[i]);
  }
  return Apply(plan);
}

absl::Status Simulation::Apply(const Plan& plan) {
  for (size_t i = views_.size(); i-- > 0 && !views_[i].admitted;) {  // Newcomers are the last.
    views_[i].admitted = true;
    result_.job_results[static_cast<size_t>(views_[i].id.value())].admitted = true;
  }
  std::vector<Placement::Target> targets;
  for (size_t i = 0; i < views_.size(); ++i) {
    const Share& share = plan.shares[i];
    if (share.gpus == holds_[i] && (share.gpus == 0 || share.pool == views_[i].pool)) continue;
    targets.push_back({views_[i].id, share.pool, share.gpus});
  }
  auto applied = placement_.Apply(targets, plan.pinned);
  if (!applied.ok()) return Broken(applied.status());
  const Placement::Change& change = *applied;
  result_.migrations += change.migrations;
  for (const Placement::Target& target : targets) {
    const size_t i = IndexOf(target.job);
    ClosePiece(i);
    SetGpus(i, target.gpus);
    views_[i].pool = target.pool;
    views_[i].last_resize_s = now_s_;
    ++result_.job_results[static_cast<size_t>(views_[i].id.value())].resizes;
    if (views_[i].started_s == kNever && target.gpus > 0) {
      views_[i].started_s = now_s_;
      result_.job_results[static_cast<size_t>(views_[i].id.value())].start_s = now_s_;
    }
    if (target.gpus == 0) Restart(i, 0);
  }
  if (absl::Status s = Audit(plan, change.changed); !s.ok()) return Broken(s);
  Charge(change.changed);
  Refuse(plan);
  return absl::OkStatus();
}

absl::Status Simulation::Audit(const Plan& plan, const std::vector<JobId>& changed) {
  held_.clear();
  auto at = placement_.held().begin();  // By job, as the views are.
  const auto end = placement_.held().end();
  for (size_t i = 0; i < views_.size(); ++i) {
    if (holds_[i] == 0) continue;
    const JobView& view = views_[i];
    while (at != end && at->first < view.id) ++at;
    PlacementAudit::Held held{view.id, view.gpus, view.pool};
    if (at != end && at->first == view.id) held.where = at->second;
    held.pinned = std::binary_search(plan.pinned.begin(), plan.pinned.end(), view.id);
    held_.push_back(held);
  }
  return audit_.Look(held_, changed);
}

void Simulation::Charge(const std::vector<JobId>& changed) {
  if (options_.overhead != Overhead::kElasticflow) {
    for (JobId job : changed) {
      const size_t i = IndexOf(job);
      const bool free = options_.overhead == Overhead::kNone;
      const double pause_s = free            ? 0
                             : KnownSet(job) ? cost_.KnownSetSeconds()
                                             : cost_.Seconds(views_[i].gpus);
      Restart(i, pause_s);
    }
    return;
  }
  // Every k-th decision is a restart of all, k being the slot's length taken as a count.
  const int64_t count = static_cast<int64_t>(decisions_.size()) - 1;
  const bool restart =
      count > 0 && count % std::max<int64_t>(1, std::llround(options_.slot_s)) == 0;
  const double restart_s = cost_.base_s > 2 ? 47 : 27;
  std::vector<bool> known(views_.size());
  for (size_t i = 0; i < views_.size(); ++i) {
    if (views_[i].gpus > 0) known[i] = KnownSet(views_[i].id);
  }
  if (restart) known_sets_.clear();
  for (size_t i = 0; i < views_.size(); ++i) {
    if (views_[i].gpus == 0) continue;
    Restart(i, known[i] ? cost_.KnownSetSeconds()
                        : cost_.Seconds(views_[i].gpus) + (restart ? restart_s : 0));
  }
}

bool Simulation::KnownSet(JobId job) {
  uint64_t hash = 0;
  for (int gpu : placement_.Gpus(job)) hash = Mix(hash, static_cast<uint64_t>(gpu));
  return !known_sets_.insert(hash).second;
}

void Simulation::Restart(size_t i, double pause_s) {
  JobView& view = views_[i];
  Running& running = running_[i];
  running.anchor_left = LeftNow(i);
  running.anchor_s = now_s_ + pause_s;
  running.rate =
      view.gpus > 0 ? view.curve(view.pool)->Rate(view.gpus, placement_.SpanOf(view.id)) : 0;
  ends_[i] = running.rate > 0 ? running.anchor_s + running.anchor_left / running.rate : kNever;
  ends_changed_ = true;
  view.paused_until_s = running.anchor_s;
  if (pause_s <= 0) return;
  ++result_.rescales;
  result_.rescale_seconds += pause_s;
}

void Simulation::Refuse(const Plan& plan) {
  for (const Refusal& refusal : plan.refusals) {
    JobResult& result = result_.job_results[static_cast<size_t>(refusal.job.value())];
    result.admitted = false;
    result.refusal = refusal.reason;
    result.offer_deadline_s = refusal.offer_deadline_s.value_or(kNever);
    result.offer_iterations = refusal.offer_iterations.value_or(0);
    Remove(IndexOf(refusal.job));
  }
}

void Simulation::SetGpus(size_t i, int gpus) { views_[i].gpus = holds_[i] = gpus; }

void Simulation::CountService(size_t i) {
  const double held_s = now_s_ - running_[i].served_s;
  running_[i].served_s = now_s_;
  if (views_[i].gpus == 0) return;
  views_[i].ran_s += held_s;
  views_[i].gpu_seconds += held_s * views_[i].gpus;
}

void Simulation::ClosePiece(size_t i) {
  CountService(i);
  JobView& view = views_[i];
  Running& running = running_[i];
  const double held_s = now_s_ - running.piece_from_s;
  if (view.gpus > 0 && held_s > 0) {
    result_.gpu_hours_used += view.gpus * held_s / 3600;
    if (options_.record_pieces) {
      result_.pieces.push_back({view.id, running.piece_from_s, now_s_, view.gpus, view.pool});
    }
  }
  running.piece_from_s = now_s_;
}

void Simulation::Remove(size_t i) {
  views_.erase(i);
  running_.erase(i);
  holds_.erase(i);
  ends_.erase(i);
  ends_changed_ = true;
}

double Simulation::LeftNow(size_t i) const {
  const Running& running = running_[i];
  const double ran_s = std::max(0.0, now_s_ - running.anchor_s);
  return std::max(0.0, running.anchor_left - running.rate * ran_s);
}

void Simulation::Refresh() {
  for (size_t i = 0; i < views_.size(); ++i) {
    if (promises_) views_[i].promise = running_[i].promise;  // They change place when others end.
    if (holds_[i] == 0) continue;  // Nothing changed: it waits, and ClosePiece ends its waiting.
    views_[i].remaining = LeftNow(i);
    CountService(i);
  }
}

absl::Status Simulation::Broken(const absl::Status& status) const {
  std::string text(status.message());
  const std::string prefix = absl::StrCat(ScheduledJobTag::kPrefix, "-");
  for (size_t at = text.find(prefix); at != std::string::npos; at = text.find(prefix, at)) {
    const size_t digits = at + prefix.size();
    const size_t end = std::min(text.find_first_not_of("0123456789", digits), text.size());
    size_t job = 0;
    if (!absl::SimpleAtoi(text.substr(digits, end - digits), &job) ||
        job >= workload_.trace.jobs.size()) {
      at = digits;
      continue;
    }
    const TraceJob& named = workload_.trace.jobs[job];
    const std::string name = absl::StrCat(
        "job ", named.name, named.line > 0 ? absl::StrCat(" (line ", named.line, ")") : "");
    text.replace(at, end - at, name);
    at += name.size();
  }
  return Annotate(absl::Status(status.code(), text), policy_.name());
}

size_t Simulation::IndexOf(JobId id) const {
  const auto at = std::lower_bound(views_.begin(), views_.end(), id,
                                   [](const JobView& view, JobId want) { return view.id < want; });
  RUBATO_CHECK(at != views_.end() && at->id == id);
  return static_cast<size_t>(at - views_.begin());
}

}  // namespace rubato
