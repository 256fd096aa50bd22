// Strategy allreduce: what the master makes of workers that are silent.
#include <algorithm>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "rubato/master/fake_job.h"
#include "rubato/membership/wire.h"

namespace rubato {
namespace {

using testing::HasSubstr;

// Two workers that hold the state, in one view.
class SilenceTest : public testing::Test {
 protected:
  SilenceTest() : job_(Options()) {
    job_.JoinWorker(0);
    job_.JoinWorker(1);
    Beat(0);
    Report(0, {.offer = 0});
    Report(1, {});
    job_.Pass(absl::Seconds(1));
    Report(0, Trains());
    Report(1, {.view = View().number, .level = true, .progress = {5, 5, 5}});
    for (int i = 0; i < 20 && View().holders < 2; ++i) {
      for (const int64_t worker : {0, 1}) {
        ViewReport report = Trains();
        report.let_go = DecodeOrder(job_.orders[worker])->let_go;
        report.level = worker == 1;
        Report(worker, report);
      }
      job_.Pass(absl::Milliseconds(50));
    }
    EXPECT_EQ(View().holders, 2);
  }
  static MasterOptions Options() {
    MasterOptions options = SmallJob();
    options.job.strategy = "allreduce";
    return options;
  }
  GroupView View() { return DecodeOrder(job_.orders[0])->view; }
  ViewReport Trains() {
    return {.view = View().number,
            .progress = {5, 5, 5},
            .answers = DecodeOrder(job_.orders[0])->sequence};
  }
  void Report(int64_t worker, ViewReport report) {
    report.from = {MemberId(100 + worker), "here"};
    job_.master->Confer(
        {.worker = WorkerId(worker), .generation = 1, .report = EncodeReport(report)}, job_.now);
    job_.Perform();
  }
  GroupOrders Beat(int64_t worker, int64_t generation = 1) {
    const GroupReport report = {
        .generation = generation, .address = "here", .holds = true, .steps = 5, .records = 25};
    return job_
        .Done(job_.master->Heartbeat(WorkerHeartbeat{.worker = WorkerId(worker), .group = report},
                                     job_.now))
        .group.value_or(GroupOrders());
  }
  int64_t Count(const std::string& event) const {
    return std::count(job_.events.begin(), job_.events.end(), event);
  }
  int64_t Killed() const {
    return std::count_if(job_.signalled.begin(), job_.signalled.end(), [](const auto& signal) {
      return signal.kind == SignalProcess::Kind::kKill;
    });
  }

