// What workers without a master leave in their directories: events, a record of each failure, a
// summary; and how long one of them waits to be let in.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <filesystem>
#include <optional>
#include <string>

#include "absl/strings/str_cat.h"
#include "tests/digits.h"
#include "tests/hand_worker.h"
#include "tests/job_runner.h"

namespace rubato {
namespace {

using ::testing::AllOf;
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

// What `worker` says of itself when it comes back after the others went on without it, so often:
// before anything of its new life. Null if it does not.
nlohmann::json OwnWords(const Worker& worker, size_t times) {
  const auto line = [&](const std::string& event) {
    const std::string text = ReadText(worker.directory() + "/events.jsonl");
    return text.rfind(
        absl::StrCat("\"event\":\"", event, "\",\"worker\":\"", worker.Address(), "\""));
  };
  const auto is_back = [&] {
    return worker.Events("worker_evicted").size() == times &&
           line("worker_evicted") < line("worker_joined");
  };
  return Eventually(is_back, kLong) ? worker.Events("worker_evicted").back() : nlohmann::json();
}

// Three workers by hand, and a fourth for a while; the others watch what befalls the third.
class GroupRecordTest : public testing::Test {
 protected:
  void Start() {
    folder_.Write("pace", "16000");
    job_ = WritePacedDigitsJob(folder_, 320, "epochs: 60\ncheckpoint: {every_steps: 20}\n");
    founder_.emplace(folder_, "founder",
                     std::vector<std::string>{"worker", "--job", job_, "--job-dir",
                                              folder_.path() + "/founder", "--json"});
    ASSERT_TRUE(founder_->Listens()) << founder_->err();
    second_.emplace(folder_, "second", job_, founder_->Address());
    ASSERT_TRUE(second_->TrainsWith(2)) << second_->err();
    third_.emplace(folder_, "third", job_, founder_->Address());
    for (const Worker* worker : {&*third_, &*founder_, &*second_}) {
      ASSERT_TRUE(worker->TrainsWith(3)) << worker->err();
    }
  }
  // So many lives have come to hold the model by then, in all.
  bool Held(size_t lives) const {
    return Eventually([&] { return founder_->Events("worker_holds").size() == lives; }, kLong);
  }
  std::vector<const Worker*> Witnesses() const { return {&*founder_, &*second_}; }
  std::vector<std::string> Directories() const {
    return {founder_->directory(), second_->directory(), third_->directory(),
            folder_.path() + "/fourth"};
  }

  // The third sleeps until the others have gone on without it, and comes back.
  void Sleep() {
    third_->Send(SIGSTOP);
    for (const Worker* witness : Witnesses()) {
      const nlohmann::json silent = RecordOf(*witness, third_->Address(), 1);
      ASSERT_TRUE(silent.is_object()) << witness->err();
      EXPECT_THAT(silent["cause"].get<std::string>(),
                  StartsWith(third_->Address() + ": silent for "));
      EXPECT_EQ(silent["noticed_how"], "lease");
    }
    third_->Send(SIGCONT);
    const nlohmann::json words = OwnWords(*third_, 1);
    ASSERT_TRUE(words.is_object()) << third_->err();
    EXPECT_EQ(words["noticed_how"], "lease");
    EXPECT_THAT(words["cause"].get<std::string>(), StartsWith("it was silent for too long"));
    EXPECT_FALSE(words.contains("collateral_of")) << words;
    ASSERT_TRUE(Held(4)) << founder_->err();
  }

  // A fourth dies, and just then the third does not answer for a moment.
  void DropOneWithADeath() {
    Worker fourth(folder_, "fourth", job_, founder_->Address());
    ASSERT_TRUE(Held(5)) << fourth.err();
    third_->Send(SIGSTOP);
    fourth.Send(SIGKILL);
    for (const Worker* witness : Witnesses()) {
      ASSERT_TRUE(Eventually([&] { return witness->Events("failure").size() == 3; }, kLong))
          << witness->err();
      const auto failures = witness->Events("failure");
      const bool first = failures[1]["worker"] == fourth.Address();
      const nlohmann::json died = failures[first ? 1 : 2], late = failures[first ? 2 : 1];
      ExpectWhole(died, fourth.Address(), fourth.pid());
      EXPECT_EQ(late["worker"], third_->Address());
      EXPECT_EQ(late["noticed_how"], "link") << late;
      EXPECT_EQ(late["collateral_of"], died["cause"]) << late;
    }
    third_->Send(SIGCONT);
    const nlohmann::json words = OwnWords(*third_, 2);
    ASSERT_TRUE(words.is_object()) << third_->err();
    EXPECT_EQ(words["noticed_how"], "link") << words;
    EXPECT_THAT(words.value("collateral_of", ""), StartsWith(fourth.Address())) << words;
    ASSERT_EQ(third_->Events("failure").size(), 1u) << third_->err();
    EXPECT_EQ(third_->Events("failure")[0]["worker"], fourth.Address());
    ASSERT_TRUE(Held(6)) << founder_->err();
  }

