#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>

#include "rubato/adapters/grpc/convert.h"
#include "rubato/adapters/grpc/master_client.h"
#include "rubato/adapters/grpc/master_service.h"

namespace rubato {
namespace {

IntervalSet Set(int64_t begin, int64_t end) {
  IntervalSet set;
  set.Add(begin, end);
  return set;
}

// Answers with what it was asked, so that a test sees both directions of the wire.
class Echo : public MasterHandler {
 public:
  RegisterReply Register(const RegisterRequest& request) override {
    registered = request;
    return {.accepted = true,
            .reason = request.version,
            .view = {.number = 7,
                     .workers = {WorkerId(1), WorkerId(4)},
                     .servers = {{ServerId(0), 2, "unix:/s"}, {ServerId(1), 1, ""}}},
            .begin_from = request.began_from + 1,
            .wait = true};
  }
  HeartbeatReply WorkerBeat(const WorkerHeartbeat& beat) override {
    worker = beat;
    return {.known = true, .directive = Directive::kLeave, .group = orders};
  }
  HeartbeatReply ServerBeat(const ServerHeartbeat& beat) override {
    server = beat;
    return {.known = true, .checkpoint_wanted = 3, .checkpoint_oldest = 2, .checkpoint_base = 1};
  }
  ConferReply Confer(const ConferRequest& request) override {
    confer = request;
    return {.order = std::string("\0view", 5), .number = request.known + 1};
  }
  LeaseReply Lease(const LeaseRequest& request) override {
    lease = request;
    return {.verdict = LeaseReply::Verdict::kTask,
            .task = {.id = TaskId(5),
                     .kind = TaskKind::kEvaluate,
                     .epoch = 1,
                     .begin = 10,
                     .end = 20,
                     .committed = 12,
                     .lease = 99}};
  }
  CommitReply Commit(const CommitRequest& request) override {
    commit = request;
    return {.held = true};
  }
  void Fail(const FailRequest& request) override { fail = request; }
  AttendReply Attend(const AttendRequest& request) override {
    attend = request;
    return {.orders = {{.number = 4, .kind = OrderKind::kKill, .process = {Role::kServer, 1, 3}}},
            .snapshot = Show(),
            .finished = true};
  }
  Snapshot Show() override {
    Snapshot snapshot;
    snapshot.state = JobState::kEvaluating;
    snapshot.records_committed = 1 << 30;
    snapshot.spent.useful = 1.5;
    snapshot.evaluations.push_back({.number = 1, .step = 2, .metrics = {{"auc", 0.75}}});
    snapshot.processes.push_back({.role = Role::kWorker, .id = 4, .state = "running"});
    return snapshot;
  }
  ScaleReply Scale(const ScaleRequest& request) override {
    return {.accepted = true, .workers_target = request.workers};
  }
  void Stop() override { stopped = true; }

  const GroupOrders orders = {.generation = 2,
                              .found = true,
                              .restore = "1/worker-0.ckpt",
                              .join = {"h:1"},
                              .evaluated = 3,
                              .lowered = 4,
                              .rest = true,
                              .over = true,
                              .batches_per_task = 5};
  RegisterRequest registered;
  WorkerHeartbeat worker;
  ServerHeartbeat server;
  ConferRequest confer;
  LeaseRequest lease;
  CommitRequest commit;
  FailRequest fail;
  AttendRequest attend;
  bool stopped = false;
};

class MasterRpcTest : public testing::Test {
 protected:
  MasterRpcTest() : folder_(std::filesystem::temp_directory_path() / "rubato-rpc.XXXXXX") {
    EXPECT_NE(mkdtemp(folder_.data()), nullptr);
    address_ = "unix:" + folder_ + "/m";
    service_ = *MasterService::Start(address_, &echo_);
    client_ = MasterClient::Dial(address_);
  }
  ~MasterRpcTest() override {
    service_.reset();
    std::filesystem::remove_all(folder_);
  }

