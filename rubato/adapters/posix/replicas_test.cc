// Servers that keep copies of each other's push logs, over real sockets: what was acknowledged
// outlives the folder of the server that did so. Destroying a server leaves on disk what a SIGKILL
// there would.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <future>
#include <memory>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "rubato/adapters/files/testing.h"
#include "rubato/adapters/posix/fetch_log.h"
#include "rubato/adapters/posix/params_testing.h"
#include "rubato/base/rng.h"

namespace rubato {
namespace {

using ::testing::HasSubstr;

constexpr uint64_t kIds = 200;

bool Eventually(const std::function<bool()>& condition) {
  const absl::Time patience = absl::Now() + absl::Seconds(60);
  while (!condition()) {
    if (absl::Now() > patience) return false;
    absl::SleepFor(absl::Milliseconds(1));
  }
  return true;
}

class ReplicasTest : public testing::Test {
 protected:
  ReplicasTest() : servers_(2), lives_(2) {
    for (size_t s = 0; s < 2; ++s) Live(s);
    client_ = StartTestClient(2);
    client_->SetServers(Addresses());
    for (uint64_t id = 0; id < kIds; ++id) ids_.push_back(id);
  }
  ~ReplicasTest() override { client_.reset(); }

  std::string Folder(size_t s) const { return absl::StrCat(root_, "/server-", s); }
  std::vector<std::string> Addresses() const {
    return {absl::StrCat("unix:", root_, "/s0"), absl::StrCat("unix:", root_, "/s1")};
  }
  ParamsServerOptions Options(size_t s) const {
    ParamsServerOptions options = TestServerOptions(root_, static_cast<int64_t>(s), 2);
    options.replicas = 1;
    options.incarnation = lives_[s];
    return options;
  }
  absl::StatusOr<LogSizes> Fetch(size_t s) const {
    return FetchLog({.job = "ctr",
                     .directory = Folder(s),
                     .server = static_cast<int64_t>(s),
                     .incarnation = lives_[s],
                     .others = {{static_cast<int64_t>(1 - s), Addresses()[1 - s]}}});
  }
  // A (new) life of server `s`, which gets its log back if it is gone.
  void Live(size_t s) {
    servers_[s].reset();
    ++lives_[s];
    if (lives_[s] > 1 && !*HasLog(Folder(s))) {
      const absl::StatusOr<LogSizes> got = Fetch(s);
      ASSERT_TRUE(got.ok()) << got.status();
    }
    auto server = ParamsServer::Start(Options(s));
    ASSERT_TRUE(server.ok()) << server.status();
    servers_[s] = *std::move(server);
    servers_[s]->SetFollower(static_cast<int64_t>(1 - s), Addresses());
    servers_[s]->SetMap(1, PartitionMap::Even(2), {}, Addresses());
    servers_[s]->SetView(1, {WorkerId(1)});
  }
  void LoseDisk(size_t s) {
    servers_[s].reset();
    std::filesystem::remove_all(Folder(s));
  }
  absl::Status Declare() {
    const Declaration model = TestSums(0, 2);
    return Await<absl::Status>(
        [&](std::function<void(absl::Status)> done) { client_->Declare(model, done); });
  }
  // Subtracts 1 from every row. The promise is kept once the push is acknowledged.
  std::future<absl::StatusOr<PushOutcome>> Push(int64_t n) {
    const PushRequest request{.key = {.begin = n, .end = n + 1},
                              .worker = WorkerId(1),
                              .view = 1,
                              .tables = {{ids_, ones_}},
                              .dense = {}};
    auto promise = std::make_shared<std::promise<absl::StatusOr<PushOutcome>>>();
    client_->Push(request, [promise](absl::StatusOr<PushOutcome> outcome) {
      promise->set_value(std::move(outcome));
    });
    return promise->get_future();
  }
  // What all rows are, if they are the same.
  float Pull() {
    std::vector<float> rows(kIds * 2, 1);
    const absl::Status status = Await<absl::Status>([&](std::function<void(absl::Status)> done) {
      client_->Pull({.tables = {{ids_, absl::MakeSpan(rows)}}, .dense = {}}, done);
    });
    EXPECT_TRUE(status.ok()) << status;
    EXPECT_EQ(rows, std::vector<float>(rows.size(), rows[0]));
    return rows[0];
  }
  bool Settled() {
    return Eventually(
        [&] { return servers_[0]->Stats().follower == 1 && servers_[1]->Stats().follower == 0; });
  }
  absl::Status Checkpoint(int64_t version) {
    for (const auto& server : servers_) {
      const absl::Status status =
          Await<absl::Status>([&](const std::function<void(absl::Status)>& done) {
            server->StartCheckpoint({.version = version}, done);
          });
      if (!status.ok()) return status;
    }
    for (const auto& server : servers_) server->DropLogBefore(version);
    return absl::OkStatus();
  }

