// Earliest deadline first as the public code has it (`edf`, `edf-accessctrl`).
#include <algorithm>

#include "rubato/base/status.h"
#include "rubato/simulate/artifact/fill.h"
#include "rubato/simulate/artifact/loop.h"

namespace rubato::artifact {
namespace {

bool ByDeadline(const Job* a, const Job* b) { return a->deadline < b->deadline; }

// What both variants do alike.
class EdfBase : public Loop {
 public:
  EdfBase(const Workload& workload, const SimulateOptions& options, Cap cap, bool pays_overhead)
      : Loop(workload, options, cap), pays_overhead_(pays_overhead) {}

 protected:
  absl::Status RunLoop() override {
    double passed = 0;
    while (!events_.empty()) {
      Progress(passed);
      for (Job* job : runnable_) job->old_end = job->end;
      const Event event = events_.Take(now_);
      LeaveNodes(event.ends);
      for (Job* job : event.ends) Finish(job, job->end, job->end);
      BeginDecision();
      Decide(event.starts);
      EndDecision(runnable_.size());
      RUBATO_RETURN_IF_ERROR(CheckShares(runnable_));
      nodes_.FindKnownSets();
      if (events_.empty()) break;
      const bool restart = CountDecision();
      if (restart) nodes_.ForgetKnownSets();
      for (Job* job : running_) {
        if (pays_overhead_ && job->gpus > 0) Charge(job, restart);
      }
      events_.MergeWithin(now_, slot_);
      passed = events_.first_time() - now_;
      now_ = events_.first_time();
    }
    return absl::OkStatus();
  }

  virtual void Decide(const std::vector<Job*>& starts) = 0;
  // Takes everyone off the nodes; the order decides which nodes are taken first later.
  virtual void LeaveNodes(const std::vector<Job*>& ends) = 0;

  // Forecasts everyone in deadline order into `next_plan` and `next_end`. False if anyone is late.
  bool Forecast(std::vector<Job*>& jobs) {
    std::stable_sort(jobs.begin(), jobs.end(), ByDeadline);
    Steps free(Step{now_, gpus_});
    bool in_time = true;
    for (Job* job : jobs) {
      FillResult result = FillGreedily(*job, now_, slot_, gpus_, free);
      in_time = in_time && result.in_time;
      free = std::move(result.free);
      job->next_plan = std::move(result.plan);
      job->next_end = result.end;
    }
    return in_time;
  }

  bool IsPending(const Job* job) const {
    return std::find(pending_.begin(), pending_.end(), job) != pending_.end();
  }
  void Accept(Job* job) {
    pending_.push_back(job);
    runnable_.push_back(job);
  }
  void Launch(Job* job) {
    std::erase(pending_, job);
    running_.push_back(job);
    Start(job);
    events_.AddEnd(job, job->end);
  }
  void Adopt(Job* job) {
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
  void LeaveNodes(const std::vector<Job*>& ends) override {
    nodes_.Release(ends);
    nodes_.Release(running_);
  }

  void Decide(const std::vector<Job*>& starts) override {
    if (starts.empty()) {
      Forecast(runnable_);
    } else {
      std::vector<Job*> all = runnable_;
      all.insert(all.end(), starts.begin(), starts.end());
      Forecast(all);
      for (Job* job : starts) Accept(job);
    }
    std::vector<Job*> placed;
    for (Job* job : runnable_) {
      Adopt(job);
      if (job->gpus > 0) placed.push_back(job);
      if (!IsPending(job)) {
        events_.MoveEnd(job);
      } else if (job->gpus > 0) {
        Launch(job);
      }
    }
    std::stable_sort(placed.begin(), placed.end(),
                     [](const Job* a, const Job* b) { return a->gpus > b->gpus; });
    for (Job* job : placed) nodes_.Place(job);
  }
};

class EdfAdmissionLoop : public EdfBase {
 public:
  using EdfBase::EdfBase;

 protected:
  void LeaveNodes(const std::vector<Job*>&) override { nodes_.Release(runnable_); }

  void Decide(const std::vector<Job*>& starts) override {
    bool admitted = false;
    for (Job* job : starts) {
      std::vector<Job*> all = runnable_;
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
    for (Job* job : runnable_) {
      if (job->gpus > 0) nodes_.Place(job);
    }
  }

 private:
  void AdoptAll() {
    for (Job* job : running_) {
      Adopt(job);
      events_.MoveEnd(job);
    }
    std::vector<Job*> starting;
    for (Job* job : pending_) {
      Adopt(job);
      if (job->gpus > 0) starting.push_back(job);
    }
    for (Job* job : starting) Launch(job);
  }

  // Jobs that get nothing now keep the end forecast for them before, as in the artifact.
  void AdoptForecast() {
    Forecast(runnable_);
    for (Job* job : runnable_) {
      job->gpus = job->next_plan.Get(now_);
      if (job->gpus == 0) continue;
      if (IsPending(job)) Launch(job);
      job->end = job->next_end;
      events_.MoveEnd(job);
    }
  }
};

}  // namespace

std::unique_ptr<Loop> MakeEdfLoop(const Workload& workload, const SimulateOptions& options, Cap cap,
                                  bool pays_overhead) {
  return std::make_unique<EdfLoop>(workload, options, cap, pays_overhead);
}

std::unique_ptr<Loop> MakeEdfAdmissionLoop(const Workload& workload, const SimulateOptions& options,
                                           Cap cap) {
  return std::make_unique<EdfAdmissionLoop>(workload, options, cap, true);
}

}  // namespace rubato::artifact
