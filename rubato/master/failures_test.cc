// Strategy allreduce: what the master tells of each failure, once.
#include "rubato/master/failures.h"

#include <algorithm>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "rubato/master/group_testing.h"
#include "rubato/membership/wire.h"

namespace rubato {
namespace {

using testing::HasSubstr;

// Two workers in one view, of which worker 0 loses worker 1, whose process may live on.
class GroupLossTest : public GroupTest {
 protected:
  // Both train in one view, and were heard of a second ago.
  void Enter() {
    job_.JoinWorker(0);
    job_.JoinWorker(1);
    Beat(0, At(3));
    Report(0, 0, false);
    Report(1, 0, false);
    job_.Pass(absl::Seconds(1));
    view_ = DecodeOrder(job_.orders[0])->view.number;
    ASSERT_GE(view_, 1u);
  }
  // Worker 0 misses worker 1, and the next view is without it.
  void LoseOne() {
    Report(0, view_, true);
    job_.Pass(absl::Milliseconds(100));
  }
  // What worker 0 then tells.
  GroupReport Changed() {
    GroupReport told = At(4);
    told.change = {.view = DecodeOrder(job_.orders[0])->view.number,
                   .agree_us = 1500,
                   .reconnect_us = 300,
                   .redo_us = 2000};
    EXPECT_GT(told.change.view, view_);
    return told;
  }
  void Lose(bool process, bool restart = false) {
    Enter();
    if (process) job_.KillWorker(1);
    if (restart) job_.Open();
    LoseOne();
    const GroupReport told = Changed();
    Beat(0, told);
    if (restart) job_.Open();
    for (int i = 0; i < 40; ++i) {
      Beat(0, told);
      if (!process) Beat(1, {});
      job_.Pass(absl::Milliseconds(100));
    }
  }
  int64_t Told() const { return std::count(job_.events.begin(), job_.events.end(), "failure"); }

  void Report(int64_t worker, uint64_t view, bool let_go) {
    ViewReport report = {
        .from = {MemberId(100 + worker), "here;more"}, .view = view, .let_go = let_go};
    report.urgent = let_go;
    report.offer = worker == 0 && view == 0 ? 0 : -1;
    report.progress = {.finished = 5, .applied = 5, .voted = 5};
    if (let_go) report.lost = {{MemberId(101), MemberId(100), LossReason::kProcess}};
    job_.master->Confer(
        {.worker = WorkerId(worker), .generation = 1, .report = EncodeReport(report)}, job_.now);
    job_.Perform();
  }
  uint64_t ViewNow() const { return DecodeOrder(job_.orders.at(0))->view.number; }

