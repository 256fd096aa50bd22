// Checkpoints built on one another, as files of a real server: how it comes back from them, what
// damage to any of them does, and which of them stay.
#include "rubato/adapters/posix/checkpoint_files.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <future>
#include <set>

#include "absl/strings/str_cat.h"
#include "rubato/adapters/files/testing.h"
#include "rubato/adapters/posix/params_testing.h"
#include "rubato/base/rng.h"

namespace rubato {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr int64_t kDense = 40;
constexpr size_t kDim = 4;
constexpr size_t kIds = 2000;

// One server with a client. What it writes is kept for as long as the test.
class CheckpointFilesTest : public testing::Test {
 protected:
  CheckpointFilesTest() {
    Live();
    const Declaration model = TestModel(kDense, kDim, "adagrad");
    EXPECT_TRUE(Wait([&](auto done) { client_->Declare(model, done); }).ok());
  }

  ParamsServerOptions Options() { return TestServerOptions(root_, 0, 1); }
  // In another life, from what is on disk.
  void Live() {
    server_.reset();
    auto server = ParamsServer::Start(Options());
    ASSERT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
    server_->SetView(1, {WorkerId(1)});
    if (client_ == nullptr) client_ = StartTestClient(1);
    client_->SetServers({server_->address()});
  }

  static absl::Status Wait(
      const std::function<void(std::function<void(absl::Status)> done)>& start) {
    return Await<absl::Status>(start);
  }
  // Moves `count` of the first `kIds` rows.
  void Push(size_t count) {
    std::vector<uint64_t> ids;
    for (size_t i = 0; i < count; ++i) ids.push_back((static_cast<size_t>(pushes_) * 7 + i) % kIds);
    std::sort(ids.begin(), ids.end());
    const std::vector<float> gradients(ids.size() * kDim, 0.25f), dense(kDense, 0.5f);
    PushRequest request{
        .key = {.begin = pushes_ * 8, .end = pushes_ * 8 + 8}, .worker = WorkerId(1), .view = 1};
    request.tables = {{ids, gradients}};
    request.dense = dense;
    ++pushes_;
    const absl::Status status = Wait([&](auto done) {
      client_->Push(request, [done](const absl::StatusOr<PushOutcome>& outcome) {
        done(outcome.ok() && *outcome == PushOutcome::kApplied ? absl::OkStatus()
                                                               : outcome.status());
      });
    });
    ASSERT_TRUE(status.ok()) << status;
  }
  std::vector<float> Pull() {
    std::vector<uint64_t> ids(kIds);
    for (size_t i = 0; i < ids.size(); ++i) ids[i] = i;
    std::vector<float> rows(ids.size() * kDim), dense(kDense);
    const absl::Status status = Wait([&](auto done) {
      client_->Pull({.tables = {{ids, absl::MakeSpan(rows)}}, .dense = absl::MakeSpan(dense)},
                    done);
    });
    EXPECT_TRUE(status.ok()) << status;
    rows.insert(rows.end(), dense.begin(), dense.end());
    return rows;
  }
  void Checkpoint(int64_t version, int64_t base) {
    const absl::Status status = Wait(
        [&](auto done) { server_->StartCheckpoint({.version = version, .base = base}, done); });
    ASSERT_TRUE(status.ok()) << status;
  }
  // A full one, and deltas on it up to `version`.
  void ChainUpTo(int64_t version) {
    Push(kIds);
    for (int64_t v = 1; v <= version; ++v) {
      Push(20);
      Checkpoint(v, v - 1);
    }
  }

  std::string Path(int64_t version, int64_t server = 0) {
    return CheckpointPath(root_ + "/checkpoints", version, server);
  }
  CheckpointName NameOf(int64_t version) {
    const auto chain = MappedChain::Open(root_ + "/checkpoints", version, 0);
    EXPECT_TRUE(chain.ok()) << chain.status();
    return chain.ok() ? chain->name() : CheckpointName();
  }
  void Write(const std::string& name) {
    std::filesystem::create_directories(
        std::filesystem::path(root_ + "/checkpoints/" + name).parent_path());
    std::ofstream(root_ + "/checkpoints/" + name) << "{}";
  }
  std::set<std::string> Files() {
    std::set<std::string> files;
    const std::filesystem::path top = root_ + "/checkpoints";
    for (const auto& entry : std::filesystem::recursive_directory_iterator(top)) {
      files.insert(std::filesystem::relative(entry.path(), top).string());
    }
    return files;
  }