  std::string folder_, address_;
  Echo echo_;
  std::unique_ptr<MasterService> service_;
  std::unique_ptr<MasterClient> client_;
};

TEST_F(MasterRpcTest, AWorkerTellsWhatItWaitsFor) {
  const DataAway away = {"t", "p", "w", absl::Milliseconds(1500)};
  EXPECT_TRUE(client_->Beat(WorkerHeartbeat{.worker = WorkerId(9), .away = away}).ok());
  ASSERT_TRUE(echo_.worker.away.has_value());
  EXPECT_EQ(echo_.worker.away->data, "t");
  EXPECT_EQ(echo_.worker.away->place, "p");
  EXPECT_EQ(echo_.worker.away->why, "w");
  EXPECT_EQ(echo_.worker.away->waited, absl::Milliseconds(1500));
  EXPECT_TRUE(client_->Beat(WorkerHeartbeat{.worker = WorkerId(9)}).ok());
  EXPECT_FALSE(echo_.worker.away.has_value());
}

TEST_F(MasterRpcTest, WhatAServerTellsCrossesTheWire) {
  const auto registered = client_->Register({.role = Role::kServer,
                                             .id = 1,
                                             .incarnation = 2,
                                             .pid = 3,
                                             .version = "v",
                                             .address = "a",
                                             .applied = {{0, Set(0, 5)}},
                                             .began_from = 8});
  ASSERT_TRUE(registered.ok()) << registered.status();
  EXPECT_EQ(registered->begin_from, 9);
  EXPECT_TRUE(registered->wait);
  EXPECT_EQ(registered->view.servers[0].incarnation, 2);
  EXPECT_EQ(registered->view.workers[1], WorkerId(4));
  EXPECT_EQ(registered->reason, "v");
  EXPECT_EQ(echo_.registered.applied, (std::map<int64_t, IntervalSet>{{0, Set(0, 5)}}));

  const auto beat = client_->Beat(ServerHeartbeat{.server = ServerId(1),
                                                  .fenced = 6,
                                                  .log_bytes = int64_t{5} << 30,
                                                  .cut = 4,
                                                  .cut_rounds = 77,
                                                  .load = {7, 0, 8},
                                                  .load_period = absl::Milliseconds(1500)});
  EXPECT_EQ(beat->checkpoint_wanted, 3);
  EXPECT_EQ(beat->checkpoint_oldest, 2);
  EXPECT_EQ(beat->checkpoint_base, 1);
  EXPECT_EQ(echo_.server.fenced, 6);
  EXPECT_EQ(echo_.server.cut, 4);
  EXPECT_EQ(echo_.server.cut_rounds, 77);
  EXPECT_EQ(echo_.server.log_bytes, int64_t{5} << 30);
  EXPECT_EQ(echo_.server.load, (std::vector<int64_t>{7, 0, 8}));
  EXPECT_EQ(echo_.server.load_period, absl::Milliseconds(1500));
}

TEST_F(MasterRpcTest, EveryFieldCrossesTheWire) {
  EXPECT_EQ(client_->Beat(WorkerHeartbeat{.worker = WorkerId(9), .spent = {.redo = 2}})->directive,
            Directive::kLeave);
  EXPECT_EQ(echo_.worker.spent.redo, 2);
  const GroupReport report = {
      .generation = 2,
      .address = "h:1",
      .holds = true,
      .steps = 7,
      .change = {.view = 3, .noticed_us = 9, .redo_us = 1, .heard_us = {{77, 5}, {78, 6}}},
      .lagging = 0.5};
  EXPECT_EQ(client_->Beat(WorkerHeartbeat{.worker = WorkerId(9), .group = report})->group,
            echo_.orders);
  EXPECT_EQ(echo_.worker.group, report);
  const std::string bytes("\0report\xff", 8);
  const auto order = client_->Confer(
      {.worker = WorkerId(9), .generation = 2, .report = bytes, .known = 4, .wait_ms = 1});
  ASSERT_TRUE(order.ok()) << order.status();
  EXPECT_EQ(order->order, std::string("\0view", 5));
  EXPECT_EQ(order->number, 5);
  EXPECT_EQ(echo_.confer.report, bytes);
  EXPECT_EQ(echo_.confer.generation, 2);

  const auto lease = client_->Lease({.worker = WorkerId(9), .holding = {TaskId(1), TaskId(2)}});
  EXPECT_EQ(lease->task.kind, TaskKind::kEvaluate);
  EXPECT_EQ(lease->task.committed, 12);
  EXPECT_EQ(lease->task.lease, 99);
  EXPECT_THAT(echo_.lease.holding, testing::ElementsAre(TaskId(1), TaskId(2)));

  CommitRequest commit = {.worker = WorkerId(9), .task = TaskId(5), .upto = 20, .release = true};
  commit.sums.emplace().AddBinary(0.5f, true, 3);
  commit.sums->user_sums["mine"] = 1;
  EXPECT_TRUE(client_->Commit(commit)->held);
  EXPECT_EQ(echo_.commit.sums, commit.sums);
  EXPECT_TRUE(echo_.commit.release);

  EXPECT_TRUE(
      client_->Fail({.worker = WorkerId(9), .task = TaskId(5), .lease = 8, .error = "x"}).ok());
  EXPECT_EQ(echo_.fail.lease, 8);
  EXPECT_TRUE(client_->Fail({.error = "x", .attempt = 7, .unfit = true}).ok());
  EXPECT_EQ(echo_.fail.attempt, 7);
  EXPECT_TRUE(echo_.fail.unfit);
  EXPECT_EQ(client_->Scale({.workers = 3})->workers_target, 3);
  EXPECT_TRUE(client_->Stop().ok());
  EXPECT_TRUE(echo_.stopped);
}

TEST_F(MasterRpcTest, ExitsGoInAndOrdersComeOut) {
  const auto reply =
      client_->Attend({.exits = {{.role = Role::kWorker, .id = 3, .signal = 9, .last_words = "oh"}},
                       .wait_ms = 1,
                       .orders_done = 2});
  ASSERT_TRUE(reply.ok());
  EXPECT_EQ(echo_.attend.exits[0].last_words, "oh");
  EXPECT_EQ(echo_.attend.orders_done, 2);
  EXPECT_EQ(reply->orders[0].kind, OrderKind::kKill);
  EXPECT_EQ(reply->orders[0].process.incarnation, 3);
  EXPECT_EQ(reply->snapshot.evaluations[0].metrics.at("auc"), 0.75);
  EXPECT_EQ(reply->snapshot.processes[0].state, "running");
  EXPECT_TRUE(reply->finished);
}

// A client that called while no master was there finds the next one within the same call.
TEST_F(MasterRpcTest, FindsARestartedMaster) {
  service_.reset();
  const auto impatient = MasterClient::Dial(address_, absl::Milliseconds(30));
  EXPECT_FALSE(impatient->Show().ok());
  service_ = *MasterService::Start(address_, &echo_);
  EXPECT_TRUE(client_->Show().ok());
}

TEST_F(MasterRpcTest, ATakenPortIsSaid) {
  const auto first = MasterService::Start("127.0.0.1:0", &echo_);
  ASSERT_TRUE(first.ok());
  const auto second = MasterService::Start((*first)->address(), &echo_);
  EXPECT_TRUE(absl::IsUnavailable(second.status())) << second.status();
}

}  // namespace
}  // namespace rubato