  void KillTheThird() {
    third_->Send(SIGKILL);
    for (const Worker* witness : Witnesses()) {
      const nlohmann::json killed = RecordOf(*witness, third_->Address(), 4);
      ASSERT_TRUE(killed.is_object()) << witness->err();
      ExpectWhole(killed, third_->Address(), third_->pid());
      EXPECT_THAT(killed["noticed_by"].get<std::string>(),
                  AnyOf(founder_->Address(), second_->Address()));
    }
    third_->Wait();
    const CommandResult dead = RunRubato({"show", third_->directory()}, folder_.path());
    EXPECT_THAT(dead.err, HasSubstr("its process has ended without a word")) << dead.out;
  }

  void LetTheSecondGo() {
    second_->Send(SIGTERM);
    EXPECT_EQ(second_->Wait().exit_code, 130);
    ASSERT_TRUE(Eventually([&] { return !founder_->Events("worker_left").empty(); }, kLong))
        << founder_->err();
    EXPECT_EQ(founder_->Events("worker_left")[0]["worker"], second_->Address());
    const nlohmann::json left = second_->Summary();
    EXPECT_EQ(left["state"], "stopped");
    EXPECT_NEAR(SumOf(left["goodput"]), 1, 1e-6);
    EXPECT_GT(left["goodput"]["detect"].get<double>(), 0) << "it waited for one that slept";
    // The step that the others went on from is one of those it had.
    EXPECT_EQ(left["steps"], founder_->Events("view").back()["step"]) << second_->err();
    EXPECT_TRUE(second_->Said(absl::StrCat("after step ", left["steps"].get<int64_t>(), "; the")))
        << second_->err();
  }

  ScratchFolder folder_;
  std::string job_;
  std::optional<Worker> founder_, second_, third_;
};

// One of three falls silent, is left out and comes back; does not answer just when a fourth is
// killed; is killed itself. The others have one record of each, as a master would write it. One
// leaves: that is no failure. The last trains to the end, and its summary adds up. What the four of
// them saw is one history.
TEST_F(GroupRecordTest, EachFailureIsOneRecordAtEachSurvivor) {
  ASSERT_NO_FATAL_FAILURE(Start());
  ASSERT_NO_FATAL_FAILURE(Sleep());
  ASSERT_NO_FATAL_FAILURE(DropOneWithADeath());
  ASSERT_NO_FATAL_FAILURE(KillTheThird());
  ASSERT_NO_FATAL_FAILURE(LetTheSecondGo());
  const CommandResult shown = RunRubato({"show", founder_->directory(), "--json"}, folder_.path());
  EXPECT_EQ(nlohmann::json::parse(shown.out, nullptr, false)["state"], "training") << shown.err;
  std::filesystem::remove(folder_.path() + "/pace");
  const CommandResult ended = founder_->Wait();
  EXPECT_EQ(ended.exit_code, 0) << ended.err;
  EXPECT_EQ(founder_->Events("failure").size(), 4u) << ended.err;
  const nlohmann::json summary = founder_->Summary();
  EXPECT_EQ(nlohmann::json::parse(ended.out, nullptr, false), summary);
  EXPECT_EQ(summary["state"], "done");
  EXPECT_EQ(summary["records_committed"], summary["records_expected"]);
  EXPECT_EQ(summary["workers"]["lost"], 3) << "who answered late was none";
  EXPECT_EQ(summary["workers"]["max"], 4);
  EXPECT_TRUE(summary["metrics"].contains("accuracy"));
  EXPECT_NEAR(SumOf(summary["goodput"]), 1, 1e-6);
  EXPECT_EQ(founder_->Events("evaluation_ended").size(), 1u);
  EXPECT_EQ(founder_->Events("done").size(), 1u);
  EXPECT_THAT(founder_->Events("checkpoint_complete").size(), Gt(1u));
  EXPECT_EQ(HistoryFaults(Directories()), "");
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
  // Whoever asks is told the same, and that there is nobody to be asked for more workers.
  EXPECT_THAT(RunRubato({"show", "made"}, folder.path()).err,
              AllOf(HasSubstr("this worker is in no group yet: "),
                    HasSubstr("nobody answers at 127.0.0.1:1")));
  EXPECT_THAT(RunRubato({"scale", "made", "--workers", "2"}, folder.path()).err,
              HasSubstr("is of a worker without a master"));
  patient.Send(SIGINT);
  EXPECT_EQ(patient.Wait().exit_code, 130) << patient.err();
  EXPECT_FALSE(std::filesystem::exists(folder.path() + "/made")) << "nothing is left behind";
}

}  // namespace
}  // namespace rubato
