#include "rubato/adapters/ring/state_exchange.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <future>
#include <limits>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "rubato/adapters/ring/elastic_group.h"

namespace rubato {
namespace {

constexpr size_t kStateFloats = (3 << 20) / sizeof(float);  // Three chunks.

// A holder that takes its snapshot at once, and sends half of it before it is told to go on.
class SlowHolder {
 public:
  explicit SlowHolder(int64_t step, std::string snapshot)
      : listener_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in any{.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    socklen_t bytes = sizeof(any);
    EXPECT_EQ(bind(listener_.get(), reinterpret_cast<sockaddr*>(&any), sizeof(any)), 0);
    EXPECT_EQ(listen(listener_.get(), 4), 0);
    EXPECT_EQ(getsockname(listener_.get(), reinterpret_cast<sockaddr*>(&any), &bytes), 0);
    address_ = absl::StrCat("127.0.0.1:", ntohs(any.sin_port));
    thread_ = std::thread([this, step, snapshot = std::move(snapshot)] { Serve(step, snapshot); });
  }
  ~SlowHolder() { thread_.join(); }

  const std::string& address() const { return address_; }
  void GoOn() { go_on_.set_value(); }

 private:
  void Serve(int64_t step, const std::string& snapshot) {
    const Fd learner(accept(listener_.get(), nullptr, nullptr));
    EdgeHello hello;
    ASSERT_EQ(recv(learner.get(), &hello, sizeof(hello), MSG_WAITALL), ssize_t{sizeof(hello)});
    int pair[2];
    ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
    const Fd from(pair[1]);
    StateServer server;
    server.Serve(MakeStream(nullptr, TlsSide::kAccepts, Fd(pair[0])), step, snapshot);
    std::vector<char> buffer(1 << 16);
    for (size_t sent = 0; sent < snapshot.size();) {
      if (sent > snapshot.size() / 2 && told_.valid()) told_.get();
      const ssize_t got = read(from.get(), buffer.data(), buffer.size());
      if (got <= 0) return;
      ASSERT_EQ(send(learner.get(), buffer.data(), got, MSG_NOSIGNAL), got);
      sent += got;
    }
    for (ssize_t got; (got = read(from.get(), buffer.data(), buffer.size())) > 0;) {
      ASSERT_EQ(send(learner.get(), buffer.data(), got, MSG_NOSIGNAL), got);
    }
  }

  Fd listener_;
  std::string address_;
  std::promise<void> go_on_;
  std::future<void> told_ = go_on_.get_future();
  std::thread thread_;
};

// One that copies slowly keeps no more than it may: it takes no further step then, and with the
// rest of the state it has all that passed meanwhile.
TEST(StateExchangeTest, KeepsNoMoreThanItMay) {
  std::vector<float> snapshot(kStateFloats, 100.0f);
  SlowHolder holder(
      12, std::string(reinterpret_cast<char*>(snapshot.data()), snapshot.size() * sizeof(float)));
  std::vector<float> state(kStateFloats, -1.0f), gradients(1000);
  const size_t step_bytes = gradients.size() * sizeof(float);
  StateExchange exchange(
      {.state = {absl::MakeSpan(reinterpret_cast<char*>(state.data()), state.size() * 4)},
       .apply = [&] { state[0] += gradients[0]; },
       .kept_bytes_max = 5 * step_bytes});
  const GroupView view{.number = 3,
                       .members = {{MemberId(1), holder.address()}, {MemberId(2), "127.0.0.1:1"}},
                       .holders = 1,
                       .step = 10};
  exchange.Begin(view, MemberId(2));
  int64_t finished = 10;
  const auto take_step = [&] {
    ++finished;
    std::fill(gradients.begin(), gradients.end(), static_cast<float>(finished));
    exchange.Keep(finished, {absl::MakeSpan(gradients)});
  };
  for (int i = 0; i < 4; ++i) take_step();  // The snapshot is of one of these.
  while (!exchange.full()) {
    EXPECT_FALSE(exchange.CatchUp(view, MemberId(2), finished));
    if (exchange.begun() && !exchange.full()) take_step();
    ASSERT_LT(finished, 100) << "it is never full";
  }
  EXPECT_EQ(finished, 17) << "13 to 17 come after the snapshot";
  EXPECT_EQ(exchange.kept_bytes(), 5 * step_bytes);
  holder.GoOn();
  while (!exchange.CatchUp(view, MemberId(2), finished)) {
    ASSERT_EQ(poll(nullptr, 0, 1), 0);
  }
  EXPECT_FALSE(exchange.full());
  EXPECT_EQ(exchange.kept_bytes(), 0u);
  EXPECT_EQ(state[0], 100.0f + 13 + 14 + 15 + 16 + 17);
  EXPECT_EQ(state.back(), 100.0f);
}

// In a group, the others wait for one whose memory is full, it can say so, and all end with the
// same.
TEST(StateExchangeTest, TheOthersWaitForWhoHasNoRoom) {
  struct Loop {
    std::vector<float> state = std::vector<float>(16 << 20, 0.0f);  // Takes a while to copy.
    std::vector<float> gradients = std::vector<float>(1000, 1.0f);
    std::unique_ptr<ElasticGroup> group;
    int waited = 0;

    void Open(std::vector<std::string> join) {
      auto opened = ElasticGroup::Open(
          {.join = std::move(join),
           .quorum = Quorum::kAny,
           .state = {absl::MakeSpan(reinterpret_cast<char*>(state.data()), state.size() * 4)},
           .kept_bytes_max = 8000,
           .apply = [this] { state.back() += 1; }});
      ASSERT_TRUE(opened.ok()) << opened.status();
      group = *std::move(opened);
    }
    absl::Status Step() {
      const absl::StatusOr<StepPlan> plan = group->BeginStep(absl::Milliseconds(1));
      if (absl::IsDeadlineExceeded(plan.status())) {
        waited += absl::StrContains(plan.status().message(), "8000 bytes of kept_bytes_max");
        return absl::OkStatus();
      }
      if (!plan.ok()) return plan.status();
      if (!group->AllreduceLast(absl::MakeSpan(gradients)).ok()) return absl::OkStatus();
      return group->Commit().status();
    }
  };
  Loop founder, joiner;
  founder.Open({});
  std::atomic<int64_t> last = std::numeric_limits<int64_t>::max();
  std::thread other([&] {
    joiner.Open({founder.group->address()});
    absl::Status status;
    while (joiner.group->learning() && status.ok()) status = joiner.Step();
    EXPECT_TRUE(status.ok()) << status;
    last = joiner.group->step() + 20;
    while (joiner.group->step() < last && status.ok()) status = joiner.Step();
    joiner.group.reset();
  });
  absl::Status status;
  while (founder.group->step() < last && status.ok()) status = founder.Step();
  EXPECT_TRUE(status.ok()) << status;
  founder.group.reset();
  other.join();
  EXPECT_GT(joiner.waited, 0) << "64 MB should take longer than two steps";
  EXPECT_EQ(joiner.state.back(), static_cast<float>(last));
  EXPECT_EQ(founder.state.back(), static_cast<float>(last));
}

}  // namespace
}  // namespace rubato
