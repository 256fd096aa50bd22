#include "rubato/adapters/ring/state_exchange.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <future>
#include <limits>
#include <memory>
#include <string>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "rubato/adapters/ring/elastic_group.h"

namespace rubato {
namespace {

constexpr size_t kStateFloats = (3 << 20) / sizeof(float);  // Three chunks.

// A holder that takes its snapshot at once, and sends half of it before it is told to go on; if
// that is empty, nothing.
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
  ~SlowHolder() {
    GoOn();
    thread_.join();
  }

  const std::string& address() const { return address_; }
  int64_t asked_for() const { return asked_for_; }  // The state after that step, or a later one.
  void GoOn() {
    if (!std::exchange(goes_on_, true)) go_on_.set_value();
  }

 private:
  void Serve(int64_t step, const std::string& snapshot) {
    const Fd learner(accept(listener_.get(), nullptr, nullptr));
    EdgeHello hello;
    ASSERT_EQ(recv(learner.get(), &hello, sizeof(hello), MSG_WAITALL), ssize_t{sizeof(hello)});
    asked_for_ = hello.min_step;
    if (snapshot.empty()) return told_.get();  // It says nothing at all.
    int pair[2];
    ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
    const Fd from(pair[1]);
    StateServer server;
    std::string state = snapshot;
    server.Serve(MakeStream(nullptr, TlsSide::kAccepts, Fd(pair[0])),
                 std::make_shared<StateSnapshot>(
                     step, std::vector<absl::Span<char>>{absl::MakeSpan(&state[0], state.size())},
                     StateSnapshot::Options{}));
    std::vector<char> buffer(1 << 16);
    for (size_t sent = 0; sent < snapshot.size();) {
      if (sent > snapshot.size() / 2 && told_.valid()) told_.get();
      const ssize_t got = read(from.get(), buffer.data(), buffer.size());
      if (got <= 0) return;
      if (send(learner.get(), buffer.data(), got, MSG_NOSIGNAL) != got) return;  // It has gone.
      sent += got;
    }
    for (ssize_t got; (got = read(from.get(), buffer.data(), buffer.size())) > 0;) {
      if (send(learner.get(), buffer.data(), got, MSG_NOSIGNAL) != got) return;  // It has gone.
    }
  }

  Fd listener_;
  std::string address_;
  std::atomic<int64_t> asked_for_{-1};
  bool goes_on_ = false;
  std::promise<void> go_on_;
  std::future<void> told_ = go_on_.get_future();
  std::thread thread_;
};

// A learner of 1000 gradients whose snapshot, that after step 12, stays half-way until it is let
// go.
class SlowCopy : public testing::Test {
 protected:
  static constexpr size_t kStepBytes = 1000 * sizeof(float);

  void Begin(std::string folder) {
    exchange_ = std::make_unique<StateExchange>(StateExchange::Options{
        .state = {absl::MakeSpan(reinterpret_cast<char*>(state_.data()), state_.size() * 4)},
        .apply = [this] { state_[0] += gradients_[0]; },
        .kept_bytes_max = 5 * kStepBytes,
        .kept_folder = std::move(folder)});
    exchange_->Begin(view_, MemberId(2));
    while (finished_ < 14) TakeStep();  // The snapshot is of one of these.
    while (!exchange_->begun()) EXPECT_FALSE(*CatchUp());
  }
  void TakeStep() {
    ++finished_;
    std::fill(gradients_.begin(), gradients_.end(), static_cast<float>(finished_));
    exchange_->Keep(finished_, {absl::MakeSpan(gradients_)});
  }
  absl::StatusOr<bool> CatchUp() {
    return exchange_->CatchUp(view_, MemberId(2), finished_, absl::ZeroDuration());
  }

