// Servers that come back with less than they acknowledged: their logs were cut, damaged or removed
// while they were dead. What they lost is trained again, and every record counts once.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <optional>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "rubato/params/record_file.h"
#include "tests/job_runner.h"
#include "tests/server_state.h"

namespace rubato {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;
namespace fs = std::filesystem;

class LostLogsTest : public testing::Test {
 protected:
  void Start(const std::string& extra) {
    const std::string job = WriteCriteoJob(
        folder_, 20000, absl::StrCat("servers: 2\nworkers: {max: 2}\nepochs: 4000\n", extra));
    training_.emplace(folder_.path(), std::vector<std::string>{job});
    ASSERT_TRUE(training_->ReachStep(60));
  }
  void Resume(std::vector<std::string> more = {}) {
    more.insert(more.begin(), {"--resume", training_->job_dir()});
    training_.emplace(folder_.path(), more);
  }
  // Everybody dies at once, and nobody starts anybody again.
  void KillAll() {
    kill(training_->pid(), SIGKILL);
    training_->Wait();
    ASSERT_TRUE(Eventually([&] { return training_->Alive().empty(); }));
  }
  std::string Folder(int64_t server) const {
    return absl::StrCat(training_->job_dir(), "/servers/", server);
  }
  std::vector<std::string> Segments(int64_t server) const {
    std::vector<std::string> paths;
    for (const auto& entry : fs::directory_iterator(Folder(server))) {
      const std::string name = entry.path().filename().string();
      if (absl::StartsWith(name, "push-") && absl::EndsWith(name, ".log")) {
        paths.push_back(entry.path().string());
      }
    }
    std::sort(paths.begin(), paths.end());
    return paths;
  }
  // When it has stopped indeed.
  static bool Freeze(pid_t pid) {
    const std::string stat = absl::StrCat("/proc/", pid, "/stat");
    return kill(pid, SIGSTOP) == 0 &&
           Eventually([&] { return absl::StrContains(ReadText(stat), ") T "); });
  }
  // Where the pushes of the last segment begin.
  std::vector<size_t> Pushes(int64_t server) const { return PushesIn(Segments(server).back()); }
  static std::vector<size_t> PushesIn(const std::string& path) {
    const std::string bytes = ReadText(path);
    std::vector<size_t> begins;
    (void)SkimRecords(bytes, [&](RecordKind kind, absl::string_view body) {
      const auto at = static_cast<size_t>(body.data() - bytes.data());
      if (kind == RecordKind::kPush) begins.push_back(at - kRecordHeaderBytes);
    });
    return begins;
  }
  // Server 1 dies, and the log goes on in another segment; then everybody dies, and the older one
  // is left without what it held from its middle on: cut in a record, or between two. Its path.
  std::string CutAnOlderSegment(bool between_records) {
    const size_t joined = training_->Events("server_joined").size();
    const auto servers = training_->Alive("server");
    kill(std::find_if(servers.begin(), servers.end(), [](const auto& s) { return s.id == 1; })->pid,
         SIGKILL);
    EXPECT_TRUE(Eventually([&] { return training_->Events("server_joined").size() > joined; }));
    KillAll();
    const std::vector<std::string> segments = Segments(1);
    EXPECT_GE(segments.size(), 2U);
    const std::string path = segments[segments.size() - 2];
    const std::vector<size_t> pushes = PushesIn(path);
    EXPECT_GT(pushes.size(), 4U);
    fs::resize_file(path, pushes[pushes.size() / 2] + (between_records ? 0 : 100));
    return path;
  }
  // What the servers found wrong with their files, as the last of them said.
  std::string Damage() const {
    const auto events = training_->Events("damage_found");
    return events.empty() ? "" : events.back()["cause"].get<std::string>();
  }
  static void FlipByte(const std::string& path, std::streamoff at) {
    std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
    file.seekg(at);
    const char was = static_cast<char>(file.get());
    file.seekp(at);
    file.put(static_cast<char>(was ^ 0x10));
  }
  void ExpectProgress() {
    const nlohmann::json shown = training_->Show();
    ASSERT_TRUE(shown.is_object());
    ASSERT_TRUE(training_->ReachStep(shown["steps"].get<int64_t>() + 40));
  }

