// Real servers and real clients over real sockets, in one process. Destroying a server between two
// requests leaves on disk exactly what a SIGKILL there would.
#include "rubato/adapters/posix/params_server.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <asio.hpp>
#include <atomic>
#include <filesystem>
#include <fstream>
#include <future>
#include <thread>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "rubato/adapters/files/testing.h"
#include "rubato/adapters/posix/frame_socket.h"
#include "rubato/adapters/posix/params_testing.h"
#include "rubato/adapters/tls/tls_links.h"
#include "rubato/base/rng.h"
#include "rubato/params/partition.h"

namespace rubato {
namespace {

using ::testing::HasSubstr;

constexpr int64_t kDense = 40;
constexpr size_t kDim = 4;

Declaration Model(std::string optimizer = "adagrad") {
  return TestModel(kDense, kDim, std::move(optimizer));
}

// Turns a callback into something to wait for.
template <typename T>
class Answer {
 public:
  std::function<void(T)> callback() {
    return [promise = promise_](T value) { promise->set_value(std::move(value)); };
  }
  T get() { return future_.get(); }
  bool ready() { return future_.wait_for(std::chrono::seconds(0)) == std::future_status::ready; }

 private:
  std::shared_ptr<std::promise<T>> promise_ = std::make_shared<std::promise<T>>();
  std::future<T> future_ = promise_->get_future();
};

absl::Status Declare(ParamsClient& client, const Declaration& model) {
  Answer<absl::Status> answer;
  client.Declare(model, answer.callback());
  return answer.get();
}

struct Weights {
  std::vector<float> rows, dense;
  friend bool operator==(const Weights&, const Weights&) = default;
};
Weights Pull(ParamsClient& client, const std::vector<uint64_t>& ids) {
  Weights weights{std::vector<float>(ids.size() * kDim), std::vector<float>(kDense)};
  Answer<absl::Status> answer;
  client.Pull(
      {.tables = {{ids, absl::MakeSpan(weights.rows)}}, .dense = absl::MakeSpan(weights.dense)},
      answer.callback());
  const absl::Status status = answer.get();
  EXPECT_TRUE(status.ok()) << status;
  return weights;
}

// Batch `number` of worker `worker`: the same for the same number.
struct Step {
  int64_t number = 0;
  int64_t worker = 1;
  int64_t view = 1;
};
void StartPush(ParamsClient& client, Step step,
               std::function<void(absl::StatusOr<PushOutcome>)> done) {
  Rng rng(static_cast<uint64_t>(step.number));
  std::vector<uint64_t> ids(50);
  for (size_t i = 0; i < ids.size(); ++i) ids[i] = i * 20 + rng.Below(20);
  std::vector<float> gradients(ids.size() * kDim), dense(kDense);
  for (float& g : gradients) g = static_cast<float>(rng.Below(9)) - 4;
  for (float& g : dense) g = static_cast<float>(rng.Below(9)) - 4;
  PushRequest request;
  request.key = {.begin = step.number * 32, .end = step.number * 32 + 32};
  request.worker = WorkerId(step.worker);
  request.view = step.view;
  request.tables = {{ids, gradients}};
  request.dense = dense;
  client.Push(request, std::move(done));
}
absl::StatusOr<PushOutcome> Push(ParamsClient& client, Step step) {
  Answer<absl::StatusOr<PushOutcome>> answer;
  StartPush(client, step, answer.callback());
  return answer.get();
}

std::vector<uint64_t> AllIds() {
  std::vector<uint64_t> ids(1000);
  for (size_t i = 0; i < ids.size(); ++i) ids[i] = i;
  return ids;
}

// A folder of its own, short enough for a socket's path, and servers in it.
class ParamsServerTest : public testing::TestWithParam<std::string> {
 protected:
  ParamsServerOptions Options(int64_t server, int64_t servers = 2) {
    ParamsServerOptions options = TestServerOptions(root_, server, servers);
    if (GetParam() == "tcp") options.address = "127.0.0.1:0";
    if (GetParam() == "tls") options.address = "0.0.0.0:0";
    options.secret = kTestSecret;
    return options;
  }
  // Starts (again) server `s` and lets workers 1 to 8 in.
  ParamsServer& Start(size_t s, int64_t servers = 2, int64_t view = 1) {
    auto server = ParamsServer::Start(Options(static_cast<int64_t>(s), servers));
    EXPECT_TRUE(server.ok()) << server.status();
    if (servers_.size() <= s) servers_.resize(s + 1);
    servers_[s] = *std::move(server);
    std::vector<WorkerId> workers;
    for (int64_t w = 1; w <= 8; ++w) workers.push_back(WorkerId(w));
    if (view > 0) servers_[s]->SetView(view, workers);
    return *servers_[s];
  }
  std::vector<std::string> Addresses() {
    std::vector<std::string> addresses;
    for (const auto& server : servers_) addresses.push_back(server ? server->address() : "");
    return addresses;
  }
  ParamsClient& Connect(std::string job = "ctr") {
    clients_.push_back(StartTestClient(static_cast<int64_t>(servers_.size()), std::move(job)));
    clients_.back()->SetServers(Addresses());
    return *clients_.back();
  }
  absl::Status Checkpoint(ParamsServer& server, int64_t version, int64_t base = 0) {
    Answer<absl::Status> answer;
    server.StartCheckpoint({.version = version, .base = base}, answer.callback());
    return answer.get();
  }
  int64_t FilesIn(const std::string& directory) {
    return std::distance(std::filesystem::directory_iterator(directory),
                         std::filesystem::directory_iterator());
  }

