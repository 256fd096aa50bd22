#include "rubato/roles/view_courier.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "absl/synchronization/notification.h"
#include "rubato/adapters/grpc/master_service.h"
#include "rubato/membership/wire.h"

namespace rubato {
namespace {

// Says one order after the other, and then nothing new.
class Orders : public MasterHandler {
 public:
  explicit Orders(std::vector<std::string> orders) : orders_(std::move(orders)) {}
  ConferReply Confer(const ConferRequest& request) override {
    const auto next = static_cast<size_t>(request.known);
    if (next < orders_.size()) return {.order = orders_[next], .number = request.known + 1};
    over.WaitForNotificationWithTimeout(absl::Milliseconds(request.wait_ms));
    return {.order = orders_.back(), .number = request.known};
  }
  RegisterReply Register(const RegisterRequest& request) override { return {}; }
  HeartbeatReply WorkerBeat(const WorkerHeartbeat& beat) override { return {}; }
  HeartbeatReply ServerBeat(const ServerHeartbeat& beat) override { return {}; }
  LeaseReply Lease(const LeaseRequest& request) override { return {}; }
  CommitReply Commit(const CommitRequest& request) override { return {}; }
  void Fail(const FailRequest& request) override {}
  AttendReply Attend(const AttendRequest& request) override { return {}; }
  Snapshot Show() override { return {}; }
  ScaleReply Scale(const ScaleRequest& request) override { return {}; }
  void Stop() override {}

  absl::Notification over;

 private:
  const std::vector<std::string> orders_;
};

GroupView ViewOf(int members) {
  GroupView view{.number = 1, .holders = 1};
  for (int i = 1; i <= members; ++i) view.members.push_back({MemberId(i), "h:1"});
  return view;
}

// It can obey the next one, but whoever waits for this one should know why nothing comes.
TEST(ViewCourierTest, AnOrderThatCannotBeReadIsTold) {
  std::string folder = std::filesystem::temp_directory_path() / "rubato-courier.XXXXXX";
  ASSERT_NE(mkdtemp(folder.data()), nullptr);
  Orders orders({EncodeOrder({.view = ViewOf(kMembersMax + 1)}),
                 EncodeOrder({.view = ViewOf(2), .after_step = 7})});
  const auto service = MasterService::Start("unix:" + folder + "/m", &orders);
  ASSERT_TRUE(service.ok()) << service.status();
  absl::Notification delivered;
  testing::internal::CaptureStderr();
  {
    ViewCourier courier({.master = "unix:" + folder + "/m",
                         .worker = WorkerId(3),
                         .deliver = [&](const ViewOrder& order) {
                           EXPECT_EQ(order.after_step, 7);
                           delivered.Notify();
                         }});
    EXPECT_TRUE(delivered.WaitForNotificationWithTimeout(absl::Seconds(30)));
    orders.over.Notify();
  }
  EXPECT_EQ(testing::internal::GetCapturedStderr(),
            "worker 3: an order of the master cannot be obeyed: INVALID_ARGUMENT: a view of 1001 "
            "members, 1 holders\n");
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace rubato
