// elasticflow: admission by minimum satisfactory share, growth by least extra GPU time, as the
// ElasticFlow paper states them, with the public code's defects mended: arrivals are tested one by
// one, a job that is late anyway vetoes nobody, and the job whose GPU time grows least comes first.
//
// `elasticflow-artifact` keeps those defects: arrivals of one decision stand or fall together, one
// late job refuses them all, and the job whose GPU time grows most is served first.
//
// Neither knows floors: what falls below one is raised to it, or given up, at the end. Neither puts
// the cost of rescaling into its plan, so an admitted job may still be late.
#include <algorithm>
#include <optional>
#include <queue>

#include "rubato/schedule/budget.h"
#include "rubato/schedule/fill.h"
#include "rubato/schedule/policies.h"

namespace rubato {
namespace {

class Elasticflow : public Policy {
 public:
  explicit Elasticflow(bool defects) : defects_(defects) {}
  absl::string_view name() const override {
    return defects_ ? "elasticflow-artifact" : "elasticflow";
  }
  bool decides_by_slot() const override { return defects_; }
  Plan Decide(const ClusterView& view) const override;

 private:
  const bool defects_;
};

// The state of one decision.
class Planner {
 public:
  Planner(const ClusterView& view, bool defects) : view_(view), defects_(defects) {
    order_ = OrderBy(view, [](const JobView& job) { return job.deadline_s; });
    states_.resize(view.jobs.size());
    for (size_t i = 0; i < states_.size(); ++i) {
      states_[i].pool = HomePool(view.jobs[i]);
      states_[i].in = view.jobs[i].admitted;
    }
    for (const PoolView& pool : view.pools) profiles_.emplace_back(view.now_s, pool.gpus);
  }

  Plan Run() {
    Admit();
    if (!filled_) FillAll();
    Grow();
    Plan plan;
    plan.shares.resize(view_.jobs.size());
    for (size_t i = 0; i < states_.size(); ++i) {
      if (states_[i].in) {
        plan.shares[i] = {states_[i].gpus, states_[i].pool};
      } else {
        plan.refusals.push_back(
            {view_.jobs[i].id, "the minimum satisfactory shares do not fit", std::nullopt});
      }
    }
    RaiseToFloors(view_, plan.shares);
    // A plan changes where a profile does; a job waiting for GPUs must be woken for them.
    for (const Profile& profile : profiles_) {
      if (profile.size() > 1) plan.wake_s = std::min(plan.wake_s, profile.from_s(1));
    }
    if (plan.wake_s < view_.now_s + view_.slot_s) plan.wake_s = view_.now_s + view_.slot_s;
    return plan;
  }

 private:
  struct State {
    bool in = false;
    int pool = 0;
    int gpus = 0;     // Now.
    Filling filling;  // Its plan; not in_time if it is late or has no deadline.
    bool late = false;
  };

  FillRequest Request(size_t i) const {
    const JobView& job = view_.jobs[i];
    return {.curve = job.curve(states_[i].pool),
            .work = job.remaining,
            .from_s = view_.now_s,
            .deadline_s = job.deadline_s,
            .max_gpus = std::min(job.max_gpus, job.curve(states_[i].pool)->peak_gpus())};
  }
  Profile& ProfileOf(size_t i) { return profiles_[static_cast<size_t>(states_[i].pool)]; }

  // Plans job i into what its pool has left, if it is in. Best-effort jobs are planned by Grow.
  void Fill(size_t i) {
    State& state = states_[i];
    state.filling = {};
    state.gpus = 0;
    state.late = false;
    if (!state.in || view_.jobs[i].deadline == DeadlineKind::kNone) return;
    state.filling = FillByLevels(Request(i), ProfileOf(i));
    if (!state.filling.in_time) {
      state.late = true;
      state.filling = FillEarly(Request(i), ProfileOf(i));
      state.filling.in_time = false;
    }
    state.gpus = state.filling.first_gpus;
  }

  // Plans all that are in, in deadline order; returns how many are late. Keeps what the first of
  // `newcomers` found, for FillAgain.
  size_t FillAll(absl::Span<const size_t> newcomers = {}) {
    for (size_t p = 0; p < profiles_.size(); ++p) {
      profiles_[p].Reset(view_.now_s, view_.pools[p].gpus);
    }
    again_ = std::find_first_of(order_.begin(), order_.end(), newcomers.begin(), newcomers.end());
    for (auto at = order_.begin(); at != order_.end(); ++at) {
      if (at == again_) before_ = profiles_;
      Fill(*at);
    }
    filled_ = true;
    return CountLate();
  }

  // The same, when since FillAll only its newcomers came in or went: those before them stay.
  size_t FillAgain() {
    profiles_ = before_;
    for (auto at = again_; at != order_.end(); ++at) Fill(*at);
    return CountLate();
  }

  size_t CountLate() const {
    return static_cast<size_t>(std::count_if(states_.begin(), states_.end(),
                                             [](const State& state) { return state.late; }));
  }

