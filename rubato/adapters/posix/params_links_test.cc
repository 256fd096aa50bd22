// Servers of parameters beyond this machine, as far as their address tells: whoever talks to them
// knows the job's secret, and strangers do no harm.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <map>
#include <thread>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "rubato/adapters/files/testing.h"
#include "rubato/adapters/posix/fetch_log.h"
#include "rubato/adapters/posix/inspect_server.h"
#include "rubato/adapters/posix/params_testing.h"
#include "rubato/adapters/posix/replica_door.h"
#include "rubato/adapters/tls/tls_links.h"
#include "rubato/params/log_replica.h"
#include "rubato/params/wire.h"

namespace rubato {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr absl::Duration kPatience = absl::Seconds(30);
constexpr uint64_t kIds = 3000;
constexpr size_t kDim = 16;
constexpr int64_t kDense = 50000;

class LinksTest : public testing::Test {
 protected:
  ParamsServerOptions Options(int64_t server, int64_t servers) const {
    ParamsServerOptions options = TestServerOptions(root_, server, servers);
    options.address = "0.0.0.0:0";  // Everywhere; this machine can reach it by that name too.
    options.secret = kTestSecret;
    return options;
  }
  ParamsServer& Start(const ParamsServerOptions& options) {
    auto server = ParamsServer::Start(options);
    EXPECT_TRUE(server.ok()) << server.status();
    servers_.push_back(*std::move(server));
    return *servers_.back();
  }
  std::vector<std::string> Addresses() const {
    std::vector<std::string> addresses;
    for (const auto& server : servers_) addresses.push_back(server->address());
    return addresses;
  }
  // As a master would have it.
  void TellAll(const PartitionMap& map, const MoveOrder& move = {}, int64_t follows = -1) {
    ++view_;
    for (size_t s = 0; s < servers_.size(); ++s) {
      if (follows >= 0) servers_[s]->SetFollower(static_cast<int64_t>(1 - s), Addresses());
      servers_[s]->SetMap(view_, map, move, Addresses());
      servers_[s]->SetView(view_, {WorkerId(1)});
    }
  }
  std::unique_ptr<ParamsClient> Connect(int64_t servers, std::string secret = kTestSecret) {
    auto client = StartTestClient(servers, "ctr", std::move(secret));
    client->SetServers(Addresses());
    return client;
  }

  static absl::Status Declare(ParamsClient& client) {
    return Await<absl::Status>([&](std::function<void(absl::Status)> done) {
      client.Declare(TestSums(kDense, kDim), done);
    });
  }
  // Subtracts 1 from everything.
  absl::StatusOr<PushOutcome> Push(ParamsClient& client) {
    const std::vector<float> ones(kIds * kDim, 1.0f), dense(kDense, 1.0f);
    const int64_t n = pushed_++;
    const PushRequest request{.key = {.begin = n, .end = n + 1},
                              .worker = WorkerId(1),
                              .view = view_,
                              .tables = {{ids_, ones}},
                              .dense = dense};
    return Await<absl::StatusOr<PushOutcome>>(
        [&](std::function<void(absl::StatusOr<PushOutcome>)> done) { client.Push(request, done); });
  }
  // Everything is what so many pushes make of it.
  void ExpectPushed(ParamsClient& client, int64_t pushes) const {
    std::vector<float> rows(kIds * kDim), dense(kDense);
    const absl::Status pulled = Await<absl::Status>([&](std::function<void(absl::Status)> done) {
      client.Pull({.tables = {{ids_, absl::MakeSpan(rows)}}, .dense = absl::MakeSpan(dense)}, done);
    });
    ASSERT_TRUE(pulled.ok()) << pulled;
    EXPECT_EQ(rows, std::vector<float>(rows.size(), -static_cast<float>(pushes)));
    EXPECT_EQ(dense, std::vector<float>(dense.size(), -static_cast<float>(pushes)));
  }
  // Once it has counted as many.
  static void ExpectStrangers(ParamsServer& server, int64_t strangers, const std::string& why) {
    const absl::Time until = absl::Now() + kPatience;
    while (server.Stats().strangers < strangers && absl::Now() < until) std::this_thread::yield();
    const ParamsServerStats stats = server.Stats();
    EXPECT_EQ(stats.strangers, strangers);
    EXPECT_THAT(stats.last_stranger, AllOf(HasSubstr("127.0.0.1:"), HasSubstr(why)));
  }

