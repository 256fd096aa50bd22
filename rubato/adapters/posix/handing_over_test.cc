// A server in the midst of handing partitions over: what it has sent of them must not change any
// more, whoever says so.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "rubato/adapters/files/testing.h"
#include "rubato/adapters/posix/params_testing.h"
#include "rubato/params/partition.h"

namespace rubato {
namespace {

// More slices than go at once, so that some are still to be sent.
constexpr int64_t kDense = 200 * kDenseSliceFloats;
constexpr size_t kDim = 2;

// Server 0 has everything, and gives it to server 1, which answers nothing before it has a
// follower.
class HandingOverTest : public testing::Test {
 protected:
  HandingOverTest() {
    for (int64_t s = 0; s < 2; ++s) {
      ParamsServerOptions options = TestServerOptions(root_, s, /*servers=*/1);
      options.replicas = s;
      servers_.push_back(*ParamsServer::Start(options));
    }
    for (int64_t s = 0; s < 3; ++s) addresses_.push_back(absl::StrCat("unix:", root_, "/s", s));
    servers_[1]->SetFollower(2, addresses_);  // Nobody is there.
    client_->SetServers(addresses_);
    Tell({});
    // Of one partition, so that they fit into one record.
    for (uint64_t id = 0; ids_.size() < 20; ++id) {
      if (PartitionOf(PointOf(id)) == 7) ids_.push_back(id);
    }
  }
  void Tell(const MoveOrder& order) {
    ++view_;
    for (const auto& server : servers_) {
      server->SetMap(view_, map_, order, addresses_);
      server->SetView(view_, {WorkerId(1)});
    }
    client_->SetMap(map_);
  }
  // The only gradient of round 0, which takes 1 from every weight.
  absl::StatusOr<PushOutcome> Push() {
    const std::vector<float> gradients(ids_.size() * kDim, 1), dense(kDense, 1);
    PushRequest request{.key = {.begin = 0, .end = 1}, .worker = WorkerId(1), .view = 1};
    request.records = 1;
    request.tables = {{ids_, gradients}};
    request.dense = dense;
    return Await<absl::StatusOr<PushOutcome>>(
        [&](auto done) { client_->Push(request, std::move(done)); });
  }
  std::vector<float> Pull() {
    std::vector<float> rows(ids_.size() * kDim), dense(kDense);
    const absl::Status status = Await<absl::Status>([&](auto done) {
      client_->Pull(
          {.tables = {{ids_, absl::MakeSpan(rows)}}, .dense = absl::MakeSpan(dense), .rounds = 1},
          std::move(done));
    });
    EXPECT_TRUE(status.ok()) << status;
    rows.insert(rows.end(), dense.begin(), dense.end());
    return rows;
  }

  const TestFolder folder_;
  const std::string root_ = folder_.path();
  std::vector<std::string> addresses_;
  std::vector<std::unique_ptr<ParamsServer>> servers_;
  std::unique_ptr<ParamsClient> client_ = StartTestClient(1);
  PartitionMap map_ = PartitionMap::Even(1);
  int64_t view_ = 0;
  std::vector<uint64_t> ids_;
};

// That a round is whole comes with a heartbeat, at any moment. Rows have been sent as they were
// before it, and so must be all that follows them.
TEST_F(HandingOverTest, ARoundWaits) {
  Declaration model = TestSums(kDense, kDim);
  model.mode = PushMode::kSync;
  ASSERT_TRUE(
      Await<absl::Status>([&](auto done) { client_->Declare(model, std::move(done)); }).ok());
  ASSERT_EQ(*Push(), PushOutcome::kApplied);
  const MoveOrder order = {.number = 1, .from = 0, .to = 1, .partitions = AllPartitions()};
  Tell(order);
  // Rows and some of the slices are there; the giver waits for an answer before it sends more.
  ASSERT_TRUE(Eventually([&] { return servers_[1]->Stats().log_bytes > (1 << 20); }));
  servers_[0]->SetRounds(1);
  EXPECT_EQ(servers_[0]->moved(), 0);
  servers_[1]->SetFollower(0, addresses_);
  ASSERT_TRUE(Eventually([&] { return servers_[0]->moved() == 1; }));
  map_.Move(order.partitions, 1);
  Tell({});
  EXPECT_EQ(Pull(), std::vector<float>(ids_.size() * kDim + kDense, -1));
}

}  // namespace
}  // namespace rubato