  std::vector<float> snapshot_ = std::vector<float>(kStateFloats, 100.0f);
  SlowHolder holder_{12,
                     std::string(reinterpret_cast<char*>(snapshot_.data()), snapshot_.size() * 4)};
  const GroupView view_{.number = 3,
                        .members = {{MemberId(1), holder_.address()}, {MemberId(2), "127.0.0.1:1"}},
                        .holders = 1,
                        .step = 10};
  std::vector<float> state_ = std::vector<float>(kStateFloats, -1.0f);
  std::vector<float> gradients_ = std::vector<float>(1000);
  std::unique_ptr<StateExchange> exchange_;
  int64_t finished_ = 10;
};

// Its source lives, and others reach it, but from some moment on nothing comes of it here: before
// the first byte, or half-way. Another holder is asked, and what was begun is begun anew.
TEST(StateSourceTest, WhoBringsNothingIsLeftForAnother) {
  for (const bool half_way : {false, true}) {
    std::vector<float> early(kStateFloats, 100.0f), late(kStateFloats, 200.0f);
    const auto bytes = [](const std::vector<float>& floats) {
      return std::string(reinterpret_cast<const char*>(floats.data()), floats.size() * 4);
    };
    SlowHolder mute(12, half_way ? bytes(early) : "");
    SlowHolder other(1000, bytes(late));
    other.GoOn();
    const GroupView view{.number = 3,
                         .members = {{MemberId(1), mute.address()},
                                     {MemberId(2), other.address()},
                                     {MemberId(3), "127.0.0.1:1"}},
                         .holders = 2,
                         .step = 10};
    std::vector<float> state(kStateFloats, -1.0f), gradients(1, 1.0f);
    StateExchange exchange(
        {.state = {absl::MakeSpan(reinterpret_cast<char*>(state.data()), state.size() * 4)},
         .apply = [&] { state[0] += gradients[0]; },
         .kept_bytes_max = 1 << 20,
         .lease = absl::Milliseconds(100)});
    exchange.Begin(view, MemberId(3));
    absl::StatusOr<bool> level = false;
    int64_t finished = 10;
    for (; level.ok() && !*level && finished < 20000; ++finished) {
      exchange.Keep(finished + 1, {absl::MakeSpan(gradients)});
      level = exchange.CatchUp(view, MemberId(3), finished + 1, absl::ZeroDuration());
      ASSERT_EQ(poll(nullptr, 0, 1), 0);
    }
    ASSERT_TRUE(level.ok() && *level) << "half way: " << half_way;
    EXPECT_EQ(mute.asked_for(), 10);
    EXPECT_GE(other.asked_for(), 12) << "the sums until then it no longer has";
    EXPECT_EQ(state.back(), 200.0f);
    EXPECT_EQ(state[0], 200.0f + static_cast<float>(finished - 1000));
    mute.GoOn();
  }
}

// A holder gives the state to learners of the very view that it is in, and none that is older than
// they can make up for: whoever else asks is hung up on.
TEST(StateSourceTest, OnlyLearnersOfThisViewAreServed) {
  std::vector<float> state(100, 7.0f);
  StateExchange exchange(
      {.state = {absl::MakeSpan(reinterpret_cast<char*>(state.data()), state.size() * 4)}});
  GroupView view{.number = 3,
                 .members = {{MemberId(1), "a:1"}, {MemberId(2), "b:1"}, {MemberId(3), "c:1"}},
                 .holders = 2,
                 .step = 10};
  GroupView other = view;
  other.parent = 1;
  const auto is_served = [&](const EdgeHello& hello) {
    int pair[2];
    EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
    const Fd learner(pair[1]);
    exchange.Ask(hello, MakeStream(nullptr, TlsSide::kAccepts, Fd(pair[0])));
    exchange.Serve(view, MemberId(1), 12);
    char byte;
    return read(learner.get(), &byte, 1) == 1;
  };
  const EdgeHello right{EdgeHello::kState, 0, 3, 1, 12, view.Mark()};
  EXPECT_TRUE(is_served(right));
  const auto but = [&](auto change) {
    EdgeHello hello = right;
    change(hello);
    return hello;
  };
  EXPECT_FALSE(is_served(but([](EdgeHello& hello) { hello.min_step = 13; })));
  EXPECT_FALSE(is_served(but([&](EdgeHello& hello) { hello.mark = other.Mark(); })))
      << "the other half of a split";
  EXPECT_FALSE(is_served(but([](EdgeHello& hello) { hello.to = 4; }))) << "an earlier life";
  EXPECT_FALSE(is_served(but([](EdgeHello& hello) { hello.from = 2; }))) << "it holds the state";
  EXPECT_FALSE(is_served(but([](EdgeHello& hello) { hello.from = 5; }))) << "a stranger";
  view.holders = 1;
  std::swap(view.members[0], view.members[1]);
  EXPECT_FALSE(is_served(but([&](EdgeHello& hello) { hello.mark = view.Mark(); })))
      << "who learns itself has nothing to give";
}

// The files of this process in `folder` that have no name lose all that is in them. How many.
int EmptyNamelessFiles(const std::string& folder) {
  int emptied = 0;
  for (const auto& open : std::filesystem::directory_iterator("/proc/self/fd")) {
    std::error_code gone;  // As the iterator's own is by now.
    const std::string file = std::filesystem::read_symlink(open.path(), gone).string();
    if (!absl::StartsWith(file, folder) || !absl::EndsWith(file, " (deleted)")) continue;
    EXPECT_EQ(truncate(open.path().c_str(), 0), 0) << file;
    ++emptied;
  }
  return emptied;
}

// One that copies slowly keeps no more in memory than it may, and takes every step all the same:
// what is more is in a file.
TEST_F(SlowCopy, KeepsNoMoreInMemoryThanItMay) {
  Begin("");
  while (finished_ < 100) {
    EXPECT_FALSE(*CatchUp());
    EXPECT_LE(exchange_->kept_bytes(), 5 * kStepBytes);
    TakeStep();
  }
  EXPECT_EQ(exchange_->kept_bytes(), 5 * kStepBytes)
      << "of 13 to 17, which come after the snapshot";
  EXPECT_EQ(exchange_->kept_elsewhere_bytes(), static_cast<int64_t>(83 * kStepBytes));
  holder_.GoOn();
  // No time at all is left for it: two sums a step are applied, and one is added.
  bool torn = false;
  while (exchange_->reached() < 0) {
    ASSERT_FALSE(*CatchUp());
    EXPECT_EQ(exchange_->torn(), exchange_->reached() < 0 && state_[0] == 100.0f);
    torn = torn || (state_[0] == 100.0f && state_.back() == -1.0f);
    ASSERT_EQ(poll(nullptr, 0, 1), 0);
  }
  int64_t reached = exchange_->reached();
  EXPECT_EQ(reached, 14);
  EXPECT_TRUE(torn) << "three megabytes should take three steps";
  for (TakeStep(); !*CatchUp(); TakeStep()) {
    EXPECT_EQ(exchange_->reached(), reached + 2);
    reached = exchange_->reached();
    ASSERT_LT(finished_, 1000) << "it never comes level";
  }
  EXPECT_GT(reached, 100);
  EXPECT_EQ(exchange_->kept_bytes(), 0u);
  EXPECT_EQ(exchange_->kept_elsewhere_bytes(), 0);
  const auto sum = static_cast<float>(finished_ * (finished_ + 1) / 2 - 12 * 13 / 2);
  EXPECT_EQ(state_[0], 100.0f + sum) << "each of 13 to " << finished_ << " once";
  EXPECT_EQ(state_.back(), 100.0f);
}

// Where the file cannot be, the learner says so: it has lost a sum, and may not go on.
TEST_F(SlowCopy, SaysWhereThereIsNoRoom) {
  Begin("/no/such/folder");
  while (finished_ < 30) TakeStep();
  const absl::Status status = CatchUp().status();
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_TRUE(
      absl::StrContains(status.message(), "in /no/such/folder cannot be made: No such file"))
      << status;
}

// What of the sums cannot be read again is lost, and stays so: whoever asks once more is told the
// same, and is not given a state that lacks a step.
TEST_F(SlowCopy, WhatCannotBeReadIsLostForGood) {
  Begin(testing::TempDir());
  EXPECT_FALSE(*CatchUp());
  while (finished_ < 40) TakeStep();
  ASSERT_GT(exchange_->kept_elsewhere_bytes(), 0);
  ASSERT_EQ(EmptyNamelessFiles(testing::TempDir()), 1);
  holder_.GoOn();
  absl::StatusOr<bool> level = false;
  while (level.ok()) {
    ASSERT_FALSE(*level);
    ASSERT_EQ(poll(nullptr, 0, 1), 0);
    level = CatchUp();
  }
  EXPECT_TRUE(absl::StrContains(level.status().message(), "cannot be read: ")) << level.status();
  EXPECT_EQ(exchange_->reached(), 17) << "13 to 17 were in memory";
  TakeStep();
  EXPECT_EQ(CatchUp().status(), level.status());
  EXPECT_EQ(exchange_->reached(), 17);
  EXPECT_EQ(state_[0], 100.0f + 13 + 14 + 15 + 16 + 17);
}

// A thread copies while the training thread changes all there is, a little at a time.
TEST(StateSnapshotThreadsTest, NothingIsChangedBeforeItIsCopied) {
  std::vector<float> state(1 << 20, 0.0f);
  const auto bytes_of = [](absl::Span<float> floats) {
    return absl::MakeSpan(reinterpret_cast<char*>(floats.data()), floats.size() * sizeof(float));
  };
  StateExchange exchange({.state = {bytes_of(absl::MakeSpan(state))}});
  for (int step = 0; step < 5; ++step) {
    const auto snapshot = exchange.TakeSnapshot(step);
    std::thread beside([&] { snapshot->Finish(); });
    constexpr size_t kLittle = 10000;
    for (size_t begin = 0; begin < state.size(); begin += kLittle) {
      const absl::Span<float> some = absl::MakeSpan(state).subspan(begin, kLittle);
      exchange.BeforeChange(bytes_of(some));
      for (float& value : some) value += 1;
    }
    beside.join();
    for (size_t i = 0; i < snapshot->pieces(); ++i) {
      const std::string piece = snapshot->TakePiece(i);
      const auto* const floats = reinterpret_cast<const float*>(piece.data());
      const int64_t others =
          std::count_if(floats, floats + piece.size() / sizeof(float),
                        [&](float value) { return value != static_cast<float>(step); });
      ASSERT_EQ(others, 0) << "in piece " << i << " of the state after step " << step;
    }
  }
}

// One member of a group whose state takes a while to copy, and changes as the case says.
struct Loop {
  enum class Changes { kAll, kAllByName, kLastByName };