  const TestFolder folder_;
  const std::string root_ = folder_.path();
  int64_t pushes_ = 0;
  std::unique_ptr<ParamsServer> server_;
  std::unique_ptr<ParamsClient> client_;
};

// Segments that a checkpoint made needless are kept to be written over, by a server that goes on.
TEST_F(CheckpointFilesTest, WhoLeavesKeepsNothingForSpeed) {
  Push(20);
  Checkpoint(1, 0);
  server_->DropLogBefore(1);
  server_->Stop();
  const std::string spare = Options().directory + "/spare-000001.log";
  EXPECT_TRUE(std::filesystem::exists(spare));
  Live();
  server_->Leave();
  EXPECT_FALSE(std::filesystem::exists(spare));
}

// A disk that is full stays so for a while: trying again and again must not fill it further.
TEST_F(CheckpointFilesTest, ACheckpointTriedAgainCutsTheLogOnce) {
  ChainUpTo(1);
  Push(20);
  // Where the next one is to be published stands a folder.
  std::filesystem::create_directories(Path(2) + "/in the way");
  const auto segments = [&] {
    int count = 0;
    for (const auto& file : std::filesystem::recursive_directory_iterator(root_)) {
      count += file.is_regular_file() && file.path().extension() == ".log";
    }
    return count;
  };
  const int before = segments();
  ASSERT_GT(before, 0);
  for (int i = 0; i < 5; ++i) {
    EXPECT_FALSE(
        Wait([&](auto done) { server_->StartCheckpoint({.version = 2, .base = 1}, done); }).ok());
  }
  EXPECT_EQ(segments(), before + 1);
  Push(20);
  std::filesystem::remove_all(Path(2));
  Checkpoint(2, 1);
  EXPECT_EQ(segments(), before + 2) << "what was pushed meanwhile is before the cut";
  Push(20);
  const std::vector<float> want = Pull();
  Live();
  EXPECT_EQ(Pull(), want);
}

// The folder of checkpoints may be a network away: whoever makes files in it, requests go on. Here
// the file is a pipe, which nobody can open before somebody reads.
TEST_F(CheckpointFilesTest, NobodyWaitsForTheFolderOfCheckpoints) {
  Push(kIds);
  const std::string made = Path(1) + ".tmp";
  std::filesystem::create_directories(std::filesystem::path(made).parent_path());
  ASSERT_EQ(mkfifo(made.c_str(), 0600), 0);
  std::promise<absl::Status> checkpoint;
  server_->StartCheckpoint({.version = 1},
                           [&](const absl::Status& status) { checkpoint.set_value(status); });
  const auto requests = std::async(std::launch::async, [&] {
    for (int i = 0; i < 50; ++i) Push(20);
    Pull();
  });
  const bool answered = requests.wait_for(std::chrono::seconds(10)) == std::future_status::ready;
  EXPECT_TRUE(answered);
  if (answered) {
    EXPECT_FALSE(Wait([&](auto done) { server_->StartCheckpoint({.version = 2}, done); }).ok())
        << "one at a time";
  }
  const int pipe = open(made.c_str(), O_RDONLY | O_NONBLOCK);
  EXPECT_FALSE(checkpoint.get_future().get().ok()) << "a pipe is no file";
  close(pipe);
  EXPECT_FALSE(PathExists(made));
  requests.wait();
  Checkpoint(1, 0);
  const std::vector<float> want = Pull();
  Live();
  EXPECT_EQ(server_->Stats().replayed, 0);
  EXPECT_TRUE(Pull() == want);
}

TEST_F(CheckpointFilesTest, AServerComesBackFromAChainAndGoesOnWithIt) {
  ChainUpTo(3);
  EXPECT_EQ(NameOf(1).base, 0);
  EXPECT_EQ(NameOf(3).base, 2);
  EXPECT_LT(std::filesystem::file_size(Path(2)), std::filesystem::file_size(Path(1)) / 4);
  server_->DropLogBefore(3);
  Push(10);
  const std::vector<float> before = Pull();
  Live();
  EXPECT_EQ(server_->Stats().replayed, 1);
  EXPECT_TRUE(Pull() == before);
  // What changed is known from the chain and the log: the next is a delta too.
  Checkpoint(4, 3);
  EXPECT_EQ(NameOf(4).base, 3);
  server_->DropLogBefore(4);
  Live();
  EXPECT_EQ(server_->Stats().replayed, 0);
  EXPECT_TRUE(Pull() == before);
}

TEST_F(CheckpointFilesTest, AFullOneIsWrittenWhereNoDeltaIsToBeHad) {
  ChainUpTo(2);
  Checkpoint(3, 0);  // The master says so.
  EXPECT_EQ(NameOf(3).base, 0);
  Checkpoint(5, 4);  // Of 4 this server knows nothing.
  EXPECT_EQ(NameOf(5).base, 0);
  for (int64_t version = 6; version <= 8; ++version) {  // Deltas that add up to half of it.
    Push(kIds / 2);
    Checkpoint(version, version - 1);
  }
  EXPECT_EQ(NameOf(6).base, 5);
  EXPECT_EQ(NameOf(7).base, 0);
  EXPECT_EQ(NameOf(8).base, 7);
}

// Dying while a delta is written leaves the chain before it, and the delta can be written again.
TEST_F(CheckpointFilesTest, DyingDuringADeltaLosesNothing) {
  ChainUpTo(2);
  server_->DropLogBefore(2);
  Push(30);
  const std::vector<float> before = Pull();
  server_->StartCheckpoint({.version = 3, .base = 2}, [](const absl::Status&) {});
  Live();
  EXPECT_TRUE(Pull() == before);
  Checkpoint(3, 2);
  EXPECT_EQ(NameOf(3).base, 2);
  server_->DropLogBefore(3);
  Live();
  EXPECT_TRUE(Pull() == before);
}

// The newest whose whole chain is sound serves, with the log since; if the log does not reach so
// far, what is wrong is named.
TEST_F(CheckpointFilesTest, DamageInAnyLinkIsDoneWithoutOrNamed) {
  Push(kIds);
  Checkpoint(1, 0);
  Push(20);
  Checkpoint(2, 1);
  Push(20);
  Checkpoint(3, 0);
  for (int64_t version = 4; version <= 6; ++version) {
    Push(20);
    Checkpoint(version, version - 1);
  }
  server_->DropLogBefore(2);
  const std::vector<float> before = Pull();
  const auto damaged = [&](int64_t version, bool truncated) {
    server_.reset();
    const std::string path = Path(version), copy = path + ".copy";
    std::filesystem::copy_file(path, copy);
    const auto bytes = static_cast<std::streamoff>(std::filesystem::file_size(path));
    if (truncated) {
      std::filesystem::resize_file(path, static_cast<uintmax_t>(bytes / 2));
    } else {
      FlipByte(path, bytes / 2);
    }
    Live();
    EXPECT_TRUE(Pull() == before) << version;
    const int64_t served = server_->Stats().checkpointed;
    const std::vector<std::string> damage = server_->Stats().damage;
    // Each that it did without, whatever it is built on, and what is wrong with this one.
    EXPECT_EQ(damage.size(), static_cast<size_t>(6 - served));
    for (const std::string& what : damage) {
      EXPECT_THAT(what, AllOf(HasSubstr(path), HasSubstr(truncated ? "" : "damaged at byte")));
    }
    server_.reset();
    std::filesystem::rename(copy, path);
    return served;
  };
  for (const bool truncated : {false, true}) {
    EXPECT_EQ(damaged(6, truncated), 5);
    EXPECT_EQ(damaged(5, truncated), 4);
    EXPECT_EQ(damaged(4, truncated), 3);
    EXPECT_EQ(damaged(3, truncated), 2);  // All that is built on it with it.
    EXPECT_EQ(damaged(1, truncated), 6);
  }
  std::filesystem::remove(Path(4));
  Live();
  EXPECT_EQ(server_->Stats().checkpointed, 3);
  EXPECT_TRUE(Pull() == before);
  server_.reset();
  std::filesystem::remove(Path(3));
  std::filesystem::remove(Path(1));
  const auto refused = ParamsServer::Start(Options());
  EXPECT_TRUE(absl::IsDataLoss(refused.status())) << refused.status();
  EXPECT_THAT(std::string(refused.status().message()),
              HasSubstr("checkpoint 6 builds on checkpoint 4: "));
  EXPECT_THAT(std::string(refused.status().message()), HasSubstr("/4/server-0.ckpt"));
}

// A log that was lost, or that came from an older copy, goes on behind the cut of the checkpoint:
// what lay before it nobody would replay.
TEST_F(CheckpointFilesTest, ALostLogGoesOnBehindTheCheckpoint) {
  Push(kIds);
  Checkpoint(1, 0);
  server_.reset();
  for (const auto& entry : std::filesystem::directory_iterator(Options().directory)) {
    if (entry.path().extension() == ".log") std::filesystem::remove(entry.path());
  }
  Live();
  Push(20);
  const std::vector<float> before = Pull();
  Live();
  EXPECT_TRUE(Pull() == before);
}

// As when somebody puts a folder back under another's number: a sound file, of older weights.
TEST_F(CheckpointFilesTest, AFileOfAnotherVersionIsNamed) {
  Push(kIds);
  Checkpoint(1, 0);
  Push(20);
  Checkpoint(2, 0);
  const std::vector<float> before = Pull();
  server_.reset();
  std::filesystem::copy_file(Path(1), Path(2), std::filesystem::copy_options::overwrite_existing);
  Live();
  EXPECT_EQ(server_->Stats().checkpointed, 1);
  EXPECT_THAT(server_->Stats().damage,
              ElementsAre(AllOf(HasSubstr(Path(2)), HasSubstr("is of version 1, not 2"))));
  EXPECT_TRUE(Pull() == before);
}

TEST_F(CheckpointFilesTest, WhatIsKeptIsWholeAndNothingElseIsThere) {
  ChainUpTo(4);  // 1 to 4.
  Checkpoint(5, 0);
  Push(20);
  Checkpoint(6, 5);
  Push(20);
  Checkpoint(7, 6);
  for (int v = 1; v <= 7; ++v) {
    Write(absl::StrCat(v, "/manifest.json"));
    Write(absl::StrCat(v, "/features.yaml"));
  }
  Write("2/server-0.ckpt.tmp");  // Of one that died.
  Write("8/server-0.ckpt.tmp");  // Being written,
  Write("8/manifest.json");      // once more: it was given up when all went back.
  Write("BEST");
  const std::string folder = root_ + "/checkpoints";
  ASSERT_TRUE(KeepCheckpoints(folder, {3, 6, 7}).ok());
  EXPECT_THAT(Files(), ElementsAre("1", "1/server-0.ckpt", "2", "2/server-0.ckpt", "3",
                                   "3/features.yaml", "3/manifest.json", "3/server-0.ckpt", "5",
                                   "5/server-0.ckpt", "6", "6/features.yaml", "6/manifest.json",
                                   "6/server-0.ckpt", "7", "7/features.yaml", "7/manifest.json",
                                   "7/server-0.ckpt", "8", "8/server-0.ckpt.tmp", "BEST"));
  ASSERT_TRUE(KeepCheckpoints(folder, {6, 7}).ok());
  EXPECT_THAT(Files(),
              ElementsAre("5", "5/server-0.ckpt", "6", "6/features.yaml", "6/manifest.json",
                          "6/server-0.ckpt", "7", "7/features.yaml", "7/manifest.json",
                          "7/server-0.ckpt", "8", "8/server-0.ckpt.tmp", "BEST"));
  const std::vector<float> before = Pull();
  server_->DropLogBefore(6);
  Live();
  EXPECT_TRUE(Pull() == before);
}

// A file whose head cannot be read may be built on any: they stay until it goes.
TEST_F(CheckpointFilesTest, DamageIsNoReasonToRemoveMore) {
  ChainUpTo(3);
  server_.reset();
  FlipByte(Path(3), 100);
  const std::string folder = root_ + "/checkpoints";
  ASSERT_TRUE(KeepCheckpoints(folder, {3}).ok());
  EXPECT_THAT(Files(),
              ElementsAre("1", "1/server-0.ckpt", "2", "2/server-0.ckpt", "3", "3/server-0.ckpt"));
}

}  // namespace
}  // namespace rubato