  const TestFolder folder_;
  const std::string root_ = folder_.path();
  std::vector<uint64_t> ids_ = [] {
    std::vector<uint64_t> ids(kIds);
    for (uint64_t id = 0; id < kIds; ++id) ids[id] = id;
    return ids;
  }();
  int64_t view_ = 0, pushed_ = 0;
  std::vector<std::unique_ptr<ParamsServer>> servers_;
};

// Requests of some hundred kilobytes, many records long, several servers, partitions on the move.
TEST_F(LinksTest, WhoKnowsTheSecretIsServedAndPartitionsMove) {
  for (int64_t s = 0; s < 2; ++s) Start(Options(s, 2));
  PartitionMap map = PartitionMap::Even(2);
  TellAll(map);
  const auto client = Connect(2);
  ASSERT_TRUE(Declare(*client).ok());
  for (int n = 0; n < 5; ++n) ASSERT_EQ(*Push(*client), PushOutcome::kApplied);
  ExpectPushed(*client, 5);

  MoveOrder move = {.number = 1, .from = 0, .to = 1};
  move.partitions.Add(0, 300);
  TellAll(map, move);
  const absl::Time until = absl::Now() + kPatience;
  while (servers_[0]->moved() != 1 && absl::Now() < until) std::this_thread::yield();
  ASSERT_EQ(servers_[0]->moved(), 1);
  map.Move(move.partitions, 1);
  TellAll(map);
  ASSERT_EQ(*Push(*client), PushOutcome::kApplied);
  ExpectPushed(*client, 6);
  for (size_t s = 0; s < 2; ++s) {
    const auto seen = InspectServers(Addresses(), kPatience, kTestSecret);
    ASSERT_TRUE(seen[s].ok()) << seen[s].status();
    EXPECT_EQ(servers_[s]->Stats().strangers, 0);
  }
}

// What was acknowledged is with the follower, and comes back from there.
TEST_F(LinksTest, CopiesOfLogsTravelLikewise) {
  for (int64_t s = 0; s < 2; ++s) {
    ParamsServerOptions options = Options(s, 2);
    options.replicas = 1;
    Start(options);
  }
  TellAll(PartitionMap::Even(2), {}, /*follows=*/1);
  const auto client = Connect(2);
  ASSERT_TRUE(Declare(*client).ok());
  ASSERT_EQ(*Push(*client), PushOutcome::kApplied);

  servers_[0].reset();
  std::filesystem::remove_all(root_ + "/server-0");
  FetchLogOptions fetch = {.job = "ctr",
                           .directory = root_ + "/server-0",
                           .server = 0,
                           .incarnation = 2,
                           .others = {{1, servers_[1]->address()}}};
  for (const char* secret : {"", "guessed"}) {
    fetch.secret = secret;
    EXPECT_FALSE(FetchLog(fetch).ok()) << secret;
    EXPECT_FALSE(CompareWithCopies(fetch).ok()) << secret;
  }
  fetch.secret = kTestSecret;
  const absl::StatusOr<FetchedLog> got = FetchLog(fetch);
  ASSERT_TRUE(got.ok()) << got.status();
  EXPECT_FALSE(got->sizes.empty());
  ParamsServerOptions options = Options(0, 2);
  options.replicas = 1;
  options.incarnation = 2;
  auto again = ParamsServer::Start(options);
  ASSERT_TRUE(again.ok()) << again.status();
  servers_[0] = *std::move(again);
  TellAll(PartitionMap::Even(2), {}, /*follows=*/1);
  client->SetServers(Addresses());
  ExpectPushed(*client, 1);

  // Also from one that has nothing of its own yet.
  servers_[1].reset();
  const auto door = ReplicaDoor::Open(
      "0.0.0.0:0", kTestSecret, {.directory = root_ + "/server-1", .job = "ctr", .server = 1});
  ASSERT_TRUE(door.ok()) << door.status();
  fetch.incarnation = 3;
  fetch.directory = root_ + "/elsewhere";
  fetch.others = {{1, (*door)->address()}};
  EXPECT_FALSE(FetchLog(fetch)->sizes.empty());
}

// Every kind of request there is, among them those for which no greeting is needed, by somebody who
// knows the job's name and nothing else.
TEST_F(LinksTest, WhoDoesNotEncryptIsNotHeard) {
  ParamsServer& server = Start(Options(0, 1));
  TellAll(PartitionMap::Even(1));
  const auto client = Connect(1);
  ASSERT_TRUE(Declare(*client).ok());
  ASSERT_EQ(*Push(*client), PushOutcome::kApplied);
  const std::string follow = Encode(
      FollowRequest{.job = "ctr", .follower = 0, .leader = 1, .incarnation = int64_t{1} << 60});
  const std::map<ParamsOp, std::string> requests = {
      {ParamsOp::kHello, EncodeHello({.job = "ctr"})},
      {ParamsOp::kPush, "x"},
      {ParamsOp::kInspect, ""},
      {ParamsOp::kFollow, follow},
      {ParamsOp::kReplicate, Encode(ReplicaOrder{.kind = ReplicaOrder::Kind::kForget})},
      {ParamsOp::kReplicaRead, Encode(ReplicaOrder{.bytes = 100})}};
  int64_t strangers = 0;
  for (const auto& [op, body] : requests) {
    EXPECT_EQ(Exchange(server.address(), FrameOf(static_cast<uint16_t>(op), body)), kNotUnderstood);
    ExpectStrangers(server, ++strangers, "does not know the secret");
  }
  EXPECT_FALSE(std::filesystem::exists(root_ + "/server-0/of-1")) << "somebody follows";
  ASSERT_EQ(*Push(*client), PushOutcome::kApplied);
  ExpectPushed(*client, 2);
  while (server.Stats().clients > 1) std::this_thread::yield();
}

TEST_F(LinksTest, WhoKnowsAnotherSecretIsNotHeardAndTold) {
  ParamsServer& server = Start(Options(0, 1));
  TellAll(PartitionMap::Even(1));
  const auto client = Connect(1);
  ASSERT_TRUE(Declare(*client).ok());
  ASSERT_EQ(*Push(*client), PushOutcome::kApplied);
  const auto seen = InspectServer(server.address(), kPatience, "guessed");
  EXPECT_TRUE(absl::IsPermissionDenied(seen.status())) << seen.status();
  ExpectStrangers(server, 1, "does not know the secret");
  {
    const auto other = Connect(1, "guessed");
    const absl::Status refused = Declare(*other);
    EXPECT_TRUE(absl::IsPermissionDenied(refused)) << refused;
    EXPECT_THAT(std::string(refused.message()),
                AllOf(HasSubstr(server.address()), HasSubstr("secret of this job")));
  }
  while (server.Stats().strangers < 2) std::this_thread::yield();
  ASSERT_EQ(*Push(*client), PushOutcome::kApplied);
  ExpectPushed(*client, 2);
}

TEST_F(LinksTest, WithoutASecretNothingLeavesTheMachine) {
  ParamsServer& server = Start(Options(0, 1));
  TellAll(PartitionMap::Even(1));
  ParamsServerOptions open = Options(1, 2);
  open.secret = "";
  const std::vector<absl::Status> refusals = {
      ParamsServer::Start(open).status(), Declare(*Connect(1, "")),
      InspectServer(server.address(), kPatience).status(),
      ReplicaDoor::Open("0.0.0.0:0", "", {.directory = root_ + "/door", .job = "ctr"}).status()};
  for (const absl::Status& refusal : refusals) {
    EXPECT_TRUE(absl::IsInvalidArgument(refusal)) << refusal;
    EXPECT_THAT(std::string(refusal.message()),
                AllOf(HasSubstr("0.0.0.0:"), HasSubstr("leaves this machine"),
                      HasSubstr("group.secret"), HasSubstr("127.0.0.1")));
  }
  EXPECT_EQ(server.Stats().strangers, 0) << "nobody came";
}

// TLS where none is spoken, as to a server that stays on the machine.
TEST_F(LinksTest, TlsIsNoFrame) {
  ParamsServerOptions options = Options(0, 1);
  options.address = "127.0.0.1:0";
  ParamsServer& server = Start(options);
  TellAll(PartitionMap::Even(1));
  const std::string address =
      absl::StrCat("0.0.0.0:", SocketAddress::Parse(server.address())->port);
  EXPECT_FALSE(InspectServer(address, kPatience, kTestSecret).ok());
  ExpectStrangers(server, 1, "no frame of Rubato's");
  const auto client = Connect(1);
  ASSERT_TRUE(Declare(*client).ok());
  ASSERT_EQ(*Push(*client), PushOutcome::kApplied);
  ExpectPushed(*client, 1);
}

TEST(StaysHereTest, OnlyWhatThisMachineAloneCanReach) {
  for (const char* here : {"unix:/x", "127.0.0.1:0", "127.8.9.1:80", "localhost:80", "[::1]:80"}) {
    EXPECT_TRUE(SocketAddress::Parse(here)->StaysHere()) << here;
  }
  for (const char* away : {"0.0.0.0:0", "10.0.0.7:80", "127.0.0.1.example.org:80", "host:80",
                           "localhost.example.org:80", "[::]:80", "128.0.0.1:80"}) {
    EXPECT_FALSE(SocketAddress::Parse(away)->StaysHere()) << away;
  }
}

}  // namespace
}  // namespace rubato
