// Earliest deadline first as the public code has it (`edf`, `edf-accessctrl`).
#include <algorithm>

#include "rubato/base/status.h"
#include "rubato/simulate/artifact/fill.h"
#include "rubato/simulate/artifact/loop.h"

namespace rubato {
namespace {

bool ByDeadline(const ArtifactJob* a, const ArtifactJob* b) { return a->deadline < b->deadline; }

// What both variants do alike.
class EdfBase : public ArtifactLoop {
 public:
  EdfBase(const Workload& workload, const SimulateOptions& options, ArtifactCap cap,
          bool pays_overhead)
      : ArtifactLoop(workload, options, cap), pays_overhead_(pays_overhead) {}

 protected:
  absl::Status RunLoop() override {
    double passed = 0;
    while (!events_.empty()) {
      Progress(passed);
      for (ArtifactJob* job : runnable_) job->old_end = job->end;
      const ArtifactEvent event = events_.Take(now_);
      LeaveNodes(event.ends);
      for (ArtifactJob* job : event.ends) Finish(job, job->end, job->end);
      BeginDecision();
      Decide(event.starts);
      EndDecision(runnable_.size());
      RUBATO_RETURN_IF_ERROR(CheckShares(runnable_));
      nodes_.FindKnownSets();
      if (events_.empty()) break;
      const bool restart = CountDecision();
      if (restart) nodes_.ForgetKnownSets();
      for (ArtifactJob* job : running_) {
        if (pays_overhead_ && job->gpus > 0) Charge(job, restart);
      }
      events_.MergeWithin(now_, slot_);
      passed = events_.first_time() - now_;
      now_ = events_.first_time();
    }
    return absl::OkStatus();
  }

  virtual void Decide(const std::vector<ArtifactJob*>& starts) = 0;
  // Takes everyone off the nodes; the order decides which nodes are taken first later.
  virtual void LeaveNodes(const std::vector<ArtifactJob*>& ends) = 0;

  // Forecasts everyone in deadline order into `next_plan` and `next_end`. False if anyone is late.
  bool Forecast(std::vector<ArtifactJob*>& jobs) {
    std::stable_sort(jobs.begin(), jobs.end(), ByDeadline);
    ArtifactSteps free(ArtifactStep{now_, gpus_});
    bool in_time = true;
    for (ArtifactJob* job : jobs) {
      ArtifactFill result = FillGreedily(*job, now_, slot_, gpus_, free);
      in_time = in_time && result.in_time;
      free = std::move(result.free);
      job->next_plan = std::move(result.plan);
      job->next_end = result.end;
    }
    return in_time;
  }

  bool IsPending(const ArtifactJob* job) const {
    return std::find(pending_.begin(), pending_.end(), job) != pending_.end();
  }
  void Accept(ArtifactJob* job) {
    pending_.push_back(job);
    runnable_.push_back(job);
  }
  void Launch(ArtifactJob* job) {
    std::erase(pending_, job);
    running_.push_back(job);
    Start(job);
    events_.AddEnd(job, job->end);
  }
  void Adopt(ArtifactJob* job) {
    job->gpus = job->next_plan.Get(now_);
    job->old_end = job->end;
    job->end = job->next_end;
  }

 private:
  const bool pays_overhead_;
};

class EdfLoop : public EdfBase {
 public:
  using EdfBase::EdfBase;

 protected:
  void LeaveNodes(const std::vector<ArtifactJob*>& ends) override {
    nodes_.Release(ends);
    nodes_.Release(running_);
  }

  void Decide(const std::vector<ArtifactJob*>& starts) override {
    if (starts.empty()) {
      Forecast(runnable_);
    } else {
      std::vector<ArtifactJob*> all = runnable_;
      all.insert(all.end(), starts.begin(), starts.end());
      Forecast(all);
      for (ArtifactJob* job : starts) Accept(job);
    }
    std::vector<ArtifactJob*> placed;
    for (ArtifactJob* job : runnable_) {
      Adopt(job);
      if (job->gpus > 0) placed.push_back(job);
      if (!IsPending(job)) {
        events_.MoveEnd(job);
      } else if (job->gpus > 0) {
        Launch(job);
      }
    }
    std::stable_sort(placed.begin(), placed.end(),
                     [](const ArtifactJob* a, const ArtifactJob* b) { return a->gpus > b->gpus; });
    for (ArtifactJob* job : placed) nodes_.Place(job);
  }
};

class EdfAdmissionLoop : public EdfBase {
 public:
  using EdfBase::EdfBase;

 protected:
  void LeaveNodes(const std::vector<ArtifactJob*>&) override { nodes_.Release(runnable_); }

  void Decide(const std::vector<ArtifactJob*>& starts) override {
    bool admitted = false;
    for (ArtifactJob* job : starts) {
      std::vector<ArtifactJob*> all = runnable_;
      all.push_back(job);
      if (!Forecast(all)) {
        Refuse(job, "the deadlines of all could not be kept");
        continue;
      }
      admitted = true;
      Accept(job);
      AdoptAll();
    }
    if (!admitted) AdoptForecast();
    for (ArtifactJob* job : runnable_) {
      if (job->gpus > 0) nodes_.Place(job);
    }
  }

 private:
  void AdoptAll() {
    for (ArtifactJob* job : running_) {
      Adopt(job);
      events_.MoveEnd(job);
    }
    std::vector<ArtifactJob*> starting;
    for (ArtifactJob* job : pending_) {
      Adopt(job);
      if (job->gpus > 0) starting.push_back(job);
    }
    for (ArtifactJob* job : starting) Launch(job);
  }

  // Jobs that get nothing now keep the end forecast for them before, as in the artifact.
  void AdoptForecast() {
    Forecast(runnable_);
    for (ArtifactJob* job : runnable_) {
      job->gpus = job->next_plan.Get(now_);
      if (job->gpus == 0) continue;
      if (IsPending(job)) Launch(job);
      job->end = job->next_end;
      events_.MoveEnd(job);
    }
  }
};

}  // namespace

std::unique_ptr<ArtifactLoop> MakeEdfLoop(const Workload& workload, const SimulateOptions& options,
                                          ArtifactCap cap, bool pays_overhead) {
  return std::make_unique<EdfLoop>(workload, options, cap, pays_overhead);
}

std::unique_ptr<ArtifactLoop> MakeEdfAdmissionLoop(const Workload& workload,
                                                   const SimulateOptions& options,
                                                   ArtifactCap cap) {
  return std::make_unique<EdfAdmissionLoop>(workload, options, cap, true);
}

}  // namespace rubato