  ScratchFolder folder_;
  std::optional<TrainingJob> training_;
};

// A job short enough to be seen to its end.
constexpr char kShort[] = "servers: 2\nworkers: {max: 2}\nepochs: 12\n";

// The log of a server that is dead is cut in the middle, then all of another's is gone, with a
// checkpoint of both to go back to. The job ends with every record once on every server, which the
// master checks in the end, partition by partition.
TEST_F(LostLogsTest, CutLogsAndLostOnesAreTrainedAgain) {
  const std::string job = WriteCriteoJob(
      folder_, 20000, absl::StrCat(kShort, "checkpoint: {every_steps: 100, keep: 2}\n"));
  training_.emplace(folder_.path(), std::vector<std::string>{job});
  ASSERT_TRUE(Eventually([&] { return training_->Events("checkpoint_complete").size() >= 1; }));
  ASSERT_TRUE(training_->ReachStep(160));
  ASSERT_NO_FATAL_FAILURE(KillAll());
  // Not by half: one that is written over what was there before may end sooner.
  for (const std::string& path : Segments(0)) fs::resize_file(path, 4096);
  for (const std::string& path : Segments(1)) fs::remove(path);
  Resume();
  const CommandResult result = training_->Wait();
  EXPECT_EQ(result.exit_code, 0) << result.err;
  const nlohmann::json summary = training_->Summary();
  EXPECT_EQ(summary["state"], "done") << summary;
  EXPECT_EQ(summary["records_committed"], 12 * 20000);
  EXPECT_EQ(summary["records_repeated"], 0);
  EXPECT_GT(summary["records_taken_back"], 0);
  const auto events = training_->Events("records_taken_back");
  ASSERT_FALSE(events.empty());
  EXPECT_THAT(events.back()["cause"].get<std::string>(),
              AllOf(HasSubstr("came back without"), HasSubstr("they are trained again")));
  EXPECT_THAT(result.err, HasSubstr("came back without"));
  EXPECT_THAT(Damage(), AllOf(HasSubstr(Folder(0) + "/push-"), HasSubstr("was cut off there")));
}

// The same to one server in the midst of training; nobody else is started again. One of its
// segments is damaged, which is named.
TEST_F(LostLogsTest, ADamagedLogEndsThereAndIsNamed) {
  const std::string job = WriteCriteoJob(folder_, 20000, kShort);
  training_.emplace(folder_.path(), std::vector<std::string>{job});
  ASSERT_TRUE(training_->ReachStep(100));
  const auto servers = training_->Alive("server");
  ASSERT_EQ(servers.size(), 2U);
  // Frozen, it is there while its log is changed: its next life finds the damage.
  ASSERT_EQ(kill(servers[1].pid, SIGSTOP), 0);
  const std::vector<std::string> segments = Segments(servers[1].id);
  ASSERT_FALSE(segments.empty());
  const auto middle = static_cast<std::streamoff>(fs::file_size(segments[0]) / 2);
  FlipByte(segments[0], middle);
  ASSERT_EQ(kill(servers[1].pid, SIGKILL), 0);
  const CommandResult result = training_->Wait();
  EXPECT_EQ(result.exit_code, 0) << result.err;
  const nlohmann::json summary = training_->Summary();
  EXPECT_EQ(summary["records_committed"], 12 * 20000) << summary;
  EXPECT_EQ(summary["records_repeated"], 0);
  EXPECT_EQ(summary["workers"]["lost"], 0);
  const auto events = training_->Events("records_taken_back");
  ASSERT_FALSE(events.empty());
  EXPECT_THAT(events.front()["cause"].get<std::string>(), HasSubstr(segments[0]));
  EXPECT_THAT(Damage(), HasSubstr(segments[0] + ": damaged at byte "));
  EXPECT_TRUE(fs::exists(segments[0] + ".damaged"));
}

// A segment that is not the last was cut: those after it do not follow any more, sound as they are.
TEST_F(LostLogsTest, AnOlderSegmentThatWasCutIsNamed) {
  const std::string job = WriteCriteoJob(folder_, 20000, kShort);
  training_.emplace(folder_.path(), std::vector<std::string>{job});
  ASSERT_TRUE(training_->ReachStep(100));
  std::string cut;
  ASSERT_NO_FATAL_FAILURE(cut = CutAnOlderSegment(/*between_records=*/false));
  Resume();
  const CommandResult result = training_->Wait();
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_EQ(training_->Summary()["records_committed"], 12 * 20000);
  EXPECT_THAT(Damage(),
              AllOf(HasSubstr(cut + ": damaged at byte "), HasSubstr("was cut off there")));
  const auto events = training_->Events("records_taken_back");
  ASSERT_FALSE(events.empty());
  EXPECT_THAT(events.back()["cause"].get<std::string>(), HasSubstr(cut));
  EXPECT_TRUE(fs::exists(cut + ".damaged"));
}

TEST_F(LostLogsTest, ADiskWithNothingOnItFailsTheJobAndSaysWhatHelps) {
  ASSERT_NO_FATAL_FAILURE(Start(""));
  ASSERT_NO_FATAL_FAILURE(KillAll());
  fs::rename(Folder(1), folder_.path() + "/kept");
  Resume();
  const CommandResult result = training_->Wait();
  EXPECT_EQ(result.exit_code, 1) << result.err;
  EXPECT_THAT(training_->Summary()["error"].get<std::string>(),
              AllOf(HasSubstr("server-1 came back without 512 of its partitions"),
                    HasSubstr("params.replicas: 1"), HasSubstr("put it back and resume")));
  // Which is true.
  fs::remove_all(Folder(1));
  fs::rename(folder_.path() + "/kept", Folder(1));
  Resume();
  ASSERT_TRUE(Eventually([&] { return training_->Show().is_object(); }));
  ASSERT_NO_FATAL_FAILURE(ExpectProgress());
  EXPECT_TRUE(training_->Events("records_taken_back").empty());
}

// With a copy nothing is lost, whatever is wrong with the server's own log: here it cannot even be
// opened.
TEST_F(LostLogsTest, ALogThatCannotBeReadComesFromItsCopy) {
  ASSERT_NO_FATAL_FAILURE(Start("params: {replicas: 1}\n"));
  ASSERT_NO_FATAL_FAILURE(KillAll());
  const std::vector<std::string> segments = Segments(1);
  ASSERT_FALSE(segments.empty());
  fs::remove(segments[0]);
  fs::create_symlink("nowhere", segments[0]);
  Resume();
  ASSERT_TRUE(Eventually([&] { return training_->Show().is_object(); }));
  ASSERT_NO_FATAL_FAILURE(ExpectProgress());
  EXPECT_THAT(ReadText(training_->job_dir() + "/logs/server-1.log"),
              HasSubstr("came back from a copy"));
  EXPECT_TRUE(training_->Events("records_taken_back").empty());
  EXPECT_THAT(Damage(), AllOf(HasSubstr(segments[0]), HasSubstr("server 0's copy")));
  // So is a bit of the file that says where the copy ended.
  ASSERT_NO_FATAL_FAILURE(KillAll());
  const std::string joints = Folder(1) + "/joints";
  FlipByte(joints, 12);
  Resume();
  ASSERT_TRUE(Eventually([&] { return training_->Show().is_object(); }));
  ASSERT_NO_FATAL_FAILURE(ExpectProgress());
  EXPECT_THAT(Damage(), HasSubstr(joints + ": is damaged"));
  EXPECT_TRUE(fs::exists(joints + ".damaged"));
  EXPECT_TRUE(training_->Events("records_taken_back").empty());
}

// Nor is anything lost by one that is damaged: the copy's bytes take its place, and only its. What
// was wrong is said by file and byte.
TEST_F(LostLogsTest, ADamagedSegmentComesFromItsCopyAndIsNamed) {
  ASSERT_NO_FATAL_FAILURE(Start("params: {replicas: 1}\n"));
  ASSERT_NO_FATAL_FAILURE(KillAll());
  Resume();  // Another segment: the next life of a server has one of its own.
  ASSERT_TRUE(Eventually([&] { return training_->Show().is_object(); }));
  ASSERT_NO_FATAL_FAILURE(ExpectProgress());
  ASSERT_NO_FATAL_FAILURE(KillAll());
  const std::vector<std::string> segments = Segments(1);
  ASSERT_GE(segments.size(), 2U);
  FlipByte(segments[0], 2000);
  Resume();
  ASSERT_TRUE(Eventually([&] { return training_->Show().is_object(); }));
  ASSERT_NO_FATAL_FAILURE(ExpectProgress());
  // The last segment may go on where its copy ends: with a push that nobody acknowledged.
  EXPECT_THAT(Damage(),
              AllOf(StartsWith(segments[0] + ": damaged: other than its copy from byte 2000 on"
                                             "; server 0's copy took its place"),
                    Not(HasSubstr(segments[1] + ": damaged")), Not(HasSubstr("before its copy"))));
  const std::string log = ReadText(training_->job_dir() + "/logs/server-1.log");
  EXPECT_THAT(absl::StrReplaceAll(log, {{"\n", "; "}}), HasSubstr(Damage()));  // A line each.
  EXPECT_TRUE(fs::exists(segments[0] + ".damaged"));
  EXPECT_EQ(fs::exists(segments[1] + ".damaged"), absl::StrContains(Damage(), segments[1]));
  EXPECT_TRUE(training_->Events("records_taken_back").empty());
}

// A log was cut between two records. The copy has the rest: nothing is trained again. Everybody
// dies at once, so the servers ask each other before the master knows where they are.
TEST_F(LostLogsTest, ALogThatWasCutIsMadeWholeByItsCopy) {
  ASSERT_NO_FATAL_FAILURE(Start("params: {replicas: 1}\n"));
  ASSERT_NO_FATAL_FAILURE(KillAll());
  const std::vector<std::string> segments = Segments(1);
  ASSERT_FALSE(segments.empty());
  const std::string bytes = ReadText(segments.back());
  std::vector<size_t> ends;
  (void)SkimRecords(bytes, [&](RecordKind, absl::string_view body) {
    ends.push_back(static_cast<size_t>(body.data() - bytes.data()) - kRecordHeaderBytes);
  });
  ASSERT_GT(ends.size(), 10U);
  fs::resize_file(segments.back(), ends[ends.size() / 2]);
  Resume();
  ASSERT_TRUE(Eventually([&] { return training_->Show().is_object(); }));
  ASSERT_NO_FATAL_FAILURE(ExpectProgress());
  EXPECT_TRUE(training_->Events("records_taken_back").empty());
  EXPECT_TRUE(fs::exists(segments.back() + ".damaged"));
  EXPECT_THAT(Damage(), AllOf(HasSubstr(segments.back() + ": ends at byte "),
                              HasSubstr("server 0's copy took its place")));
}

// mode: sync, resumed with another number of servers: the weights are those of a run that never
// stopped, to the bit.
TEST_F(LostLogsTest, AResumedJobHasOtherServersAndTheSameWeights) {
  constexpr char kSync[] =
      "mode: sync\nrounds: {gradients: 2}\nservers: 2\nworkers: {max: 2}\nepochs: 8\n";
  std::map<std::string, std::string> expected;
  {
    ScratchFolder folder;
    TrainingJob calm(folder.path(), {WriteCriteoJob(folder, 20000, kSync)});
    ASSERT_EQ(calm.Wait().exit_code, 0);
    expected = ServerState(calm.job_dir());
  }
  ASSERT_GT(expected.size(), 1000U);
  training_.emplace(folder_.path(),
                    std::vector<std::string>{WriteCriteoJob(folder_, 20000, kSync)});
  for (const char* servers : {"3", "1"}) {
    const nlohmann::json shown = training_->Show();
    const int64_t steps = shown.is_object() ? shown["steps"].get<int64_t>() : 0;
    ASSERT_TRUE(training_->ReachStep(steps + 60));
    ASSERT_NO_FATAL_FAILURE(KillAll());
    const size_t before = training_->Events("servers_scaled").size();
    Resume({"--servers", servers, "--workers", "1"});
    ASSERT_TRUE(Eventually([&] { return training_->Events("servers_scaled").size() > before; }));
    EXPECT_EQ(training_->Events("servers_scaled").back()["to"], std::stoi(servers));
  }
  const CommandResult result = training_->Wait();
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_EQ(training_->Summary()["records_committed"], 8 * 20000);
  EXPECT_TRUE(ServerState(training_->job_dir()) == expected);
}

// mode: sync with a checkpoint of mid-training, and the logs of the servers named lost: all go back
// to it, and the weights are those of a run that never stopped, to the bit.
class GoBackTest : public LostLogsTest {
 protected:
  static constexpr char kSync[] =
      "mode: sync\nrounds: {gradients: 2}\nservers: 2\nworkers: {max: 2}\nepochs: 8\n"
      "checkpoint: {every_steps: 100, keep: 2}\n";