  const TestFolder folder_;
  const std::string root_ = folder_.path();
  std::vector<std::unique_ptr<ParamsServer>> servers_;
  std::vector<int64_t> lives_;
  std::unique_ptr<ParamsClient> client_;
  std::vector<uint64_t> ids_;
  const std::vector<float> ones_ = std::vector<float>(kIds * 2, 1.0f);
};

// Disks go one after the other, some right after a checkpoint, while pushes are under way. Every
// push is acknowledged once, none is lost and none is applied twice.
TEST_F(ReplicasTest, WhatWasAcknowledgedOutlivesADisk) {
  ASSERT_TRUE(Declare().ok());
  Rng rng(1);
  int64_t pushed = 0;
  for (int64_t death = 0; death < 12; ++death) {
    std::vector<std::future<absl::StatusOr<PushOutcome>>> under_way;
    for (uint64_t n = 5 + rng.Below(10); n > 0; --n) under_way.push_back(Push(pushed++));
    ASSERT_TRUE(Settled());
    ASSERT_TRUE(rng.Chance(0.7) || Checkpoint(death + 1).ok());
    for (uint64_t n = rng.Below(5); n > 0; --n) under_way.push_back(Push(pushed++));
    const size_t victim = rng.Below(2);
    if (rng.Chance(0.7)) {
      LoseDisk(victim);
    } else {
      servers_[victim].reset();
    }
    for (uint64_t n = rng.Below(5); n > 0; --n) under_way.push_back(Push(pushed++));
    Live(victim);
    for (auto& push : under_way) {
      const absl::StatusOr<PushOutcome> outcome = push.get();
      ASSERT_TRUE(outcome.ok()) << outcome.status();
    }
    ASSERT_EQ(Pull(), -static_cast<float>(pushed)) << death;
  }
}

// Without its follower a server takes pushes in, and says so only when the follower has them.
TEST_F(ReplicasTest, NothingIsAcknowledgedWithoutTheFollower) {
  ASSERT_TRUE(Declare().ok());
  ASSERT_TRUE(Push(0).get().ok());
  ASSERT_TRUE(Settled());
  servers_[1].reset();
  auto waiting = Push(1);
  // Server 0 has it in its log, and yet its client knows nothing.
  ASSERT_TRUE(Eventually([&] { return servers_[0]->Stats().pushes == 2; }));
  EXPECT_TRUE(Eventually([&] { return servers_[0]->Stats().follower == -1; }));
  EXPECT_GT(servers_[0]->Inspect().log_uncopied, 0);
  EXPECT_EQ(waiting.wait_for(std::chrono::milliseconds(50)), std::future_status::timeout);
  std::filesystem::remove_all(Folder(1));
  Live(1);
  EXPECT_TRUE(waiting.get().ok());
  EXPECT_TRUE(Settled());
  EXPECT_EQ(Pull(), -2);
}

// A copy is as long as the log: what a checkpoint makes needless goes from it too.
TEST_F(ReplicasTest, ACheckpointShortensTheCopy) {
  ASSERT_TRUE(Declare().ok());
  for (int64_t n = 0; n < 5; ++n) ASSERT_TRUE(Push(n).get().ok());
  ASSERT_TRUE(Settled());
  ASSERT_TRUE(Checkpoint(1).ok());
  const auto copies = [&] {
    int64_t files = 0;
    for (const auto& entry : std::filesystem::directory_iterator(Folder(1) + "/of-0")) {
      files += entry.is_regular_file();
    }
    return files;
  };
  EXPECT_TRUE(Eventually([&] { return copies() == 1; }));
  LoseDisk(0);
  Live(0);
  EXPECT_EQ(Pull(), -5);
}

TEST_F(ReplicasTest, WhoMayHaveTheCopyMustAnswer) {
  ASSERT_TRUE(Declare().ok());
  ASSERT_TRUE(Settled());
  servers_[1].reset();
  LoseDisk(0);
  ++lives_[0];
  const absl::StatusOr<LogSizes> got = Fetch(0);
  EXPECT_TRUE(absl::IsUnavailable(got.status()));
  EXPECT_THAT(std::string(got.status().message()), HasSubstr("server 1, which may have a copy"));
  Live(1);
  EXPECT_FALSE(Fetch(0)->empty());
  --lives_[0];  // A life that is over gets nothing.
  EXPECT_FALSE(Fetch(0).ok());
}

}  // namespace
}  // namespace rubato