  void Admit() {
    std::vector<size_t> newcomers;
    for (size_t i = 0; i < states_.size(); ++i) {
      if (!states_[i].in) newcomers.push_back(i);
    }
    if (defects_ && !newcomers.empty()) AdmitTogether(newcomers);
    for (size_t i : newcomers) {
      if (!defects_) AdmitOne(i);
    }
  }

  void AdmitTogether(absl::Span<const size_t> newcomers) {
    for (size_t i : newcomers) states_[i].in = true;
    if (FillAll(newcomers) == 0) return;
    for (size_t i : newcomers) states_[i].in = view_.jobs[i].deadline != DeadlineKind::kHard;
    FillAgain();
  }

  void AdmitOne(size_t i) {
    states_[i].in = true;
    const size_t late = FillAll({i});
    if (late == 0 || view_.jobs[i].deadline != DeadlineKind::kHard) return;
    std::vector<State> with = states_;
    std::vector<Profile> profiles_with = profiles_;
    states_[i].in = false;  // Someone is late; but would they be without it?
    if (late > FillAgain()) return;
    states_ = std::move(with);
    profiles_ = std::move(profiles_with);
  }

  // How much the job's GPU time would grow, per GPU, at its next size; none if it may not grow
  // or would not end sooner.
  std::optional<double> Growth(size_t i, int next) {
    const JobView& job = view_.jobs[i];
    const State& state = states_[i];
    const Curve& curve = *job.curve(state.pool);
    const double work = job.remaining;
    if (state.gpus == 0) return 0;
    // Steady at either size from now on: what the plan comes to when re-planned at every event.
    const double now_rate = curve.Rate(state.gpus), next_rate = curve.Rate(next);
    if (next_rate <= now_rate) return std::nullopt;
    const double before =
        state.filling.in_time ? state.filling.gpu_seconds : state.gpus * work / now_rate;
    return (next * work / next_rate - before) / (next - state.gpus);
  }

  // Gives everyone the largest useful size, if there is room for that: in which order they grow is
  // then of no account.
  bool GrowAll() {
    Budget budget(view_);
    std::vector<int> gpus(states_.size());
    for (size_t i = 0; i < states_.size(); ++i) {
      const State& state = states_[i];
      if (!state.in) continue;
      const JobView& job = view_.jobs[i];
      gpus[i] = std::max(state.gpus, job.curve(state.pool)->UsefulAtMost(job.max_gpus));
      if (gpus[i] > budget.free(state.pool)) return false;
      budget.Take({gpus[i], state.pool});
    }
    for (size_t i = 0; i < states_.size(); ++i) states_[i].gpus = gpus[i];
    return true;
  }

  void Grow() {
    if (GrowAll()) return;
    struct Candidate {
      double growth;
      size_t job;
      int next;
      bool operator<(const Candidate& other) const {  // The queue's top is the least growth.
        return growth != other.growth ? growth > other.growth : job > other.job;
      }
    };
    std::priority_queue<Candidate> queue;
    Budget budget(view_);
    const auto push = [&](size_t i) {
      const Curve& curve = *view_.jobs[i].curve(states_[i].pool);
      const int next = curve.UsefulAfter(states_[i].gpus);
      const int more = next - states_[i].gpus;
      // What does not fit now will not later either: nobody gives anything back.
      if (more == 0 || next > view_.jobs[i].max_gpus || more > budget.free(states_[i].pool)) return;
      if (const auto growth = Growth(i, next)) {
        const bool flip = defects_ && states_[i].gpus > 0;
        queue.push({flip ? -*growth : *growth, i, next});
      }
    };
    for (const State& state : states_) {
      if (state.in) budget.Take({state.gpus, state.pool});
    }
    for (size_t i = 0; i < states_.size(); ++i) {
      if (states_[i].in) push(i);
    }
    while (!queue.empty() && !budget.empty()) {
      const Candidate top = queue.top();
      queue.pop();
      State& state = states_[top.job];
      if (top.next - state.gpus > budget.free(state.pool)) continue;
      budget.Take({top.next - state.gpus, state.pool});
      state.gpus = top.next;
      push(top.job);
    }
  }

  const ClusterView& view_;
  const bool defects_;
  std::vector<size_t> order_;  // By deadline.
  std::vector<State> states_;
  std::vector<Profile> profiles_;
  bool filled_ = false;                  // With those who are in now.
  std::vector<size_t>::iterator again_;  // Where FillAgain begins in the order,
  std::vector<Profile> before_;          // and what was left there.
};

Plan Elasticflow::Decide(const ClusterView& view) const { return Planner(view, defects_).Run(); }

}  // namespace

std::unique_ptr<Policy> MakeElasticflow() { return std::make_unique<Elasticflow>(false); }
std::unique_ptr<Policy> MakeElasticflowArtifact() { return std::make_unique<Elasticflow>(true); }

}  // namespace rubato
