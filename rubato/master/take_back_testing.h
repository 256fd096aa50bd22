// A job whose server 1 comes back with less than was committed.
#ifndef RUBATO_MASTER_TAKE_BACK_TESTING_H_
#define RUBATO_MASTER_TAKE_BACK_TESTING_H_

#include <algorithm>
#include <csignal>
#include <memory>
#include <string>
#include <utility>

#include "gtest/gtest.h"
#include "rubato/master/fake_job.h"

namespace rubato {

inline IntervalSet Set(int64_t begin, int64_t end) {
  IntervalSet set;
  set.Add(begin, end);
  return set;
}

class TakeBackTest : public testing::Test {
 protected:
  // A job with both servers and worker 0.
  void Begin(MasterOptions options = SmallJob()) {
    job = std::make_unique<FakeJob>(std::move(options));
    job->JoinServers();
    job->JoinWorker(0);
    job->BeatServers();
  }
  // Server 1 dies, and is back with `left` of epoch 0.
  RegisterReply Lose(const IntervalSet& left, const std::string& damage = "") {
    job->Exit(Role::kServer, 1, life, 0, SIGKILL);
    job->Pass(absl::Seconds(1));
    job->disks[1] = {{0, left}};
    return job->Done(job->master->Register({.role = Role::kServer,
                                            .id = 1,
                                            .incarnation = ++life,
                                            .pid = 11,
                                            .version = "1",
                                            .address = "unix:/s",
                                            .applied = job->disks[1],
                                            .damage = damage},
                                           job->now));
  }
  CommitReply CommitBy(const Task& task, int64_t upto) {
    return job->Done(job->master->Commit(
        {.worker = WorkerId(0), .task = task.id, .lease = task.lease, .upto = upto}, job->now));
  }
  // Whatever is left, to the end of the job.
  void Finish() {
    for (int i = 0; i < 20 && !job->finished.has_value(); ++i) {
      job->WorkOff(0);
      job->checkpointed = std::max(job->checkpointed, job->BeatServer(0).checkpoint_wanted);
      job->BeatServer(0);
      job->BeatServer(1, life);
      if (job->master->state() != JobState::kDone) continue;
      job->Exit(Role::kWorker, 0, 1, 0, 0);
      job->Exit(Role::kWorker, 1, 1, 0, 0);
      job->Exit(Role::kServer, 0, 1, 0, 0);
      job->Exit(Role::kServer, 1, life, 0, 0);
    }
  }

  std::unique_ptr<FakeJob> job;
  int64_t life = 1;
};

}  // namespace rubato

#endif  // RUBATO_MASTER_TAKE_BACK_TESTING_H_