  void RunCalm() {
    ScratchFolder folder;
    TrainingJob calm(folder.path(), {WriteCriteoJob(folder, 20000, job_)});
    ASSERT_EQ(calm.Wait().exit_code, 0);
    expected_ = ServerState(calm.job_dir());
    ASSERT_GT(expected_.size(), 1000U);
  }
  void ReachACheckpoint() {
    training_.emplace(folder_.path(),
                      std::vector<std::string>{WriteCriteoJob(folder_, 20000, job_)});
    ASSERT_TRUE(Eventually([&] { return !training_->Events("checkpoint_complete").empty(); }));
    const nlohmann::json complete = training_->Events("checkpoint_complete").front();
    ASSERT_TRUE(training_->ReachStep(complete["step"].get<int64_t>() + 40));
  }
  void ExpectTheSame() {
    const CommandResult result = training_->Wait();
    ASSERT_EQ(result.exit_code, 0) << result.err;
    const nlohmann::json summary = training_->Summary();
    EXPECT_EQ(summary["state"], "done") << summary;
    EXPECT_EQ(summary["records_committed"], 8 * 20000);
    EXPECT_EQ(summary["records_repeated"], 0);
    EXPECT_GT(summary["records_taken_back"], 0);
    const auto events = training_->Events("went_back");
    ASSERT_FALSE(events.empty());
    EXPECT_THAT(events.front()["cause"].get<std::string>(),
                AllOf(HasSubstr("came back without"), HasSubstr("all servers go back")));
    EXPECT_TRUE(ServerState(training_->job_dir()) == expected_);
  }

