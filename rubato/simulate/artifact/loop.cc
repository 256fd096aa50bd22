#include "rubato/simulate/artifact/loop.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_format.h"
#include "rubato/base/status.h"

namespace rubato {
namespace {

constexpr double kRestart = 27, kRestartLarge = 47;
constexpr int kLargeCluster = 256;

// The peak of its curve, except where the artifact's table says otherwise.
int PeakCap(const TraceJob& job, const Curve& curve, absl::string_view gpu_type) {
  if (gpu_type == "T4" && job.model == "bert") return 16;
  if (gpu_type == "T4" && job.model == "ncf") return 1;
  return curve.peak_gpus();
}

}  // namespace

ArtifactLoop::ArtifactLoop(const Workload& workload, const SimulateOptions& options,
                           ArtifactCap cap)
    : options_(options),
      slot_(options.slot_s),
      gpus_(workload.cluster.gpus()),
      nodes_(workload.cluster),
      cost_(RescaleCost::ForCluster(gpus_)) {
  for (size_t i = 0; i < workload.trace.jobs.size(); ++i) {
    const TraceJob& from = workload.trace.jobs[i];
    auto job = std::make_unique<ArtifactJob>();
    job->index = i;
    job->curve = workload.curves[i][0];
    job->submit = from.submit_s;
    job->best_effort = from.deadline == DeadlineKind::kNone;
    if (!job->best_effort) job->deadline = from.deadline_s;
    job->duration = from.duration_s;
    job->gpus = from.asked_gpus;
    job->left = from.iterations;
    job->max_gpus = cap == ArtifactCap::kPeak
                        ? PeakCap(from, *job->curve, workload.cluster.pools[0].gpu_type)
                        : std::min({job->curve->max_gpus(), 64, from.batch_size});
    events_.AddStart(job.get(), job->submit);
    jobs_.push_back(std::move(job));
    result_.job_results.push_back({.id = JobId(static_cast<int64_t>(i)),
                                   .submit_s = from.submit_s,
                                   .deadline_s = from.deadline_s,
                                   .best_effort = from.deadline == DeadlineKind::kNone,
                                   .soft = from.deadline == DeadlineKind::kSoft,
                                   .admitted = true});
  }
}

absl::StatusOr<SimulationResult> ArtifactLoop::Run(absl::string_view policy) {
  const absl::Time began = options_.clock ? options_.clock->Now() : absl::UnixEpoch();
  now_ = events_.first_time();
  const double start = now_;
  RUBATO_RETURN_IF_ERROR(RunLoop());
  result_.policy = std::string(policy);
  TallyJobs(result_);
  double last = start;
  for (const JobResult& job : result_.job_results) {
    if (job.end_s < kNever) last = std::max(last, job.end_s);
  }
  result_.gpu_hours_offered = gpus_ * (last - start) / 3600;
  if (last > start) result_.utilisation = result_.gpu_hours_used / result_.gpu_hours_offered;
  TallyDecisions(times_, result_);
  if (options_.clock) {
    result_.wall_seconds = absl::ToDoubleSeconds(options_.clock->Now() - began);
  }
  return std::move(result_);
}

void ArtifactLoop::Progress(double seconds) {
  CountGpuSeconds(runnable_, seconds);
  for (ArtifactJob* job : runnable_) {
    if (job->gpus == 0) continue;
    const double rate = job->Rate(job->gpus);
    const double planned_end = job->real_end >= 0 ? job->real_end : job->end;
    const double ran = seconds - std::max(0.0, now_ - planned_end);
    double done = std::max(0.0, ran - job->overhead) * rate;
    if (job->left <= done && job->end > now_) {
      const double end = now_ - seconds + std::ceil(job->left / rate);
      done = (job->end - now_ + seconds) * rate;
      job->old_end = job->end;
      job->end = now_;
      events_.MoveEnd(job);
      job->end = end;
    }
    job->left -= done;
    job->overhead = 0;
  }
}

void ArtifactLoop::Finish(ArtifactJob* job, double logged_end, double tested_end) {
  JobResult& result = result_.job_results[job->index];
  result.end_s = logged_end;
  result.met = tested_end <= job->deadline;
  std::erase(running_, job);
  std::erase(runnable_, job);
  if (options_.progress && ++done_ % 64 == 0) options_.progress(done_);
}

void ArtifactLoop::Refuse(ArtifactJob* job, const char* reason) {
  result_.job_results[job->index].admitted = false;
  result_.job_results[job->index].refusal = reason;
  ++done_;
}

void ArtifactLoop::Start(ArtifactJob* job) {
  JobResult& result = result_.job_results[job->index];
  if (result.start_s == kNever) result.start_s = now_;
}

bool ArtifactLoop::CountDecision() {
  const int64_t every = std::max<int64_t>(1, std::llround(slot_));
  const bool restart = decisions_ > 0 && decisions_ % every == 0;
  ++decisions_;
  return restart;
}

double ArtifactLoop::OverheadOf(int gpus, bool restart, bool known_set) const {
  if (known_set) return cost_.KnownSetSeconds();
  const double restart_s = gpus_ >= kLargeCluster ? kRestartLarge : kRestart;
  return cost_.Seconds(gpus) + (restart ? restart_s : 0);
}

void ArtifactLoop::Charge(ArtifactJob* job, bool restart) {
  job->overhead = OverheadOf(job->gpus, restart, job->known_set);
  job->old_end = job->end;
  job->end += job->overhead;
  events_.MoveEnd(job);
  ++result_.rescales;
  result_.rescale_seconds += job->overhead;
}

absl::Status ArtifactLoop::CheckShares(const std::vector<ArtifactJob*>& jobs) {
  int used = 0;
  for (const ArtifactJob* job : jobs) {
    used += job->gpus;
    if (job->gpus == 0 || job->curve->Legal(job->gpus)) continue;
    return absl::InternalError(absl::StrFormat("at %.0f s job %d has %d GPUs, not a profiled count",
                                               now_, job->index, job->gpus));
  }
  if (used <= gpus_) return absl::OkStatus();
  return absl::InternalError(
      absl::StrFormat("at %.0f s %d GPUs are planned of %d", now_, used, gpus_));
}

void ArtifactLoop::BeginDecision() {
  decision_clock_ = options_.decision_clock ? options_.decision_clock : options_.clock;
  if (decision_clock_) decision_began_ = decision_clock_->Now();
}

void ArtifactLoop::EndDecision(size_t active) {
  const absl::Duration took =
      decision_clock_ ? decision_clock_->Now() - decision_began_ : absl::ZeroDuration();
  times_.push_back({absl::ToDoubleMicroseconds(took), static_cast<int>(active)});
}

void ArtifactLoop::CountGpuSeconds(const std::vector<ArtifactJob*>& jobs, double seconds) {
  for (const ArtifactJob* job : jobs) {
    result_.gpu_hours_used += job->gpus * seconds / 3600;
    if (!options_.record_pieces || job->gpus == 0 || seconds <= 0) continue;
    const JobId id(static_cast<int64_t>(job->index));
    result_.pieces.push_back({id, now_ - seconds, now_, job->gpus, 0});
  }
}

}  // namespace rubato
