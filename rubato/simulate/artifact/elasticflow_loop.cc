// ElasticFlow as the public code has it (`ef-accessctrl`).
#include <algorithm>
#include <limits>

#include "rubato/base/status.h"
#include "rubato/simulate/artifact/fill.h"
#include "rubato/simulate/artifact/loop.h"

namespace rubato {
namespace {

constexpr double kBest = std::numeric_limits<double>::max();

bool ByDeadline(const ArtifactJob* a, const ArtifactJob* b) { return a->deadline < b->deadline; }
bool ByGpus(const ArtifactJob* a, const ArtifactJob* b) { return a->gpus > b->gpus; }
bool ByScore(const ArtifactJob* a, const ArtifactJob* b) { return a->score > b->score; }

class ElasticflowLoop : public ArtifactLoop {
 public:
  ElasticflowLoop(const Workload& workload, const SimulateOptions& options, ArtifactRepairs repairs)
      : ArtifactLoop(workload, options, ArtifactCap::kPeak), repairs_(repairs) {}

 protected:
  absl::Status RunLoop() override {
    double passed = 0;
    while (!events_.empty() || !pending_.empty() || !running_.empty()) {
      Progress(passed);
      const double decided = now_;
      if (events_.Has(now_)) {
        const ArtifactEvent event = events_.Take(now_);
        EndJobs(event.ends);
        if (runnable_.empty() && event.starts.empty()) {
          if (events_.empty()) break;
        }
        BeginDecision();
        Admit(event.starts);
        TakeShares();
      } else {
        BeginDecision();
      }
      StartPending();
      Grow();
      EndDecision(runnable_.size());
      RUBATO_RETURN_IF_ERROR(CheckShares(runnable_));
      PlaceAll();
      AddScaleEvent();
      if (events_.empty()) break;
      const bool restart = CountDecision();
      if (restart) nodes_.ForgetKnownSets();
      for (ArtifactJob* job : runnable_) {
        if (job->gpus > 0) Charge(job, restart);
      }
      events_.MergeWithin(now_, slot_);
      now_ = events_.first_time();
      passed = now_ - decided;
    }
    return absl::OkStatus();
  }

 private:
  void EndJobs(const std::vector<ArtifactJob*>& ends) {
    for (ArtifactJob* job : ends) {
      if (!job->placed) continue;
      nodes_.Release({job});
      Finish(job, job->real_end, job->real_end);
    }
  }

  void Plan(ArtifactJob* job, ArtifactFill result) {
    free_ = std::move(result.free);
    job->plan = std::move(result.plan);
    job->end = result.end;
    job->real_end = result.real_end;
  }

  // Plans `jobs` in deadline order. Returns those that will be late.
  std::vector<ArtifactJob*> PlanAll(std::vector<ArtifactJob*>& jobs) {
    std::vector<ArtifactJob*> late;
    free_ = ArtifactSteps(ArtifactStep{now_, gpus_});
    std::stable_sort(jobs.begin(), jobs.end(), ByDeadline);
    nodes_.Release(jobs);
    for (ArtifactJob* job : jobs) {
      ArtifactFill result = Fill(*job, now_, slot_, gpus_, free_);
      if (!result.in_time) late.push_back(job);
      Plan(job, std::move(result));
    }
    return late;
  }

  void Accept(ArtifactJob* job) {
    pending_.push_back(job);
    runnable_.push_back(job);
  }

  void RefuseUnlessBestEffort(ArtifactJob* job) {
    if (job->best_effort) {
      Accept(job);
    } else {
      Refuse(job, "the deadlines of all could not be kept");
    }
  }

  void Admit(const std::vector<ArtifactJob*>& starts) {
    for (ArtifactJob* job : runnable_) job->old_end = job->end;
    if (repairs_.one_by_one) {
      AdmitSingly(starts);
      return;
    }
    if (!starts.empty()) {
      std::vector<ArtifactJob*> all = runnable_;
      all.insert(all.end(), starts.begin(), starts.end());
      if (Feasible(all)) {
        for (ArtifactJob* job : starts) Accept(job);
        return;
      }
      for (ArtifactJob* job : starts) RefuseUnlessBestEffort(job);
    }
    PlanAll(runnable_);
  }

  void AdmitSingly(std::vector<ArtifactJob*> starts) {
    std::stable_sort(starts.begin(), starts.end(), ByDeadline);
    for (ArtifactJob* job : starts) {
      std::vector<ArtifactJob*> all = runnable_;
      all.push_back(job);
      if (Feasible(all)) {
        Accept(job);
      } else {
        RefuseUnlessBestEffort(job);
      }
    }
    PlanAll(runnable_);
  }

  // Whether nobody is late who would not be late anyway.
  bool Feasible(std::vector<ArtifactJob*>& all) {
    std::vector<ArtifactJob*> hopeless;
    if (repairs_.late_tolerant) {
      std::vector<ArtifactJob*> without = runnable_;
      hopeless = PlanAll(without);
    }
    for (ArtifactJob* job : PlanAll(all)) {
      if (std::find(hopeless.begin(), hopeless.end(), job) == hopeless.end()) return false;
    }
    return true;
  }

