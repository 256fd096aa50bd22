// A view small enough to read in a test: one pool, jobs added one by one.
#ifndef RUBATO_SCHEDULE_FAKE_VIEW_H_
#define RUBATO_SCHEDULE_FAKE_VIEW_H_

#include <deque>
#include <vector>

#include "gtest/gtest.h"
#include "rubato/schedule/policy.h"

namespace rubato {

class FakeView {
 public:
  explicit FakeView(int gpus) { view_.pools = {{.gpus = gpus, .gpus_per_node = 8}}; }

  // A job of 100 iterations that has just arrived; valid until the next Add.
  JobView& Add(const Curve& curve) {
    curves_.push_back({&curve});
    JobView job;
    job.id = JobId(static_cast<int64_t>(jobs_.size()));
    job.iterations = job.remaining = 100;
    jobs_.push_back(job);
    return jobs_.back();
  }
  // The same with a hard deadline.
  JobView& AddHard(const Curve& curve, double work, double deadline_s) {
    JobView& job = Add(curve);
    job.iterations = job.remaining = work;
    job.deadline_s = deadline_s;
    job.deadline = DeadlineKind::kHard;
    return job;
  }

  ClusterView& raw() { return view_; }
  const ClusterView& view() {
    for (size_t i = 0; i < jobs_.size(); ++i) jobs_[i].curves = curves_[i];
    view_.jobs = jobs_;
    return view_;
  }
  Plan Decide(absl::string_view policy) {
    Plan plan = (*MakePolicy(policy))->Decide(view());
    EXPECT_TRUE(CheckPlan(view_, plan).ok()) << CheckPlan(view_, plan);
    return plan;
  }
  // GPUs by job; -1 for those refused.
  std::vector<int> Gpus(absl::string_view policy) {
    const Plan plan = Decide(policy);
    std::vector<int> gpus;
    for (const Share& share : plan.shares) gpus.push_back(share.gpus);
    for (const Refusal& refusal : plan.refusals) {
      gpus[static_cast<size_t>(refusal.job.value())] = -1;
    }
    return gpus;
  }

 private:
  std::deque<std::vector<const Curve*>> curves_;
  std::vector<JobView> jobs_;
  ClusterView view_;
};

}  // namespace rubato

#endif  // RUBATO_SCHEDULE_FAKE_VIEW_H_
