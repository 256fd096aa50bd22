#include "rubato/cli/train_watch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "rubato/cli/summary.h"

namespace rubato {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::SizeIs;
using ::testing::StartsWith;

Snapshot HalfWay() {
  Snapshot snapshot;
  snapshot.state = JobState::kTraining;
  snapshot.records_committed = 5'000'000;
  snapshot.records_expected = 10'000'000;
  snapshot.workers_alive = 3;
  snapshot.workers_target = 3;
  snapshot.servers_alive = 2;
  snapshot.servers_target = 2;
  snapshot.loss = 0.45123;
  snapshot.loss_known = true;
  snapshot.evaluations.push_back({.metrics = {{"auc", 0.7853}, {"logloss", 0.46}}});
  return snapshot;
}

JobSpec Spec() {
  JobSpec spec;
  spec.servers = 2;
  return spec;
}

// Who is slow beside the others is listed, for people and programs.
TEST(SummaryTest, NamesStragglers) {
  Snapshot snapshot = HalfWay();
  const auto summary = [&] { return SummaryJson(Spec(), snapshot, absl::Seconds(1), 0, "job"); };
  EXPECT_EQ(summary()["stragglers"].dump(), "[]");
  EXPECT_THAT(SummaryTable(summary()), Not(HasSubstr("straggler")));
  snapshot.processes = {{.id = 0, .state = "running"},
                        {.id = 4, .state = "running", .lagging = 0.5}};
  EXPECT_EQ(summary()["stragglers"].dump(), R"([{"worker":4,"ratio":0.5}])");
  EXPECT_THAT(SummaryTable(summary()),
              HasSubstr("straggler    worker-4, at 0.50 of the median speed"));
}

TEST(SummaryTest, SaysWhatAServerIsBusyWithAndWhatWasLost) {
  Snapshot snapshot = HalfWay();
  snapshot.records_taken_back = 40352;
  snapshot.processes = {{.role = Role::kServer,
                         .id = 1,
                         .incarnation = 2,
                         .state = "starting",
                         .doing = "reading its log, 40 %"}};
  const auto summary = SummaryJson(Spec(), snapshot, absl::Seconds(1), 0, "job");
  EXPECT_EQ(summary["records_taken_back"], 40352);
  EXPECT_EQ(summary["recovering"].dump(),
            R"([{"server":1,"incarnation":2,"doing":"reading its log, 40 %"}])");
  EXPECT_THAT(SummaryTable(summary), HasSubstr("server-1 is reading its log, 40 %"));
  EXPECT_THAT(SummaryTable(summary), HasSubstr("taken back   40,352 records that servers lost"));
  EXPECT_THAT(ProgressLine(snapshot, Spec(), 55'000, 120),
              HasSubstr("server-1 is reading its log, 40 %"));
}

TEST(SummaryTest, SaysWhatAWorkerWaitsFor) {
  Snapshot snapshot = HalfWay();
  snapshot.processes = {
      {.id = 2, .state = "running", .doing = "waiting for the database at db, 12 s"}};
  const auto summary = SummaryJson(Spec(), snapshot, absl::Seconds(1), 0, "job");
  EXPECT_EQ(summary["waiting"].dump(),
            R"([{"worker":2,"doing":"waiting for the database at db, 12 s"}])");
  EXPECT_FALSE(summary.contains("recovering"));
  EXPECT_THAT(SummaryTable(summary), HasSubstr("worker-2 is waiting for the database at db, 12 s"));
  EXPECT_THAT(ProgressLine(snapshot, Spec(), 0, 160),
              HasSubstr("worker-2 is waiting for the database at db, 12 s"));
}

// Servers are spoken of where there are some, a master where it was restarted.
TEST(SummaryTest, OfAGroupSaysNothingOfServers) {
  Snapshot snapshot = HalfWay();
  const auto table = [&] {
    return SummaryTable(SummaryJson(Spec(), snapshot, absl::Seconds(1), 0, "job"));
  };
  EXPECT_THAT(table(), Not(HasSubstr("servers")));
  snapshot.master_restarts = 2;
  EXPECT_THAT(table(), HasSubstr("master       restarted 2 times"));
  snapshot.servers_started = 3;
  EXPECT_THAT(table(), HasSubstr("servers      3 started, 0 lost; master restarted 2 times"));
}

TEST(SummaryTest, WarnsOfOneClass) {
  Snapshot snapshot = HalfWay();
  const auto table = [&] {
    return SummaryTable(SummaryJson(Spec(), snapshot, absl::Seconds(1), 0, "job"));
  };
  EXPECT_THAT(table(), Not(HasSubstr("warning")));
  snapshot.evaluations[0].metrics.erase("auc");
  EXPECT_THAT(table(), HasSubstr("all validation labels are of one class, so there is no auc"));
}

// Both numbers and what to try, at the end; beside training the two numbers.
TEST(SummaryTest, WarnsOfScoresThatTheRateAloneBeats) {
  Snapshot snapshot = HalfWay();
  auto& metrics = snapshot.evaluations[0].metrics;
  const auto table = [&] {
    return SummaryTable(SummaryJson(Spec(), snapshot, absl::Seconds(1), 0, "job"));
  };
  metrics["base_logloss"] = 0.5;
  EXPECT_THAT(table(), HasSubstr("base_logloss 0.5000"));
  EXPECT_THAT(table(), Not(HasSubstr("warning")));
  EXPECT_THAT(ProgressLine(snapshot, Spec(), 55'000, 120), Not(HasSubstr("logloss")));
  metrics["base_logloss"] = 0.44;
  EXPECT_THAT(table(), HasSubstr("warning      logloss 0.4600 is not below 0.4400"));
  EXPECT_THAT(table(), HasSubstr("stronger model_options.l2, or fewer ids"));
  EXPECT_THAT(ProgressLine(snapshot, Spec(), 55'000, 120), HasSubstr("logloss 0.4600>0.4400"));
}

TEST(ProgressLineTest, EightyColumnsHoldAllThatMatters) {
  const std::string line = ProgressLine(HalfWay(), Spec(), 55'000, 79);
  EXPECT_EQ(line, " 50% 55.0 k rec/s ETA 1m 31s workers 3/3 servers 2/2 loss 0.4512 auc 0.7853");
}

// What `rubato scale` asked for counts, not what the job file did.
TEST(ProgressLineTest, ServersAreHeldAgainstTheNewestTarget) {
  Snapshot snapshot = HalfWay();
  snapshot.servers_alive = 3;
  snapshot.servers_target = 4;
  EXPECT_THAT(ProgressLine(snapshot, Spec(), 0, 200), HasSubstr(" servers 3/4 "));
}

TEST(ProgressLineTest, TheBarTakesTheRoomThatIsLeft) {
  EXPECT_THAT(ProgressLine(HalfWay(), Spec(), 55'000, 200), StartsWith("[############-----------"));
  EXPECT_THAT(ProgressLine(HalfWay(), Spec(), 55'000, 86), StartsWith("[####----]  50%"));
  EXPECT_THAT(ProgressLine(HalfWay(), Spec(), 55'000, 40), SizeIs(40));
}

TEST(ProgressLineTest, SaysWhatElseIsGoingOn) {
  Snapshot snapshot = HalfWay();
  snapshot.state = JobState::kStopping;
  JobSpec spec = Spec();
  spec.epochs = 3;
  EXPECT_THAT(ProgressLine(snapshot, spec, 0, 120), HasSubstr("stopping epoch 1/3"));
}

// A job that went back to a checkpoint is not trained at less than nothing a second.
TEST(TrainWatchTest, GoingBackIsNoSpeed) {
  const std::string folder = testing::TempDir() + "/rubato-watch";
  std::filesystem::create_directories(folder + "/metrics");
  std::ostringstream out, err;
  {
    Console console = {.out = out, .err = err};
    const JobSpec spec = Spec();
    TrainWatch watch(console, spec, JobDirectory(folder));
    Snapshot snapshot = HalfWay();
    for (int second = 0; second < 20; ++second) {
      snapshot.records_committed += second == 8 ? -60'000 : 10'000;
      watch.Show(snapshot, absl::FromUnixSeconds(1000 + second));
    }
  }
  std::filesystem::remove_all(folder);
  EXPECT_THAT(err.str(), HasSubstr("10.0 k rec/s"));
  EXPECT_THAT(err.str(), Not(HasSubstr("% -")));
}

// Until its master has answered, nobody knows how far a resumed job is: it has not lost all.
TEST(TrainWatchTest, SaysNothingBeforeAnythingIsKnown) {
  const std::string folder = testing::TempDir() + "/rubato-watch-resumed";
  std::filesystem::create_directories(folder + "/metrics");
  std::ostringstream out, err;
  {
    Console console = {.out = out, .err = err};
    const JobSpec spec = Spec();
    TrainWatch watch(console, spec, JobDirectory(folder));
    watch.Show(Snapshot(), absl::FromUnixSeconds(1000));
    EXPECT_EQ(err.str(), "");
    watch.Show(HalfWay(), absl::FromUnixSeconds(1001));
  }
  std::filesystem::remove_all(folder);
  EXPECT_THAT(err.str(), HasSubstr(" 50% 0 rec/s"));
}

// Events are told in words, with their cause behind.
TEST(TrainWatchTest, SaysWhatHappens) {
  const std::string folder = testing::TempDir() + "/rubato-watch-events";
  std::filesystem::create_directories(folder + "/metrics");
  std::ostringstream out, err;
  {
    Console console = {.out = out, .err = err};
    const JobSpec spec = Spec();
    TrainWatch watch(console, spec, JobDirectory(folder));
    std::ofstream(folder + "/events.jsonl")
        << R"({"event":"view","number":7,"members":"a b c","holders":2})"
        << "\n"
        << R"({"event":"waiting","cause":"nobody answers"})"
        << "\n"
        << R"({"event":"waiting","step":9,"cause":"too few"})"
        << "\n"
        << R"({"event":"worker_left","worker":3,"cause":"asked to"})"
        << "\n"
        << R"({"event":"evaluation_ended","step":256,"auc":0.77823402454,"cause":"all scored"})"
        << "\n"
        << R"({"event":"data_away","data":"clicks","place":"the database at db","seconds":1.23,)"
        << R"("cause":"no route to host"})"
        << "\n"
        << R"({"event":"data_back","data":"clicks","place":"the database at db","seconds":75.5})"
        << "\n";
    watch.Show(Snapshot(), absl::FromUnixSeconds(1000));
  }
  std::filesystem::remove_all(folder);
  EXPECT_EQ(err.str(),
            "view 7: 3 workers, 2 with the model\nwaiting: nobody answers\n"
            "waiting after step 9: too few\nworker left: worker 3 (asked to)\n"
            "evaluation ended: step 256, auc 0.77823 (all scored)\n"
            "clicks: the database at db has not answered for 1.2 s (no route to host); trying "
            "again\nclicks: the database at db is back after 1m 16s\n");
}

// After a resume that was stopped at once, say: no worker has told this master a loss.
TEST(SummaryTest, AnUnknownLossIsNullNotZero) {
  Snapshot snapshot = HalfWay();
  EXPECT_EQ(SummaryJson(Spec(), snapshot, absl::Seconds(1), 0, "job")["loss"], 0.45123);
  snapshot.loss_known = false;
  EXPECT_TRUE(SummaryJson(Spec(), snapshot, absl::Seconds(1), 0, "job")["loss"].is_null());
  EXPECT_THAT(ProgressLine(snapshot, Spec(), 55'000, 79), Not(HasSubstr("loss")));
}

}  // namespace
}  // namespace rubato