  std::string job_ = kSync;
  std::map<std::string, std::string> expected_;
};

TEST_F(GoBackTest, AllServersThatLostTheirLogsGoOnFromTheCheckpoint) {
  ASSERT_NO_FATAL_FAILURE(RunCalm());
  ASSERT_NO_FATAL_FAILURE(ReachACheckpoint());
  ASSERT_NO_FATAL_FAILURE(KillAll());
  for (int64_t server : {0, 1}) fs::remove_all(Folder(server));
  Resume();
  ASSERT_NO_FATAL_FAILURE(ExpectTheSame());
}

// An older segment of one server's log is cut, in a record or between two: it is named, and what
// follows it is not taken for what followed the records that are gone.
TEST_F(GoBackTest, AnOlderSegmentThatWasCutIsNamed) {
  job_ = absl::StrReplaceAll(job_, {{"every_steps: 100", "every_steps: 200"}});
  ASSERT_NO_FATAL_FAILURE(RunCalm());
  ASSERT_NO_FATAL_FAILURE(ReachACheckpoint());
  std::string cut;
  ASSERT_NO_FATAL_FAILURE(cut = CutAnOlderSegment(/*between_records=*/true));
  Resume();
  ASSERT_NO_FATAL_FAILURE(ExpectTheSame());
  EXPECT_THAT(Damage(), HasSubstr(cut + ": damaged at byte "));
}

TEST_F(GoBackTest, AnOlderSegmentThatWasCutIsNamedInHybrid) {
  job_ = absl::StrReplaceAll(
      job_, {{"mode: sync", "mode: hybrid"}, {"every_steps: 100", "every_steps: 200"}});
  ASSERT_NO_FATAL_FAILURE(ReachACheckpoint());
  std::string cut;
  ASSERT_NO_FATAL_FAILURE(cut = CutAnOlderSegment(/*between_records=*/false));
  Resume();
  const CommandResult result = training_->Wait();
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_EQ(training_->Summary()["records_committed"], 8 * 20000);
  EXPECT_EQ(training_->Events("went_back").size(), 1U);
  EXPECT_THAT(Damage(), HasSubstr(cut + ": damaged at byte "));
}

// One server's log is lost while the job runs: the other, which has all of it, goes back too.
TEST_F(GoBackTest, TheOtherServersGoBackToo) {
  ASSERT_NO_FATAL_FAILURE(RunCalm());
  ASSERT_NO_FATAL_FAILURE(ReachACheckpoint());
  const auto servers = training_->Alive("server");
  ASSERT_EQ(servers.size(), 2U);
  ASSERT_EQ(kill(servers[1].pid, SIGSTOP), 0);
  fs::remove_all(Folder(servers[1].id));
  ASSERT_EQ(kill(servers[1].pid, SIGKILL), 0);
  ASSERT_NO_FATAL_FAILURE(ExpectTheSame());
  EXPECT_TRUE(fs::exists(Folder(servers[0].id) + "/set-aside-1"));
}

// With copies too: those are of what is no more.
TEST_F(GoBackTest, CopiesOfTheLogsAreSetAsideToo) {
  job_ += "params: {replicas: 1}\n";
  ASSERT_NO_FATAL_FAILURE(RunCalm());
  ASSERT_NO_FATAL_FAILURE(ReachACheckpoint());
  ASSERT_NO_FATAL_FAILURE(KillAll());
  fs::remove_all(Folder(1));
  fs::remove_all(Folder(0) + "/of-1");
  Resume();
  ASSERT_NO_FATAL_FAILURE(ExpectTheSame());
}

// One server has lost its log, and its file of the newest checkpoint is damaged: the one before is
// as good for all of them.
TEST_F(GoBackTest, ACheckpointThatIsDamagedIsPassedOver) {
  ASSERT_NO_FATAL_FAILURE(RunCalm());
  training_.emplace(folder_.path(), std::vector<std::string>{WriteCriteoJob(folder_, 20000, job_)});
  ASSERT_TRUE(Eventually([&] { return training_->Events("checkpoint_complete").size() >= 2; }));
  ASSERT_NO_FATAL_FAILURE(KillAll());
  fs::remove_all(Folder(1));
  const auto version = training_->Events("checkpoint_complete").back()["version"].get<int64_t>();
  const std::string folder = absl::StrCat(training_->job_dir(), "/checkpoints/", version);
  const std::string file = folder + "/server-1.ckpt";
  FlipByte(file, static_cast<std::streamoff>(fs::file_size(file) / 2));
  Resume();
  ASSERT_NO_FATAL_FAILURE(ExpectTheSame());
  const auto back = training_->Events("went_back");
  ASSERT_EQ(back.size(), 2U);
  EXPECT_EQ(back[0]["version"], version);
  EXPECT_EQ(back[1]["version"], version - 1);
  EXPECT_THAT(back[1]["cause"].get<std::string>(), HasSubstr(file + ": damaged at byte"));
}

// Server 1 has acknowledged a push and lost it again before the other server, which is frozen all
// the while, could: its worker learns of both and is not to count it. A round without it would be
// of half a round's weights on one server, in silence.
TEST_F(GoBackTest, APushThatOnlyADeadLifeAcknowledgedIsNotLost) {
  job_ = "mode: sync\nrounds: {gradients: 2}\nservers: 2\nworkers: {max: 1}\nepochs: 8\n";
  ASSERT_NO_FATAL_FAILURE(RunCalm());
  training_.emplace(folder_.path(), std::vector<std::string>{WriteCriteoJob(folder_, 20000, job_)});
  ASSERT_TRUE(training_->ReachStep(60));
  const auto servers = training_->Alive("server");
  ASSERT_EQ(servers.size(), 2U);
  // Most of the time the worker waits for what it pulls.
  ASSERT_TRUE(Eventually([&] {
    if (!Freeze(servers[0].pid)) return false;
    const bool ahead =
        Eventually([&] { return Pushes(1).size() > Pushes(0).size(); }, absl::Milliseconds(100));
    if (!ahead) kill(servers[0].pid, SIGCONT);
    return ahead;
  }));
  ASSERT_TRUE(Freeze(servers[1].pid));
  fs::resize_file(Segments(1).back(), Pushes(1).back());
  const size_t joined = training_->Events("server_joined").size();
  ASSERT_EQ(kill(servers[1].pid, SIGKILL), 0);
  ASSERT_TRUE(Eventually([&] { return training_->Events("server_joined").size() > joined; }));
  ASSERT_EQ(kill(servers[0].pid, SIGCONT), 0);
  const CommandResult result = training_->Wait();
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_EQ(training_->Summary()["records_repeated"], 0);
  EXPECT_TRUE(training_->Events("records_taken_back").empty());
  EXPECT_TRUE(ServerState(training_->job_dir()) == expected_);
}

TEST_F(LostLogsTest, ServersGoWithResumeOnly) {
  const CommandResult result = RunRubato(
      {"train", WriteCriteoJob(folder_, 20000, kShort), "--servers", "3"}, folder_.path());
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_THAT(result.err, HasSubstr("--set servers=N"));
}

}  // namespace
}  // namespace rubato