  uint64_t view_ = 0;
};

// A death is one record: who, why, at which step, who noticed, and what it cost.
TEST_F(GroupLossTest, TellsTheFirstCauseOfALoss) {
  Lose(/*process=*/true);
  EXPECT_EQ(Told(), 1);
  EXPECT_THAT(job_.causes["failure"], HasSubstr("killed by signal"));
}

// The master may die at any moment of it: what was known is in its journal, and what was told is
// not told again.
TEST_F(GroupLossTest, ARestartedMasterTellsItOnceAndWhole) {
  Lose(/*process=*/true, /*restart=*/true);
  job_.Open();
  job_.Pass(absl::Seconds(5));
  EXPECT_EQ(Told(), 1);
  EXPECT_THAT(job_.causes["failure"], HasSubstr("worker-1: killed by signal"));
  const auto& fields = job_.fields["failure"];
  EXPECT_EQ(std::get<int64_t>(fields.at("pid")), 101);
  EXPECT_EQ(std::get<int64_t>(fields.at("step")), 3);
  EXPECT_EQ(std::get<std::string>(fields.at("noticed_by")), "worker-0");
  EXPECT_EQ(std::get<double>(fields.at("agree_ms")), 1.5);
  EXPECT_EQ(std::get<double>(fields.at("redo_ms")), 2);
}

// A worker that was given up for its silence and then killed has failed once: the second is
// collateral, and says of what.
TEST_F(GroupLossTest, WhatFollowsAnEvictionIsCollateral) {
  job_.JoinWorker(0);
  job_.JoinWorker(1);
  for (int i = 0; i < 80; ++i) {
    Beat(0, At(3));
    job_.Pass(absl::Milliseconds(100));
  }
  EXPECT_THAT(job_.causes["failure"], HasSubstr("worker-1: silent for"));
  job_.KillWorker(1);
  job_.Pass(absl::Seconds(5));
  EXPECT_EQ(Told(), 1);
  EXPECT_THAT(std::get<std::string>(job_.fields["worker_lost"].at("collateral_of")),
              HasSubstr("silent for"));
}

// A worker may also only be out of reach for a while: that too is told with its cause.
TEST_F(GroupLossTest, TellsOfAWorkerThatLivesOn) {
  Lose(/*process=*/false);
  EXPECT_EQ(Told(), 1);
  EXPECT_THAT(job_.causes["failure"], HasSubstr("though its process lives"));
}

// A frozen worker is missed by the others long before the master gives it up: its record tells one
// silence, that after which it was missed first, whether a survivor tells before (`first`) or
// after.
class SilentLossTest : public GroupLossTest, public testing::WithParamInterface<bool> {};

TEST_P(SilentLossTest, TellsOneSilence) {
  Enter();
  const absl::Time heard = job_.now - absl::Seconds(1);
  LoseOne();
  EXPECT_EQ(Told(), 0);
  GroupReport told = Changed();
  told.change.noticed_us = absl::ToUnixMicros(heard + absl::Microseconds(1712345));
  const bool first = GetParam();
  for (int i = 0; i < 1000 && !job_.causes.contains("worker_evicted"); ++i) {
    Beat(0, first ? told : At(4));
    job_.Pass(absl::Milliseconds(20));
  }
  EXPECT_EQ(Told(), first ? 1 : 0);
  Beat(0, told);
  EXPECT_EQ(Told(), 1);
  // Which gives no silence of its own, for the two clocks began at different times.
  EXPECT_EQ(job_.causes["worker_evicted"], "silent for longer than elastic.lease, 2s");
  EXPECT_EQ(job_.causes["failure"], "worker-1: silent for 1.712s");
  EXPECT_EQ(std::get<int64_t>(job_.fields["worker_evicted"].at("view")),
            std::get<int64_t>(job_.fields["failure"].at("view")));
  EXPECT_EQ(std::get<double>(job_.fields["failure"].at("detect_ms")), 1712.345);
}

INSTANTIATE_TEST_SUITE_P(Survivor, SilentLossTest, testing::Bool());

// Its eviction names the view that went on without it, as its record does, whoever has come since.
TEST_F(GroupLossTest, AnEvictionNamesTheFirstViewWithout) {
  Enter();
  LoseOne();
  const uint64_t without = ViewNow();
  ASSERT_GT(without, view_);
  job_.JoinWorker(2);
  for (int i = 0; i < 1000 && !job_.causes.contains("worker_evicted"); ++i) {
    Beat(0, At(4));
    Beat(2, {});
    if (ViewNow() == without) {
      Report(2, 0, false);
      Report(0, without, /*let_go=*/true);
    }
    job_.Pass(absl::Milliseconds(20));
  }
  EXPECT_GT(ViewNow(), without);
  EXPECT_EQ(std::get<int64_t>(job_.fields["worker_evicted"].at("view")),
            static_cast<int64_t>(without));
}

// How long it took to detect is what a survivor tells, who hears of the others all the time; not
// how old the last word to the master was.
TEST_F(GroupLossTest, DetectionIsTimedBySurvivors) {
  Enter();
  job_.KillWorker(1);
  LoseOne();
  GroupReport told = Changed();
  told.change.noticed_us = absl::ToUnixMicros(job_.now);
  told.change.heard_us = {{101, told.change.noticed_us - 25'000}};
  Beat(0, told);
  EXPECT_EQ(Told(), 1);
  EXPECT_EQ(std::get<double>(job_.fields["failure"].at("detect_ms")), 25);
}

// Where it was is in the journal: a restarted master need not have heard of it again.
TEST_F(GroupLossTest, ARestartedMasterKnowsWhereItWas) {
  Lose(/*process=*/true, /*restart=*/true);
  EXPECT_EQ(std::get<std::string>(job_.fields["failure"].at("where")), "here");
}

TEST_F(GroupLossTest, ARestartedMasterThatHearsOfTheDeathFirstKnowsWhereItWas) {
  Enter();
  job_.Open();
  job_.KillWorker(1);
  LoseOne();
  Beat(0, Changed());
  EXPECT_EQ(Told(), 1);
  EXPECT_EQ(std::get<std::string>(job_.fields["failure"].at("where")), "here");
}

// One that was asked to leave, and tears down for longer than its lease, has not failed.
TEST_F(GroupLossTest, ALeaverMayTakeItsTime) {
  Enter();
  ASSERT_TRUE(job_.Done(job_.master->Scale({.workers = 1}, job_.now)).accepted);
  LoseOne();
  ASSERT_GT(ViewNow(), view_);
  for (int i = 0; i < 80; ++i) {
    Beat(0, At(4));
    job_.Pass(absl::Milliseconds(100));
  }
  job_.Exit(Role::kWorker, 1, 1, 0, 0);
  job_.Pass(absl::Seconds(5));
  EXPECT_EQ(Told(), 0);
  EXPECT_FALSE(job_.causes.contains("worker_evicted"));
  EXPECT_TRUE(job_.causes.contains("worker_left"));
  EXPECT_EQ(Shown().workers_lost, 0);
}

// One that still copied the model is labelled so.
TEST_F(GroupLossTest, WhoHadNoModelYetIsLabelled) {
  Enter();
  GroupReport copying = At(3);
  copying.holds = false;
  Beat(1, copying);
  job_.KillWorker(1);
  LoseOne();
  Beat(0, Changed());
  EXPECT_EQ(Told(), 1);
  EXPECT_EQ(std::get<std::string>(job_.fields["failure"].at("state")), "copying");
}

// Another death before the next step: the change that brought that step ends both records.
TEST_F(GroupLossTest, AChangeThatWasOvertakenIsToldWithTheNext) {
  Enter();
  job_.KillWorker(1);
  LoseOne();
  GroupReport told = Changed();
  ++told.change.view;
  Beat(0, told);
  EXPECT_EQ(Told(), 1);
  EXPECT_EQ(std::get<double>(job_.fields["failure"].at("agree_ms")), 1.5);
}

// One that was in no view yet is missed by nobody: its record is written at once, without phases.
TEST_F(GroupLossTest, ANewcomersEndIsToldAtOnce) {
  Enter();
  job_.KillWorker(1);
  LoseOne();
  Beat(0, Changed());
  EXPECT_EQ(Told(), 1);
  job_.JoinWorker(2);
  job_.CrashWorker(2, "no such model");
  EXPECT_EQ(Told(), 2);
  EXPECT_THAT(job_.causes["failure"], HasSubstr("no such model"));
  EXPECT_FALSE(job_.fields["failure"].contains("agree_ms"));
  EXPECT_EQ(std::get<std::string>(job_.fields["failure"].at("state")), "joining");
}

// All die at once, the master with them if `restart`: nobody is left to tell what it took, but the
// next generation also agrees, reconnects and redoes, and the master sees when.
class GenerationLossTest : public GroupLossTest, public testing::WithParamInterface<bool> {
 protected:
  void Again() {
    if (GetParam()) job_.Open();
  }
};

TEST_P(GenerationLossTest, TellsWhatTheNextGenerationTook) {
  Enter();
  const absl::Time heard = job_.now - absl::Seconds(1);
  const absl::Time struck = job_.now;
  job_.KillWorker(1);
  job_.KillWorker(0);
  Again();
  EXPECT_EQ(Told(), 0);
  job_.Pass(absl::Milliseconds(5000));  // Longer than anybody waits for a cause.
  job_.JoinWorker(2);
  const absl::Time founded = job_.now;
  Again();
  ASSERT_TRUE(Beat(2, {}).found);
  job_.Pass(absl::Milliseconds(700));
  const absl::Time held = job_.now;
  Beat(2, At(0, 0, /*generation=*/2));
  Again();
  job_.Pass(absl::Milliseconds(300));
  EXPECT_EQ(Told(), 0);
  Beat(2, At(1, 0, /*generation=*/2));
  EXPECT_EQ(Told(), 2);  // As soon as there is a step, and not a moment later.
  const auto& fields = job_.fields["failure"];
  const auto ms = [](absl::Duration time) { return absl::ToDoubleMilliseconds(time); };
  EXPECT_EQ(std::get<int64_t>(fields.at("worker")), 1);
  EXPECT_EQ(std::get<int64_t>(fields.at("generation")), 2);
  EXPECT_EQ(std::get<int64_t>(fields.at("step")), 3);
  EXPECT_FALSE(fields.contains("view"));
  EXPECT_EQ(std::get<double>(fields.at("detect_ms")), ms(struck - heard));
  EXPECT_EQ(std::get<double>(fields.at("agree_ms")), ms(founded - struck));
  EXPECT_EQ(std::get<double>(fields.at("reconnect_ms")), ms(held - founded));
  EXPECT_EQ(std::get<double>(fields.at("redo_ms")), ms(job_.now - held));
  Again();
  Beat(2, At(2, 0, /*generation=*/2));
  job_.Pass(absl::Seconds(5));
  EXPECT_EQ(Told(), 2);
}

INSTANTIATE_TEST_SUITE_P(MasterDiesToo, GenerationLossTest, testing::Bool());

// The supervisor dies with everyone, and the job is resumed: nobody saw them end or knows when they
// were heard last, but each of them is lost, and what that took is seen as ever.
TEST_F(GroupLossTest, WhoWasGoneAtTheResumeIsALossToo) {
  Enter();
  job_.options.resume = true;
  job_.Open();
  job_.Open();  // The first resumed master may die as well; whom it wanted launched was not.
  EXPECT_EQ(Shown().workers_lost, 2);
  EXPECT_EQ(std::count(job_.events.begin(), job_.events.end(), "worker_lost"), 2);
  job_.options.resume = false;
  job_.JoinWorker(4);
  ASSERT_TRUE(Beat(4, {}).found);
  Beat(4, At(0, 0, /*generation=*/2));
  EXPECT_EQ(Told(), 0);
  Beat(4, At(1, 0, /*generation=*/2));
  EXPECT_EQ(Told(), 2);
  EXPECT_EQ(job_.causes["failure"], "worker-1: gone when the job was resumed");
  const auto& fields = job_.fields["failure"];
  EXPECT_EQ(std::get<std::string>(fields.at("noticed_how")), "resume");
  EXPECT_EQ(std::get<std::string>(fields.at("where")), "here");
  EXPECT_EQ(std::get<int64_t>(fields.at("pid")), 101);
  EXPECT_EQ(std::get<int64_t>(fields.at("generation")), 2);
  EXPECT_FALSE(fields.contains("detect_ms"));
  EXPECT_TRUE(fields.contains("agree_ms"));
}

// A failure that had yet to be told then is told all the same.
TEST_F(GroupLossTest, AResumedJobTellsWhatWasNotToldBefore) {
  Enter();
  job_.KillWorker(1);
  job_.options.resume = true;
  job_.Open();
  job_.JoinWorker(3);
  Beat(3, At(1, 0, /*generation=*/2));
  EXPECT_EQ(Told(), 2);
  EXPECT_THAT(job_.causes["failure"], HasSubstr("worker-1: killed by signal"));
  EXPECT_EQ(Shown().workers_lost, 2);
}

// Who ended as the job did is no loss.
TEST_F(GroupLossTest, AResumeAfterAStopLosesNobody) {
  Enter();
  job_.master->Stop(/*checkpoint=*/false, job_.now);
  Beat(0, At(3, 5));
  Beat(1, At(3, 5));
  ASSERT_EQ(job_.master->state(), JobState::kStopped);
  job_.options.resume = true;
  job_.Open();
  job_.Pass(absl::Seconds(5));
  EXPECT_EQ(Told(), 0);
  EXPECT_EQ(Shown().workers_lost, 0);
}

// The founder of that generation dies before it has said a word: the one after it is what all wait
// for, and all three records end with its first step.
TEST_F(GroupLossTest, TheNextGenerationDiesToo) {
  Enter();
  job_.KillWorker(0);
  job_.KillWorker(1);
  job_.JoinWorker(2);
  ASSERT_TRUE(Beat(2, {}).found);
  job_.KillWorker(2);
  job_.Pass(absl::Seconds(4));
  EXPECT_EQ(Told(), 0);
  job_.JoinWorker(3);
  Beat(3, At(1, 0, /*generation=*/3));
  EXPECT_EQ(Told(), 3);
  EXPECT_EQ(std::get<int64_t>(job_.fields["failure"].at("generation")), 3);
}

// What a worker computed in vain stays counted when it is dead, or evicted, and the master with it.
TEST_F(GroupLossTest, WhatTheDeadComputedAgainIsNotForgotten) {
  Enter();
  GroupReport report = At(3);
  report.records_redone = 7;
  Beat(0, report);
  report.records_redone = 4;
  Beat(1, report);
  EXPECT_EQ(Shown().records_recomputed, 11);
  job_.KillWorker(1);
  EXPECT_EQ(Shown().records_recomputed, 11);
  job_.Open();
  EXPECT_EQ(Shown().records_recomputed, 4);  // The living tell it again.
  report.records_redone = 7;
  Beat(0, report);
  EXPECT_EQ(Shown().records_recomputed, 11);
}

TEST_F(GroupLossTest, WhatTheEvictedComputedAgainIsNotForgotten) {
  job_.JoinWorker(0);
  job_.JoinWorker(1);
  GroupReport report = At(3);
  report.records_redone = 4;
  Beat(1, report);
  for (int i = 0; i < 80; ++i) {
    Beat(0, At(3));
    job_.Pass(absl::Milliseconds(100));
  }
  ASSERT_EQ(std::count(job_.events.begin(), job_.events.end(), "worker_evicted"), 1);
  job_.Open();
  EXPECT_EQ(Shown().records_recomputed, 4);
  job_.KillWorker(1);
  EXPECT_EQ(Shown().records_recomputed, 4);
  job_.options.resume = true;
  job_.Open();
  EXPECT_EQ(Shown().records_recomputed, 4);
}

// One that never joined has not told where it was.
TEST(FailureRecordTest, NamesAPlaceOnlyWhereItIsKnown) {
  const auto names = [](const std::string& where) {
    std::vector<std::string> names;
    for (const auto& field : RecordOf({.where = where}, {}, absl::Time()).fields) {
      names.push_back(field.first);
    }
    return names;
  };
  EXPECT_THAT(names("here"), testing::Contains("where"));
  EXPECT_THAT(names(""), testing::Not(testing::Contains("where")));
}

}  // namespace
}  // namespace rubato