  // Each job takes what its plan says for now, and is planned once more.
  void TakeShares() {
    free_ = ArtifactSteps(ArtifactStep{now_, gpus_});
    std::stable_sort(runnable_.begin(), runnable_.end(), ByDeadline);
    for (ArtifactJob* job : runnable_) {
      job->gpus = job->plan.Get(now_);
      events_.MoveEnd(job);
      job->old_end = job->end;
      Plan(job, Fill(*job, now_, slot_, gpus_, free_));
    }
  }

  void StartPending() {
    std::vector<ArtifactJob*> starting;
    for (ArtifactJob* job : pending_) {
      job->gpus = job->plan.Get(now_);
      const auto first = std::find_if(job->plan.begin(), job->plan.end(),
                                      [](const ArtifactStep& step) { return step.value != 0; });
      if (first == job->plan.end() || first->at <= now_) starting.push_back(job);
    }
    for (ArtifactJob* job : starting) Launch(job);
  }

  void Launch(ArtifactJob* job) {
    std::erase(pending_, job);
    running_.push_back(job);
    Start(job);
    events_.AddEnd(job, job->end);
  }

  // What the next level would cost `job`, if `room` allows it.
  void Score(ArtifactJob* job, int room) {
    job->score = -kBest;
    if (job->next_gpus == job->gpus || job->next_gpus - job->gpus > room) return;
    ArtifactSteps free = free_;
    if (!free.Has(job->end)) free.Set(job->end, free.Holding(job->end, gpus_));
    int held = 0;
    for (const ArtifactStep& step : job->plan) {
      if (!free.Has(step.at)) free.Set(step.at, free.Holding(step.at, gpus_));
      for (size_t i = free.LowerBound(step.at); i < free.size() && free[i].at < job->end; ++i) {
        free[i].value += step.value - held;
      }
      held = step.value;
    }
    free.Merge();
    ArtifactFill next = Fill(*job, now_, slot_, gpus_, free, job->next_gpus);
    const double grown = next.plan.Area(next.end) - job->plan.Area(job->end);
    job->score = grown / (job->next_gpus - job->gpus);
    if (repairs_.sign) job->score = -job->score;
    job->next_plan = std::move(next.plan);
    job->next_free = std::move(next.free);
    job->next_end = next.end;
    job->next_real_end = next.real_end;
    if (job->gpus == 0) job->score = kBest;
  }

  void Grow() {
    int room = gpus_;
    for (ArtifactJob* job : runnable_) {
      job->next_gpus = job->NextLevel(job->gpus);
      room -= job->gpus;
    }
    if (room <= 0) return;
    for (ArtifactJob* job : runnable_) Score(job, room);
    for (;;) {
      std::stable_sort(runnable_.begin(), runnable_.end(), ByScore);
      const auto chosen =
          std::find_if(runnable_.begin(), runnable_.end(), [&](const ArtifactJob* job) {
            return job->next_gpus != job->gpus && job->next_gpus - job->gpus <= room;
          });
      if (room <= 0 || chosen == runnable_.end()) return;
      ArtifactJob* job = *chosen;
      room -= job->next_gpus - job->gpus;
      free_ = job->next_free;
      job->plan = job->next_plan;
      job->gpus = job->next_gpus;
      job->old_end = job->end;
      job->end = job->next_end;
      job->real_end = job->next_real_end;
      if (std::find(pending_.begin(), pending_.end(), job) != pending_.end()) {
        std::erase(pending_, job);
        running_.push_back(job);
        Start(job);
      }
      events_.MoveEnd(job);
      job->next_gpus = job->NextLevel(job->gpus);
      for (ArtifactJob* other : runnable_) {
        if (other->next_gpus > other->gpus) Score(other, room);
      }
    }
  }

  void PlaceAll() {
    std::stable_sort(runnable_.begin(), runnable_.end(), ByGpus);
    for (ArtifactJob* job : runnable_) {
      if (job->gpus > 0) nodes_.Place(job);
    }
    nodes_.FindKnownSets();
  }

  // Wakes at the first planned change of anyone, unless something happens before.
  void AddScaleEvent() {
    double first = kNoDeadline;
    for (const ArtifactJob* job : runnable_) {
      for (const ArtifactStep& step : job->plan) {
        if (step.at <= now_) continue;
        first = std::min(first, step.at);
        break;
      }
    }
    if (runnable_.empty()) return;
    if (events_.empty() || first < events_.first_time()) events_.AddEmpty(first);
  }

  const ArtifactRepairs repairs_;
  ArtifactSteps free_;
};

}  // namespace

std::unique_ptr<ArtifactLoop> MakeElasticflowLoop(const Workload& workload,
                                                  const SimulateOptions& options,
                                                  ArtifactRepairs repairs) {
  return std::make_unique<ElasticflowLoop>(workload, options, repairs);
}

}  // namespace rubato
