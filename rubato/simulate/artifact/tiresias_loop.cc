// Tiresias as the public code has it (`dlas-gpu`): least attained service in three queues, jobs of
// the asked size, first fit in order of arrival within a queue, no way back up.
#include <algorithm>
#include <cmath>
#include <map>

#include "rubato/base/status.h"
#include "rubato/simulate/artifact/loop.h"

namespace rubato {
namespace {

constexpr int kQueues = 3;
constexpr double kLimits[] = {3250, 7200};  // GPU seconds until the next queue.
constexpr double kFar = 9e18;

class TiresiasLoop : public ArtifactLoop {
 public:
  TiresiasLoop(const Workload& workload, const SimulateOptions& options)
      : ArtifactLoop(workload, options, ArtifactCap::kWidest), state_(jobs_.size()) {}

 protected:
  absl::Status RunLoop() override {
    while (!events_.empty() || !runnable_.empty()) {
      const double start = events_.empty() ? kFar : events_.first_time();
      if (start == kFar && end_at_ == kFar) break;  // The cluster is too small for the rest.
      const double time = std::min({start, end_at_, jump_at_});
      const double before = now_;
      now_ = time;
      CountService(time - before);
      // A jump earlier than both is an event of its own; at the same time it is part of theirs.
      if (time == end_at_) EndJobs();
      if (time == start) {
        for (ArtifactJob* job : events_.Take(time).starts) Arrive(job);
      }
      UpdateService();
      BeginDecision();
      const bool restart = CountDecision();
      Choose(restart);
      EndDecision(runnable_.size());
      RUBATO_RETURN_IF_ERROR(CheckRunning());
      std::stable_sort(
          runnable_.begin(), runnable_.end(),
          [](const ArtifactJob* a, const ArtifactJob* b) { return a->gpus > b->gpus; });
      ForecastEnd(restart);
      ForecastJump();
      if (jump_at_ - now_ < slot_) jump_at_ = now_ + slot_;
      events_.MergeWithin(now_, slot_);
    }
    return absl::OkStatus();
  }

 private:
  struct State {
    bool running = false;
    int queue = 0;
    double checked = 0;
    double executed = 0;  // Seconds of progress.
  };
  State& of(const ArtifactJob* job) { return state_[job->index]; }

  absl::Status CheckRunning() {
    std::vector<ArtifactJob*> holders;
    for (ArtifactJob* job : runnable_) {
      if (of(job).running) holders.push_back(job);
    }
    return CheckShares(holders);
  }

  void CountService(double seconds) {
    std::vector<ArtifactJob*> holders;
    for (ArtifactJob* job : runnable_) {
      if (of(job).running) holders.push_back(job);
    }
    CountGpuSeconds(holders, seconds);
  }

  void EndJobs() {
    for (ArtifactJob* job : ending_) {
      std::erase(queues_[of(job).queue], job);
      Finish(job, job->end, job->end);
    }
    ending_.clear();
    end_at_ = kFar;
  }

  void Arrive(ArtifactJob* job) {
    runnable_.push_back(job);
    of(job) = {.checked = job->submit};
    queues_[0].push_back(job);
  }

  void UpdateService() {
    for (ArtifactJob* job : runnable_) {
      State& state = of(job);
      if (state.running) {
        state.executed += std::max(std::trunc(now_ - state.checked) - job->overhead, 0.0);
        job->overhead = 0;
        if (state.queue < kQueues - 1 && state.executed * job->gpus >= kLimits[state.queue]) {
          std::erase(queues_[state.queue], job);
          queues_[++state.queue].push_back(job);
        }
      }
      state.checked = now_;
    }
  }

  // Who fits runs, queue by queue; those that wait go to the back of their queue.
  void Choose(bool restart) {
    int free = gpus_;
    for (std::vector<ArtifactJob*>& queue : queues_) {
      for (ArtifactJob* job : queue) {
        State& state = of(job);
        const bool fits = job->gpus <= free;
        if (fits) free -= job->gpus;
        if (fits && !state.running) {
          job->overhead = OverheadOf(job->gpus, restart, false);
          Start(job);
        }
        state.running = fits;
      }
      std::stable_partition(queue.begin(), queue.end(),
                            [&](const ArtifactJob* job) { return of(job).running; });
    }
  }

  // The overhead of a start is felt only in the books of progress, not in the forecast.
  void ForecastEnd(bool restart) {
    ending_.clear();
    end_at_ = kFar;
    for (ArtifactJob* job : runnable_) {
      if (!of(job).running) continue;
      double left = job->duration - of(job).executed;
      if (restart) {
        job->overhead = OverheadOf(job->gpus, restart, false);
        left += job->overhead;
      }
      const double end = std::trunc(now_ + left);
      const double at = std::max(now_ + slot_, end);
      if (at > end_at_) continue;
      if (at < end_at_) ending_.clear();
      end_at_ = at;
      ending_.push_back(job);
      job->end = end;
    }
  }

  // When the next job falls into a lower queue: seconds divided by GPUs, an old slip.
  void ForecastJump() {
    jump_at_ = kFar;
    for (const ArtifactJob* job : runnable_) {
      const State& state = of(job);
      if (!state.running || state.queue >= kQueues - 1) continue;
      const double seconds = std::ceil((kLimits[state.queue] - state.executed) / job->gpus);
      jump_at_ = std::min(jump_at_, seconds + now_);
    }
  }

  std::vector<State> state_;
  std::vector<ArtifactJob*> queues_[kQueues];
  std::vector<ArtifactJob*> ending_;  // Who ends at end_at_.
  double end_at_ = kFar;
  double jump_at_ = kFar;
};

}  // namespace

std::unique_ptr<ArtifactLoop> MakeTiresiasLoop(const Workload& workload,
                                               const SimulateOptions& options) {
  return std::make_unique<TiresiasLoop>(workload, options);
}

}  // namespace rubato