  void Open(Changes changes, std::vector<std::string> join) {
    state.resize(changes == Changes::kLastByName ? 16 << 20 : 1 << 20);
    auto opened = ElasticGroup::Open(
        {.join = std::move(join),
         .quorum = Quorum::kAny,
         .state = {absl::MakeSpan(reinterpret_cast<char*>(state.data()), state.size() * 4)},
         .kept_bytes_max = 8000,
         .apply = [this, changes] { Apply(changes); },
         .names_changes = changes != Changes::kAll});
    ASSERT_TRUE(opened.ok()) << opened.status();
    group = *std::move(opened);
  }
  void Apply(Changes changes) {
    const size_t first = changes == Changes::kLastByName ? state.size() - 1 : 0;
    constexpr size_t kLittle = 100000;
    for (size_t begin = first; begin < state.size(); begin += kLittle) {
      const absl::Span<float> some = absl::MakeSpan(state).subspan(begin, kLittle);
      if (changes != Changes::kAll) {
        group->BeforeChange(
            absl::MakeConstSpan(reinterpret_cast<const char*>(some.data()), some.size() * 4));
      }
      for (float& value : some) value += 1;
    }
  }
  absl::Status Step() {
    const absl::StatusOr<StepPlan> plan = group->BeginStep();
    if (!plan.ok()) return plan.status();
    if (!group->AllreduceLast(absl::MakeSpan(gradients)).ok()) return absl::OkStatus();
    const absl::StatusOr<bool> committed = group->Commit();
    passed += committed.ok() && *committed && group->learning();
    return committed.status();
  }

