// A cluster of one pool at one moment, on which `rubato` decides; every plan and promise is
// checked.
#ifndef RUBATO_SCHEDULE_FAKE_WORLD_H_
#define RUBATO_SCHEDULE_FAKE_WORLD_H_

#include <algorithm>
#include <deque>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "rubato/base/rng.h"
#include "rubato/schedule/policy.h"

namespace rubato {

// What Decide returns can be carried over to the next decision.
class FakeWorld {
 public:
  explicit FakeWorld(int gpus) { view_.pools = {{.gpus = gpus, .gpus_per_node = 8}}; }

  // A job that arrives now; its deadline is hard if it has one.
  JobView& Add(Curve curve, double work, double deadline_s = kNever) {
    curves_.push_back(std::move(curve));
    pointers_.push_back({&curves_.back()});
    JobView job;
    job.id = JobId(static_cast<int64_t>(pointers_.size()) - 1);
    job.submitted_s = view_.now_s;
    job.iterations = job.remaining = work;
    job.deadline_s = deadline_s;
    job.deadline = deadline_s < kNever ? DeadlineKind::kHard : DeadlineKind::kNone;
    job.curves = pointers_.back();
    jobs_.push_back(job);
    return jobs_.back();
  }

  const Plan& Decide() {
    view_.jobs = jobs_;
    plan_ = (*MakePolicy("rubato"))->Decide(view_);
    EXPECT_TRUE(CheckPlan(view_, plan_).ok()) << CheckPlan(view_, plan_);
    CheckPromises();
    return plan_;
  }
  // Makes the last plan come true: the refused leave, the others hold their shares. No time
  // passes.
  void Follow() {
    std::vector<JobView> stay;
    promises_.push_back(plan_.promises);
    for (size_t i = 0; i < jobs_.size(); ++i) {
      JobView job = jobs_[i];
      if (Refused(job.id)) continue;
      job.admitted = true;
      if (job.gpus != plan_.shares[i].gpus) {
        job.last_resize_s = view_.now_s;
        job.paused_until_s = view_.now_s + view_.cost.Seconds(plan_.shares[i].gpus);
      }
      job.gpus = plan_.shares[i].gpus;
      job.pool = plan_.shares[i].pool;
      job.promise = promises_.back()[i];
      stay.push_back(job);
    }
    jobs_ = std::move(stay);
  }

  std::vector<int> Shares() {
    Decide();
    std::vector<int> gpus;
    for (const Share& share : plan_.shares) gpus.push_back(share.gpus);
    return gpus;
  }
  bool Refused(JobId id) const {
    return std::any_of(plan_.refusals.begin(), plan_.refusals.end(),
                       [&](const Refusal& refusal) { return refusal.job == id; });
  }
  // A job with a hard deadline that was submitted before, whatever became of it.
  void AddPast(Curve curve, double submitted_s, double work, double deadline_s, int priority = 0) {
    curves_.push_back(std::move(curve));
    pointers_.push_back({&curves_.back()});
    JobView job;
    job.id = JobId(static_cast<int64_t>(pointers_.size()) - 1);
    job.submitted_s = submitted_s;
    job.iterations = job.remaining = work;
    job.deadline_s = deadline_s;
    job.deadline = DeadlineKind::kHard;
    job.priority = priority;
    job.curves = pointers_.back();
    past_.push_back(job);
    view_.lately = past_;
  }
  ClusterView& view() { return view_; }
  std::vector<JobView>& jobs() { return jobs_; }
  const Plan& plan() const { return plan_; }

 private:
  // Every promise ends its job in time, pauses paid, and all fit together.
  void CheckPromises() const {
    std::vector<double> times = {view_.now_s};
    for (size_t i = 0; i < jobs_.size(); ++i) {
      const Promise& way = plan_.promises[i];
      for (const Reserved& piece : way) times.push_back(piece.from_s);
      if (jobs_[i].deadline != DeadlineKind::kHard || Refused(jobs_[i].id)) continue;
      double work = 0;
      for (const Reserved& piece : way) {
        const bool goes_on = piece.from_s <= view_.now_s && piece.gpus == jobs_[i].gpus;
        const double pause_s = goes_on ? 0 : view_.cost.Seconds(piece.gpus);
        EXPECT_LE(piece.to_s, jobs_[i].deadline_s);
        work += jobs_[i].curve(0)->Rate(piece.gpus) *
                std::max(0.0, piece.to_s - piece.from_s - pause_s);
      }
      EXPECT_GE(work, jobs_[i].remaining * (1 - 1e-6)) << jobs_[i].id.ToString();
    }
    for (double t : times) {
      int sum = 0;
      for (const Promise& way : plan_.promises) {
        for (const Reserved& piece : way) {
          sum += piece.from_s <= t && t < piece.to_s ? piece.gpus : 0;
        }
      }
      EXPECT_LE(sum, view_.pools[0].gpus) << "at " << t;
    }
  }

  std::deque<Curve> curves_;
  std::deque<std::vector<const Curve*>> pointers_;
  std::deque<std::vector<Promise>> promises_;
  std::vector<JobView> jobs_;
  std::vector<JobView> past_;
  ClusterView view_;
  Plan plan_;
};

inline Curve Linear(int most = 64) {
  std::vector<CurvePoint> points;
  for (int gpus = 1; gpus <= most; gpus *= 2) points.push_back({gpus, 1.0 * gpus});
  return Curve(points);
}

// Concave or not, up to four GPUs.
inline Curve RandomCurve(Rng& rng) {
  double rate = rng.Uniform(0.5, 2);
  std::vector<CurvePoint> points;
  for (int gpus : {1, 2, 4}) {
    points.push_back({gpus, rate});
    rate *= rng.Uniform(1.0, 2.1);
  }
  return Curve(points);
}

}  // namespace rubato

#endif  // RUBATO_SCHEDULE_FAKE_WORLD_H_
