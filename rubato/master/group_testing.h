// A small job of strategy allreduce whose workers say what a test wants them to.
#ifndef RUBATO_MASTER_GROUP_TESTING_H_
#define RUBATO_MASTER_GROUP_TESTING_H_

#include <cstdint>
#include <map>

#include "gtest/gtest.h"
#include "rubato/master/fake_job.h"

namespace rubato {

// 40 records in 8 steps of 5; two workers to begin with.
class GroupTest : public testing::Test {
 protected:
  GroupTest() : job_(Options()) {}
  static MasterOptions Options() {
    MasterOptions options = SmallJob();
    options.job.strategy = "allreduce";
    return options;
  }
  GroupOrders Beat(int64_t worker, GroupReport report) {
    const HeartbeatReply reply = job_.Done(job_.master->Heartbeat(
        WorkerHeartbeat{.worker = WorkerId(worker), .group = report}, job_.now));
    wanted_ = reply.checkpoint_wanted;
    return reply.group.value_or(GroupOrders());
  }
  static GroupReport At(int64_t steps, uint64_t checksum = 0, int64_t generation = 1) {
    return {.generation = generation,
            .address = "here",
            .holds = true,
            .steps = steps,
            .records = 5 * steps,
            .checksum = checksum};
  }
  static GroupReport Saved(GroupReport report, int64_t version) {
    report.checkpointed = version;
    report.checkpoint_steps = report.steps;
    report.checkpoint_records = report.records;
    return report;
  }
  const Snapshot Shown() const { return job_.master->snapshot(); }
  // Who is shown to be slow beside the others, and how slow.
  std::map<int64_t, double> Lagging() const {
    std::map<int64_t, double> lagging;
    for (const ProcessStatus& process : Shown().processes) {
      if (process.lagging > 0) lagging[process.id] = process.lagging;
    }
    return lagging;
  }

  FakeJob job_;
  int64_t wanted_ = 0;
};

}  // namespace rubato

#endif  // RUBATO_MASTER_GROUP_TESTING_H_