  std::vector<float> state;
  std::vector<float> gradients = std::vector<float>(1000, 1.0f);
  std::unique_ptr<ElasticGroup> group;
  int64_t passed = 0;  // Steps, while it copied.
};

class LargeStateTest : public testing::TestWithParam<Loop::Changes> {};

// In a group, with a copy that takes longer than a step: nobody waits for it, and all end with the
// same.
TEST_P(LargeStateTest, NobodyWaitsForWhoHasNoRoom) {
  Loop founder, joiner;
  founder.Open(GetParam(), {});
  std::atomic<int64_t> last = std::numeric_limits<int64_t>::max();
  std::thread other([&] {
    joiner.Open(GetParam(), {founder.group->address()});
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
  if (GetParam() == Loop::Changes::kLastByName) {
    EXPECT_GT(joiner.passed, 2) << "64 MB should take longer than there is room for";
  }
  EXPECT_EQ(joiner.state.back(), static_cast<float>(last));
  EXPECT_EQ(founder.state.back(), static_cast<float>(last));
  EXPECT_TRUE(founder.state == joiner.state);
}

INSTANTIATE_TEST_SUITE_P(Changes, LargeStateTest,
                         testing::Values(Loop::Changes::kAll, Loop::Changes::kAllByName,
                                         Loop::Changes::kLastByName));

}  // namespace
}  // namespace rubato