  const TestFolder folder_;
  const std::string root_ = folder_.path();
  std::vector<std::unique_ptr<ParamsServer>> servers_;
  std::vector<std::unique_ptr<ParamsClient>> clients_;
};

// Two servers train as one would.
TEST_P(ParamsServerTest, TwoServersHoldWhatOneWould) {
  Start(0), Start(1);
  ParamsClient& pair = Connect();
  ASSERT_TRUE(Declare(pair, Model()).ok());
  for (int64_t n = 0; n < 20; ++n) ASSERT_EQ(*Push(pair, {n}), PushOutcome::kApplied);
  const Weights from_pair = Pull(pair, AllIds());
  EXPECT_EQ(servers_[0]->Stats().applied.at(0).ToString(), "[0,640)");
  EXPECT_GT(servers_[0]->Stats().rows, 100);
  EXPECT_GT(servers_[1]->Stats().rows, 100);

  clients_.clear(), servers_.clear();
  std::filesystem::remove_all(root_ + "/server-0");
  Start(0, /*servers=*/1);
  ParamsClient& alone = Connect();
  ASSERT_TRUE(Declare(alone, Model()).ok());
  for (int64_t n = 0; n < 20; ++n) ASSERT_EQ(*Push(alone, {n}), PushOutcome::kApplied);
  EXPECT_TRUE(Pull(alone, AllIds()) == from_pair);
}

// Pulled and pushed keys are counted, with others in their stead, where they are.
TEST_P(ParamsServerTest, LoadFollowsTheKeys) {
  Start(0), Start(1);
  ParamsClient& client = Connect();
  ASSERT_TRUE(Declare(client, Model()).ok());
  for (int64_t n = 0; n < 20; ++n) {
    Pull(client, AllIds());
    ASSERT_EQ(*Push(client, {n}), PushOutcome::kApplied);  // Counted before it is answered.
  }
  int64_t keys = 0;
  for (int64_t s = 0; s < 2; ++s) {
    const std::vector<int64_t> load = servers_[static_cast<size_t>(s)]->TakeLoad();
    ASSERT_EQ(load.size(), static_cast<size_t>(kPartitions));
    for (int64_t p = 0; p < kPartitions; ++p) {
      keys += load[static_cast<size_t>(p)];
      const bool owned = PartitionMap::Even(2).OwnerOf(p) == s;
      EXPECT_TRUE(owned || load[static_cast<size_t>(p)] == 0) << p;
    }
    const std::vector<int64_t> more = servers_[static_cast<size_t>(s)]->TakeLoad();
    EXPECT_EQ(more, std::vector<int64_t>(kPartitions));  // Taken.
  }
  EXPECT_NEAR(static_cast<double>(keys), 20 * 1050, 0.05 * 20 * 1050);
}

// A request that finds its server dead is answered when the server is back, wherever that is, and
// nothing acknowledged before is lost.
TEST_P(ParamsServerTest, ADeadServerComesBackWithEverything) {
  Start(0), Start(1);
  ParamsClient& client = Connect();
  ASSERT_TRUE(Declare(client, Model()).ok());
  for (int64_t n = 0; n < 10; ++n) ASSERT_TRUE(Push(client, {n}).ok());
  const Weights before = Pull(client, AllIds());
  for (int life = 0; life < 3; ++life) {
    servers_[1].reset();
    Answer<absl::StatusOr<PushOutcome>> repeat;
    StartPush(client, {9}, repeat.callback());
    EXPECT_EQ(Start(1).Stats().replayed, 10);
    client.SetServers(Addresses());
    EXPECT_EQ(*repeat.get(), PushOutcome::kDuplicate);
    ASSERT_TRUE(Pull(client, AllIds()) == before);
  }
  EXPECT_EQ(*Push(client, {10}), PushOutcome::kApplied);
}

// After a restart nobody is heard before the master's word on who may speak.
TEST_P(ParamsServerTest, NobodyIsGreetedBeforeTheFirstView) {
  ParamsServer& server = Start(0, /*servers=*/1, /*view=*/0);
  ParamsClient& client = Connect();
  Answer<absl::Status> declared;
  client.Declare(Model(), declared.callback());
  while (server.Stats().clients == 0) std::this_thread::yield();
  EXPECT_FALSE(declared.ready());
  EXPECT_FALSE(client.Connected()[0]);
  server.SetView(3, {WorkerId(1)});
  EXPECT_TRUE(declared.get().ok());
  EXPECT_TRUE(client.Connected()[0]);
  EXPECT_EQ(server.Stats().view, 3);
}

// A batch that reached only one of two servers is completed by whoever computes it again.
TEST_P(ParamsServerTest, HalfAPushIsCompletedByAnother) {
  Start(0), Start(1);
  ParamsClient& client = Connect();
  ASSERT_TRUE(Declare(client, Model()).ok());
  ASSERT_EQ(*Push(client, {0}), PushOutcome::kApplied);
  servers_[1].reset();
  ParamsClient& dying = Connect();
  Answer<absl::StatusOr<PushOutcome>> cut_off;
  StartPush(dying, {.number = 1, .worker = 2}, cut_off.callback());
  while (servers_[0]->Stats().pushes < 2) std::this_thread::yield();
  dying.Stop();
  EXPECT_TRUE(absl::IsCancelled(cut_off.get().status()));
  Start(1);
  client.SetServers(Addresses());
  EXPECT_EQ(*Push(client, {.number = 1, .worker = 1}), PushOutcome::kApplied);
  EXPECT_EQ(*Push(client, {.number = 1, .worker = 1}), PushOutcome::kDuplicate);
  EXPECT_EQ(servers_[0]->Stats().applied, servers_[1]->Stats().applied);
}

TEST_P(ParamsServerTest, AnEvictedWorkerIsFenced) {
  Start(0), Start(1);
  ParamsClient& client = Connect();
  ASSERT_TRUE(Declare(client, Model()).ok());
  servers_[1]->SetView(2, {WorkerId(2)});  // One server knows; that is enough.
  EXPECT_EQ(*Push(client, {.number = 0, .worker = 1}), PushOutcome::kFenced);
  EXPECT_EQ(servers_[1]->Stats().fenced, 1);
  EXPECT_EQ(*Push(client, {.number = 0, .worker = 2}), PushOutcome::kApplied);
}

// Eight workers at once on overlapping ids: with SGD at rate 1 and whole numbers, sums are exact.
TEST_P(ParamsServerTest, EightPushersLoseNoUpdate) {
  constexpr int64_t kClients = 8, kSteps = 25;
  Start(0), Start(1);
  Declaration model = Model("sgd");
  model.optimizer.learning_rate = 1;
  model.signature.tables[0].initializer.name = "zeros";
  std::vector<ParamsClient*> clients;
  for (int64_t c = 0; c < kClients; ++c) clients.push_back(&Connect());
  std::vector<std::thread> threads;
  for (int64_t c = 0; c < kClients; ++c) {
    threads.emplace_back([&, c] {
      ASSERT_TRUE(Declare(*clients[static_cast<size_t>(c)], model).ok());
      std::vector<Answer<absl::StatusOr<PushOutcome>>> answers(kSteps);
      for (int64_t n = 0; n < kSteps; ++n) {
        StartPush(*clients[static_cast<size_t>(c)], {.number = c * kSteps + n, .worker = c + 1},
                  answers[static_cast<size_t>(n)].callback());
      }
      for (auto& answer : answers) ASSERT_EQ(*answer.get(), PushOutcome::kApplied);
    });
  }
  // Others pull meanwhile, side by side.
  std::atomic<bool> done = false;
  std::vector<ParamsClient*> watchers = {&Connect(), &Connect()};
  std::vector<std::thread> watching;
  for (ParamsClient* watcher : watchers) {
    watching.emplace_back([&, watcher] {
      ASSERT_TRUE(Declare(*watcher, model).ok());
      do {
        Pull(*watcher, AllIds());
      } while (!done);
    });
  }
  for (std::thread& thread : threads) thread.join();
  done = true;
  for (std::thread& thread : watching) thread.join();
  const Weights together = Pull(*clients[0], AllIds());
  clients_.clear(), servers_.clear();
  std::filesystem::remove_all(root_ + "/server-0");
  Start(0, /*servers=*/1);
  ParamsClient& alone = Connect();
  ASSERT_TRUE(Declare(alone, model).ok());
  for (int64_t n = kClients * kSteps; n-- > 0;) ASSERT_TRUE(Push(alone, {n}).ok());
  EXPECT_TRUE(Pull(alone, AllIds()) == together);
}

// ---- checkpoints ----

TEST_P(ParamsServerTest, ACheckpointAndTheLogSinceGiveEverythingBack) {
  ParamsServer& server = Start(0, 1);
  ParamsClient& client = Connect();
  ASSERT_TRUE(Declare(client, Model()).ok());
  for (int64_t n = 0; n < 10; ++n) ASSERT_TRUE(Push(client, {n}).ok());
  Answer<absl::Status> written;
  server.StartCheckpoint({.version = 1}, written.callback());
  for (int64_t n = 10; n < 20; ++n) ASSERT_TRUE(Push(client, {n}).ok());
  ASSERT_TRUE(written.get().ok());
  EXPECT_EQ(server.Stats().checkpointed, 1);
  EXPECT_TRUE(Checkpoint(server, 1).ok());  // Done already.
  const int64_t log_bytes = server.Stats().log_bytes;
  EXPECT_LT(server.Stats().replay_bytes, log_bytes);  // What came before the cut is still there.
  server.DropLogBefore(1);
  EXPECT_EQ(server.Stats().replay_bytes, server.Stats().log_bytes);
  EXPECT_LT(server.Stats().log_bytes, log_bytes);
  for (int64_t n = 20; n < 25; ++n) ASSERT_TRUE(Push(client, {n}).ok());
  const Weights before = Pull(client, AllIds());

  servers_[0].reset();
  const ParamsServerStats stats = Start(0, 1).Stats();
  EXPECT_LE(stats.replayed, 15);
  EXPECT_GE(stats.replayed, 5);
  EXPECT_EQ(stats.checkpointed, 1);
  client.SetServers(Addresses());
  EXPECT_TRUE(Pull(client, AllIds()) == before);
  EXPECT_EQ(servers_[0]->Stats().applied.at(0).ToString(), "[0,800)");
  EXPECT_EQ(*Push(client, {24}), PushOutcome::kDuplicate);
  EXPECT_EQ(*Push(client, {25}), PushOutcome::kApplied);
}

// A process that dies while writing a checkpoint leaves the one before it usable, and the version
// can be written again by its successor.
TEST_P(ParamsServerTest, DyingDuringACheckpointLosesNothing) {
  Start(0, 1);
  ParamsClient& client = Connect();
  ASSERT_TRUE(Declare(client, Model()).ok());
  ASSERT_TRUE(Push(client, {0}).ok());
  ASSERT_TRUE(Checkpoint(*servers_[0], 1).ok());
  servers_[0]->DropLogBefore(1);
  ASSERT_TRUE(Push(client, {1}).ok());
  const Weights before = Pull(client, AllIds());
  servers_[0]->StartCheckpoint({.version = 2}, [](absl::Status) {});
  servers_[0].reset();
  Start(0, 1);
  client.SetServers(Addresses());
  ASSERT_TRUE(Pull(client, AllIds()) == before);
  ASSERT_TRUE(Push(client, {2}).ok());
  ASSERT_TRUE(Checkpoint(*servers_[0], 2).ok());
  EXPECT_EQ(FilesIn(root_ + "/checkpoints/2"), 1);
}

TEST_P(ParamsServerTest, ADamagedCheckpointGivesWayToAnOlderOneIfTheLogReaches) {
  Start(0, 1);
  ParamsClient& client = Connect();
  ASSERT_TRUE(Declare(client, Model()).ok());
  for (int64_t n = 0; n < 3; ++n) {
    ASSERT_TRUE(Push(client, {n}).ok());
    ASSERT_TRUE(Checkpoint(*servers_[0], n + 1).ok());
  }
  const Weights before = Pull(client, AllIds());
  servers_[0]->DropLogBefore(2);
  servers_[0].reset();
  FlipByte(root_ + "/checkpoints/3/server-0.ckpt", 1000);
  Start(0, 1);
  client.SetServers(Addresses());
  EXPECT_TRUE(Pull(client, AllIds()) == before);

  servers_[0].reset();
  FlipByte(root_ + "/checkpoints/2/server-0.ckpt", 1000);
  FlipByte(root_ + "/checkpoints/1/server-0.ckpt", 1000);
  const auto refused = ParamsServer::Start(Options(0, 1));
  EXPECT_TRUE(absl::IsDataLoss(refused.status()));
  EXPECT_THAT(std::string(refused.status().message()),
              HasSubstr("checkpoints/3/server-0.ckpt: damaged at byte"));
}

TEST_P(ParamsServerTest, ADamagedLogIsRefusedAndNamed) {
  Start(0, 1);
  ParamsClient& client = Connect();
  ASSERT_TRUE(Declare(client, Model()).ok());
  for (int64_t n = 0; n < 3; ++n) ASSERT_TRUE(Push(client, {n}).ok());
  servers_[0].reset();
  FlipByte(root_ + "/server-0/push-000001.log", 700);
  const auto refused = ParamsServer::Start(Options(0, 1));
  EXPECT_TRUE(absl::IsDataLoss(refused.status()));
  EXPECT_THAT(std::string(refused.status().message()), HasSubstr("push-000001.log: damaged at"));
}

// ---- what the world may do ----

TEST_P(ParamsServerTest, OnlyOneProcessMayHoldTheDirectoryAndTheAddress) {
  Start(0, 1);
  EXPECT_THAT(std::string(ParamsServer::Start(Options(0, 1)).status().message()),
              HasSubstr("server-0 is in use by another server process"));
  ParamsServerOptions other = Options(0, 1);
  other.directory = root_ + "/elsewhere";
  other.address = servers_[0]->address();
  const auto refused = ParamsServer::Start(other);
  EXPECT_TRUE(absl::IsUnavailable(refused.status()));
  EXPECT_THAT(std::string(refused.status().message()), HasSubstr(other.address + " is in use"));
}

TEST_P(ParamsServerTest, StrangersAreTurnedAway) {
  const ParamsServer& server = Start(0, 1);
  EXPECT_THAT(std::string(Declare(Connect("another"), Model()).message()),
              HasSubstr("a server of job 'ctr', not of 'another'"));
  if (GetParam() != "tls") {
    EXPECT_THAT(Exchange(server.address(), FrameOf(0, EncodeHello({.job = "ctr", .server = 1}))),
                HasSubstr("server 0, not 1"));
  }
  ParamsClient& client = Connect();
  ASSERT_TRUE(Declare(client, Model()).ok());
  EXPECT_TRUE(absl::IsFailedPrecondition(Declare(client, Model("sgd"))));
}

// Whatever is thrown at the port ends that connection and no other.
TEST_P(ParamsServerTest, GarbageClosesThatConnectionOnly) {
  ParamsServer& server = Start(0, 1);
  ParamsClient& client = Connect();
  ASSERT_TRUE(Declare(client, Model()).ok());
  const bool tls = GetParam() == "tls";
  const std::string word(tls ? kNotUnderstood : "");
  EXPECT_EQ(Exchange(server.address(), "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"), word);
  EXPECT_EQ(Exchange(server.address(), FrameOf(0, "x", 0xffffffff)), word);
  EXPECT_THAT(Exchange(server.address(), FrameOf(3, "no greeting")),
              HasSubstr(tls ? word : "no greeting"));
  EXPECT_THAT(Exchange(server.address(), FrameOf(0, EncodeHello({.version = 9, .job = "ctr"}))),
              HasSubstr(tls ? word : absl::StrCat("protocol 9, this server ", kProtocolVersion)));
  Rng rng(5);
  for (int round = 0; round < 20; ++round) {
    std::string noise(1 + rng.Below(200), 'x');
    for (char& c : noise) c = static_cast<char>(rng.Next());
    noise[0] = 'x';
    noise.resize(300);
    EXPECT_EQ(Exchange(server.address(), noise), word);
  }
  EXPECT_EQ(*Push(client, {0}), PushOutcome::kApplied);
  while (server.Stats().clients > 1) std::this_thread::yield();
  EXPECT_EQ(server.Stats().strangers, tls ? 24 : 22);
}

TEST_P(ParamsServerTest, NotFiniteIsRefusedAndReported) {
  ParamsServer& server = Start(0, 1);
  ParamsClient& client = Connect();
  ASSERT_TRUE(Declare(client, Model()).ok());
  const std::vector<float> dense(kDense, std::numeric_limits<float>::infinity());
  PushRequest request;
  request.key = {.begin = 0, .end = 1};
  request.worker = WorkerId(4);
  request.view = 1;
  request.dense = dense;
  Answer<absl::StatusOr<PushOutcome>> answer;
  client.Push(request, answer.callback());
  EXPECT_THAT(
      std::string(answer.get().status().message()),
      testing::AllOf(HasSubstr("worker-4"), HasSubstr("dense weights: gradient is infinity")));
  EXPECT_EQ(server.Stats().not_finite, 1);
  EXPECT_THAT(server.Stats().last_error, HasSubstr("worker-4"));
}

// Refused by one server it is applied by none.
TEST_P(ParamsServerTest, NotFiniteMovesNoWeightAnywhere) {
  ParamsServer& first = Start(0);
  ParamsServer& second = Start(1);
  ParamsClient& client = Connect();
  ASSERT_TRUE(Declare(client, Model()).ok());
  ASSERT_TRUE(Push(client, {0}).ok());
  const PartitionMap map = PartitionMap::Even(2);
  const std::vector<uint64_t> all = AllIds();
  const auto of = [&](int64_t server) {
    return *std::find_if(all.begin(), all.end(),
                         [&](uint64_t id) { return map.ServerOf(PointOf(id)) == server; });
  };
  const std::vector<uint64_t> ids = {of(0), of(1)};
  std::vector<float> gradients(2 * kDim, 1);
  gradients.back() = std::numeric_limits<float>::quiet_NaN();
  PushRequest request;
  request.key = {.begin = 32, .end = 64};
  request.worker = WorkerId(4);
  request.view = 1;
  request.tables = {{ids, gradients}};
  for (const bool again : {false, true}) {
    Answer<absl::StatusOr<PushOutcome>> answer;
    client.Push(request, answer.callback());
    EXPECT_TRUE(absl::IsOutOfRange(answer.get().status())) << again;
  }
  EXPECT_EQ(first.Stats().pushes, 1);
  EXPECT_EQ(second.Stats().pushes, 1);
  EXPECT_EQ(first.Stats().not_finite, 0);
  EXPECT_EQ(second.Stats().not_finite, 2);
  // One that the refusing server has had before does not pass for applied.
  request.key = {.begin = 0, .end = 32};
  Answer<absl::StatusOr<PushOutcome>> answer;
  client.Push(request, answer.callback());
  EXPECT_TRUE(absl::IsOutOfRange(answer.get().status()));
}

// Large and small requests, many in flight, all answered with their own rows.
TEST_P(ParamsServerTest, ManyPullsInFlightEachGetTheirOwn) {
  Start(0), Start(1);
  ParamsClient& client = Connect();
  ASSERT_TRUE(Declare(client, Model()).ok());
  for (int64_t n = 0; n < 5; ++n) ASSERT_TRUE(Push(client, {n}).ok());
  const std::vector<uint64_t> all = AllIds();
  const Weights expected = Pull(client, all);
  constexpr size_t kPulls = 64;
  std::vector<Answer<absl::Status>> answers(kPulls);
  std::vector<std::vector<float>> rows(kPulls);
  for (size_t i = 0; i < kPulls; ++i) {
    const size_t count = i % 3 == 0 ? 1000 : 1 + i;
    rows[i].resize(count * kDim);
    client.Pull({.tables = {{absl::MakeConstSpan(all).subspan(0, count), absl::MakeSpan(rows[i])}},
                 .dense = {}},
                answers[i].callback());
  }
  for (size_t i = 0; i < kPulls; ++i) {
    ASSERT_TRUE(answers[i].get().ok());
    ASSERT_TRUE(std::equal(rows[i].begin(), rows[i].end(), expected.rows.begin())) << i;
  }
}

// What one frame cannot hold is refused before it is sent, and nothing else suffers.
TEST_P(ParamsServerTest, ARequestTooLargeForAFrameIsRefusedHere) {
  Start(0, 1);
  const auto client =
      ParamsClient::Start({.job = "ctr", .secret = kTestSecret, .request_bytes_max = 1000});
  client->SetServers(Addresses());
  ASSERT_TRUE(Declare(Connect(), Model()).ok());
  const std::vector<uint64_t> few(100, 1), many(300, 1);
  std::vector<float> rows(many.size() * kDim);
  const auto pull = [&](const std::vector<uint64_t>& ids) {
    Answer<absl::Status> answer;
    client->Pull({.tables = {{ids, absl::MakeSpan(rows).subspan(0, ids.size() * kDim)}}},
                 answer.callback());
    return answer.get();
  };
  const absl::Status refused = pull(many);
  EXPECT_EQ(refused.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(refused.message()),
              HasSubstr("bytes to server 0, but at most 1000 go at once: lower batch_size"));
  EXPECT_THAT(std::string(Declare(*client, TestModel(500, 4, "sgd")).message()),
              HasSubstr("go at once: use more servers"));  // No batch makes it smaller.
  EXPECT_TRUE(pull(few).ok());
  const absl::StatusOr<PushOutcome> pushed = Push(*client, {.number = 1});
  EXPECT_EQ(pushed.status().code(), absl::StatusCode::kInvalidArgument) << pushed.status();
  client->Stop();
  EXPECT_EQ(servers_[0]->Stats().pushes, 0);
}

TEST_P(ParamsServerTest, StoppingAnswersEverybody) {
  Start(0);
  servers_.resize(2);  // The second one never comes.
  ParamsClient& client = Connect();
  Answer<absl::Status> answer;
  client.Declare(Model(), answer.callback());
  client.Stop();
  EXPECT_TRUE(absl::IsCancelled(answer.get()));
  EXPECT_TRUE(absl::IsCancelled(Declare(client, Model())));
}

INSTANTIATE_TEST_SUITE_P(Sockets, ParamsServerTest, testing::Values("unix", "tcp", "tls"),
                         [](const auto& info) { return info.param; });

TEST(SocketAddressTest, BadAddressesAreNamed) {
  for (const char* text : {"unix:", "localhost", ":80", "host:99999", "host:x"}) {
    EXPECT_TRUE(absl::IsInvalidArgument(SocketAddress::Parse(text).status())) << text;
  }
  EXPECT_THAT(
      std::string(SocketAddress::Parse("unix:/" + std::string(200, 'x')).status().message()),
      HasSubstr("a Unix socket's at most 107"));
  EXPECT_EQ(SocketAddress::Parse("[::1]:80")->ToString(), "[::1]:80");
}

}  // namespace
}  // namespace rubato
