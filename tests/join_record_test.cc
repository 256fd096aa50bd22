// What workers without a master leave in their directories: events, a record of each failure, a
// summary; and how long one of them waits to be let in.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <filesystem>
#include <string>

#include "absl/strings/str_cat.h"
#include "tests/digits.h"
#include "tests/hand_worker.h"
#include "tests/job_runner.h"

namespace rubato {
namespace {

using ::testing::AnyOf;
using ::testing::Gt;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::StartsWith;

double SumOf(const nlohmann::json& goodput) {
  double sum = 0;
  for (const auto& [part, fraction] : goodput.items()) sum += fraction.get<double>();
  return sum;
}

// The record of `victim`'s end, as `witness` wrote it; null unless there is one, and one alone.
nlohmann::json RecordOf(const Worker& witness, const std::string& victim, size_t records) {
  if (!Eventually([&] { return witness.Events("failure").size() >= records; }, kLong)) return {};
  const auto failures = witness.Events("failure");
  if (failures.size() != records || failures.back()["worker"] != victim) return {};
  return failures.back();
}

// Everything that is to be known of the end of a process, and what it took.
void ExpectWhole(const nlohmann::json& record, const std::string& address, pid_t pid) {
  EXPECT_THAT(record["cause"].get<std::string>(), StartsWith(address + ": ")) << record;
  EXPECT_EQ(record["where"], address);
  EXPECT_EQ(record["pid"], pid);
  EXPECT_THAT(record["step"].get<int64_t>(), Gt(0));
  EXPECT_FALSE(record.contains("collateral_of")) << record;
  for (const char* phase : {"detect_ms", "agree_ms", "reconnect_ms", "redo_ms"}) {
    ASSERT_TRUE(record.contains(phase)) << record;
    EXPECT_GE(record[phase].get<double>(), 0) << record;
  }
  EXPECT_GT(record["redo_ms"].get<double>(), 0) << record;
}

// One of three falls silent, is left out and comes back; then it is killed. Both others have one
// record of each, as a master would write it. One leaves: that is no failure. The last trains to
// the end, and its summary adds up.
TEST(JoinRecordTest, EachFailureIsOneRecordAtEachSurvivor) {
  ScratchFolder folder;
  folder.Write("pace", "16000");
  const std::string job =
      WritePacedDigitsJob(folder, 320, "epochs: 60\ncheckpoint: {every_steps: 20}\n");
  Worker founder(folder, "founder",
                 {"worker", "--job", job, "--job-dir", folder.path() + "/founder", "--json"});
  ASSERT_TRUE(founder.Listens()) << founder.err();
  Worker second(folder, "second", job, founder.Address());
  ASSERT_TRUE(second.TrainsWith(2)) << second.err();
  Worker third(folder, "third", job, founder.Address());
  ASSERT_TRUE(third.TrainsWith(3) && founder.TrainsWith(3) && second.TrainsWith(3)) << third.err();
  const std::string victim = third.Address();

  third.Send(SIGSTOP);
  for (const Worker* witness : {&founder, &second}) {
    const nlohmann::json silent = RecordOf(*witness, victim, 1);
    ASSERT_TRUE(silent.is_object()) << witness->err();
    EXPECT_THAT(silent["cause"].get<std::string>(), HasSubstr(victim + ": silent for ")) << silent;
    EXPECT_EQ(silent["noticed_how"], "lease");
  }
  third.Send(SIGCONT);
  ASSERT_TRUE(Eventually([&] { return !third.Events("worker_evicted").empty(); }, kLong))
      << third.err();
  ASSERT_TRUE(Eventually([&] { return founder.Events("worker_holds").size() == 4; }, kLong))
      << founder.err();

  third.Send(SIGKILL);
  for (const Worker* witness : {&founder, &second}) {
    const nlohmann::json killed = RecordOf(*witness, victim, 2);
    ASSERT_TRUE(killed.is_object()) << witness->err();
    ExpectWhole(killed, victim, third.pid());
    EXPECT_THAT(killed["noticed_by"].get<std::string>(),
                AnyOf(founder.Address(), second.Address()));
  }

  third.Wait();
  const CommandResult dead = RunRubato({"show", third.directory()}, folder.path());
  EXPECT_THAT(dead.err, HasSubstr("its process has ended without a word")) << dead.out;
  second.Send(SIGTERM);
  EXPECT_EQ(second.Wait().exit_code, 130);
  ASSERT_TRUE(Eventually([&] { return !founder.Events("worker_left").empty(); }, kLong))
      << founder.err();
  EXPECT_EQ(founder.Events("worker_left")[0]["worker"], second.Address());
  const nlohmann::json left = second.Summary();
  EXPECT_EQ(left["state"], "stopped");
  EXPECT_NEAR(SumOf(left["goodput"]), 1, 1e-6);

  const CommandResult shown = RunRubato({"show", founder.directory(), "--json"}, folder.path());
  EXPECT_EQ(nlohmann::json::parse(shown.out, nullptr, false)["state"], "training") << shown.err;
  std::filesystem::remove(folder.path() + "/pace");
  const CommandResult ended = founder.Wait();
  EXPECT_EQ(ended.exit_code, 0) << ended.err;
  EXPECT_EQ(founder.Events("failure").size(), 2u) << ended.err;
  const nlohmann::json summary = founder.Summary();
  EXPECT_EQ(nlohmann::json::parse(ended.out, nullptr, false), summary);
  EXPECT_EQ(summary["state"], "done");
  EXPECT_EQ(summary["records_committed"], summary["records_expected"]);
  EXPECT_EQ(summary["workers"]["lost"], 2);
  EXPECT_EQ(summary["workers"]["max"], 3);
  EXPECT_TRUE(summary["metrics"].contains("accuracy"));
  EXPECT_NEAR(SumOf(summary["goodput"]), 1, 1e-6);
  EXPECT_EQ(founder.Events("evaluation_ended").size(), 1u);
  EXPECT_EQ(founder.Events("done").size(), 1u);
  EXPECT_THAT(founder.Events("checkpoint_complete").size(), Gt(1u));
}

// Two train to the end side by side: whoever is first to go is no failure. Every so many steps both
// rest, and each has the evaluation in its own directory.
TEST(JoinRecordTest, TheEndIsNoFailure) {
  ScratchFolder folder;
  folder.Write("pace", "1000");
  const std::string job =
      WritePacedDigitsJob(folder, 320, "epochs: 10\nevaluate: {every_steps: 40}\n");
  Worker founder(folder, "founder", job);
  ASSERT_TRUE(founder.Listens()) << founder.err();
  Worker second(folder, "second", job, founder.Address());
  ASSERT_TRUE(second.TrainsWith(2)) << second.err();
  std::filesystem::remove(folder.path() + "/pace");
  for (Worker* worker : {&founder, &second}) {
    EXPECT_EQ(worker->Wait().exit_code, 0) << worker->err();
    EXPECT_THAT(worker->Events("failure"), IsEmpty()) << worker->err();
    EXPECT_EQ(worker->Summary()["workers"]["lost"], 0);
    const CommandResult shown = RunRubato({"show", worker->directory()}, folder.path());
    EXPECT_THAT(shown.out, HasSubstr("digits: done after")) << shown.err;
  }
  EXPECT_EQ(founder.Summary()["weights"], second.Summary()["weights"]);
  const auto evaluations = founder.Events("evaluation_ended");
  ASSERT_EQ(evaluations.size(), 3u) << founder.err();
  for (const int i : {0, 1, 2}) {
    EXPECT_EQ(evaluations[static_cast<size_t>(i)]["step"], i < 2 ? 40 * (i + 1) : 100);
  }
  EXPECT_EQ(second.Events("evaluation_ended").back()["loss"], evaluations.back()["loss"]);
}

// Nobody there: it says whom it waits for and how long, and gives up when it was told to.
TEST(JoinRecordTest, WaitsAsLongAsItIsTold) {
  ScratchFolder folder;
  const std::string job = WriteDigitsJob(folder, 320, "");
  const auto words = [&](const std::string& timeout) {
    return std::vector<std::string>{"worker",      "--job",          job,
                                    "--job-dir",   "made",           "--join",
                                    "127.0.0.1:1", "--join-timeout", timeout};
  };
  const CommandResult late = RunRubato(words("300ms"), folder.path());
  EXPECT_EQ(late.exit_code, 1) << late.err;
  EXPECT_THAT(late.err, HasSubstr("nobody has let this worker in"));
  EXPECT_THAT(late.err, HasSubstr("nobody answers at 127.0.0.1:1"));
  EXPECT_THAT(late.err, HasSubstr("wait longer with --join-timeout"));
  EXPECT_FALSE(std::filesystem::exists(folder.path() + "/made")) << "nothing is left behind";
  EXPECT_THAT(RunRubato(words("soon"), folder.path()).err,
              HasSubstr("--join-timeout: 'soon' is no time: write 90s"));

  Worker patient(folder, "made", words("10m"));
  ASSERT_TRUE(patient.Says("gives up after 10m (--join-timeout)")) << patient.err();
  EXPECT_TRUE(patient.Said("s; nobody answers at 127.0.0.1:1: start a member there"));
  EXPECT_FALSE(patient.Said("after 100ms")) << patient.err();
  patient.Send(SIGINT);
  EXPECT_EQ(patient.Wait().exit_code, 130) << patient.err();
  EXPECT_FALSE(std::filesystem::exists(folder.path() + "/made")) << "nothing is left behind";
}

}  // namespace
}  // namespace rubato