  FakeJob job_;
};

// One whose reports cannot be read says nothing, but it is told, and counted, who that is: at once,
// and each time as many more have come.
TEST_F(SilenceTest, WhatCannotBeReadIsToldAndCounted) {
  const std::string whole = EncodeReport(Trains());
  for (int i = 0; i < 9; ++i) {
    const std::string report = whole.substr(0, whole.size() - 1 - i);
    job_.master->Confer({.worker = WorkerId(1), .generation = 1, .report = report}, job_.now);
    job_.Perform();
  }
  EXPECT_EQ(Count("report_unreadable"), 4) << "of 1, 2, 4 and 8";
  EXPECT_EQ(std::get<int64_t>(job_.fields["report_unreadable"].at("worker")), 1);
  EXPECT_EQ(std::get<int64_t>(job_.fields["report_unreadable"].at("reports")), 8);
  EXPECT_THAT(job_.causes["report_unreadable"], HasSubstr("same build as the master?"));
  EXPECT_EQ(job_.master->snapshot().reports_unreadable, 9);
  job_.master->Confer({.worker = WorkerId(0), .generation = 1}, job_.now);  // It only listens.
  Report(0, Trains());
  EXPECT_EQ(job_.master->snapshot().reports_unreadable, 9);
}

// A machine that stood still for some leases: both go on with what they hold.
TEST_F(SilenceTest, OfAllIsNoProofThatTheStateIsLost) {
  job_.Pass(absl::Seconds(10));
  EXPECT_EQ(Count("worker_evicted"), 0);
  EXPECT_EQ(Killed(), 0);
  EXPECT_THAT(job_.TakeLaunched(Role::kWorker), testing::SizeIs(2));  // Those of the beginning.
  for (const int64_t worker : {0, 1}) {
    EXPECT_EQ(Beat(worker).generation, 1);
    Report(worker, Trains());
  }
  job_.Pass(absl::Milliseconds(100));
  EXPECT_EQ(Count("group_founded"), 1);
  EXPECT_EQ(job_.master->snapshot().steps, 5);
}

// One that does not come back would be waited for without end. Its death is proof, and what it
// held begins anew from a checkpoint.
TEST_F(SilenceTest, OfAllEndsWithTheirDeath) {
  job_.Pass(absl::Seconds(16));
  EXPECT_EQ(Killed(), 2);
  EXPECT_THAT(job_.causes["worker_killed"], HasSubstr("silent for 15"));
  EXPECT_EQ(Count("group_founded"), 1);
  job_.KillWorker(0);
  job_.KillWorker(1);
  job_.JoinWorker(2);
  for (int i = 0; i < 80; ++i) {
    Beat(2, /*generation=*/2);
    job_.Pass(absl::Milliseconds(100));
  }
  EXPECT_EQ(Count("group_founded"), 2);
  EXPECT_EQ(Count("failure"), 2);
  EXPECT_THAT(job_.causes["failure"], HasSubstr("silent for 15"));
  EXPECT_EQ(std::get<std::string>(job_.fields["failure"].at("noticed_how")), "silent");
  EXPECT_EQ(std::get<std::string>(job_.fields["failure"].at("noticed_by")), "master");
}

// Steps may take longer than leaving: one that is asked to go, and that the others still need, is
// not killed for it while it speaks, up to a minute.
TEST_F(SilenceTest, ALeaverThatSpeaksIsNotKilledInALongStep) {
  ASSERT_TRUE(job_.master->Scale({.workers = 1}, job_.now).accepted);
  job_.Perform();
  const auto work = [&](absl::Duration time) {
    for (const absl::Time end = job_.now + time; job_.now < end;) {
      for (const int64_t worker : {0, 1}) {
        Beat(worker);
        Report(worker, Trains());
      }
      job_.Pass(absl::Milliseconds(200));
    }
  };
  work(absl::Seconds(50));
  EXPECT_EQ(Killed(), 0);
  work(absl::Seconds(15));
  EXPECT_GT(Killed(), 0);
}

// A link breaks when one has applied a step that the other lacks: nobody is lost, and nobody begins
// anew. The other copies the state where it is.
TEST_F(SilenceTest, OfNobodyCostsTheOneWhoIsNotLevelACopy) {
  const uint64_t before = View().number;
  for (const int64_t worker : {0, 1}) {
    const int64_t step = 6 - worker;
    ViewReport report = Trains();
    report.let_go = report.urgent = true;
    report.progress = {.finished = step, .applied = step, .voted = step};
    Report(worker, report);
  }
  job_.Pass(absl::Milliseconds(100));
  EXPECT_EQ(View().number, before + 1);
  EXPECT_EQ(View().size(), 2);
  EXPECT_EQ(View().holders, 1);
  EXPECT_EQ(View().step, 6);
  EXPECT_EQ(Count("worker_copies"), 1);
  EXPECT_EQ(std::get<int64_t>(job_.fields["worker_copies"].at("worker")), 1);
  EXPECT_EQ(Count("failure") + Count("worker_evicted"), 0);
}

// While another one goes on, a silent one is out after its lease, and replaced.
TEST_F(SilenceTest, OfOneIsTheViewsMatter) {
  job_.TakeLaunched(Role::kWorker);
  for (int i = 0; i < 40; ++i) {
    Beat(0);
    ViewReport report = Trains();
    report.let_go = DecodeOrder(job_.orders[0])->let_go;
    Report(0, report);
    job_.Pass(absl::Milliseconds(100));
  }
  EXPECT_EQ(View().size(), 1);
  EXPECT_EQ(Count("worker_evicted"), 1);
  EXPECT_EQ(Killed(), 0);
  EXPECT_EQ(job_.TakeLaunched(Role::kWorker).size(), 1u);
  EXPECT_EQ(Count("group_founded"), 1);
}

}  // namespace
}  // namespace rubato
