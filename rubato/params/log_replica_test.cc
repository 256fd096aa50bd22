#include "rubato/params/log_replica.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <map>
#include <string>
#include <utility>

#include "rubato/base/rng.h"

namespace rubato {
namespace {

using ::testing::ElementsAre;
using Kind = ReplicaOrder::Kind;

using Files = std::map<int64_t, std::string>;  // A folder of segments.

LogSizes SizesOf(const Files& files) {
  LogSizes sizes;
  for (const auto& [segment, bytes] : files) sizes[segment] = static_cast<int64_t>(bytes.size());
  return sizes;
}

// One leader and some that may be its follower. Lines, processes and disks are lost at random; what
// the leader acknowledged must be found again whenever its own files are gone.
class World {
 public:
  explicit World(uint64_t seed) : rng_(seed) {
    files_[1] = "header";
    replicas_.Open(SizesOf(files_));
    replicas_.SetFollower(0);
  }

  void Step() {
    const uint64_t what = rng_.Below(1000);
    if (what < 250) return Append();
    if (what < 265) return Cut();
    if (what < 275) return Drop();
    if (what < 290) return LoseLine(Any());
    if (what < 300) return SetFollower(Any());
    if (what < 306) return FollowerDies(Any(), rng_.Chance(0.5));
    if (what < 312) return LeaderDies(rng_.Chance(0.5));
    if (what < 450) return Connect(Any());
    if (what < 650) return Send(Any());
    if (what < 850) return Arrive(Any());
    return Answer(Any());
  }
  // With nothing in the way all is level in the end.
  void Settle() {
    for (int i = 0; i < 100000 && (replicas_.settled() < 0 || replicas_.behind() > 0); ++i) {
      const int64_t server = Any();
      if (rng_.Chance(0.1)) Connect(server);
      Send(server), Arrive(server), Answer(server);
    }
    EXPECT_EQ(replicas_.settled(), follower_);
    for (const auto& [segment, bytes] : files_) {
      if (segment < checkpoint_) continue;
      EXPECT_EQ(followers_.at(follower_).files[segment], bytes);
    }
    EXPECT_EQ(replicas_.held(), EndOf(SizesOf(files_)));
  }
  int64_t recovered() const { return recovered_; }

 private:
  struct Order {
    int64_t line = 0;
    ReplicaOrder order;
    std::string bytes;
  };
  struct Follower {
    Files files;
    ReplicaCopy copy;
    int64_t line = 0;           // The leader's end of it; 0: none.
    std::deque<Order> arrives;  // In the follower's sockets, those of dead lines too.
    std::deque<std::pair<int64_t, bool>> answers;  // Line, and whether it went well.
  };

  int64_t Any() { return static_cast<int64_t>(rng_.Below(3)); }

  void Append() {
    std::string& segment = files_.rbegin()->second;
    segment.append(1 + rng_.Below(40), static_cast<char>('a' + rng_.Below(26)));
    replicas_.Grew(files_.rbegin()->first, static_cast<int64_t>(segment.size()));
  }
  void Cut() {
    const int64_t next = files_.rbegin()->first + 1;
    files_[next] = "header";
    replicas_.Grew(next, 6);
  }
  void Drop() {
    if (files_.size() < 2) return;
    files_.erase(files_.begin());
    replicas_.DroppedBefore(files_.begin()->first);
    checkpoint_ = std::max(checkpoint_, files_.begin()->first);
  }
  void SetFollower(int64_t server) {
    follower_ = server;
    replicas_.SetFollower(server);
  }
  void LoseLine(int64_t server) {
    Follower& follower = followers_[server];
    follower.line = 0;
    follower.answers.clear();  // What is on its way to the follower may arrive yet.
    replicas_.Lost(server);
  }
  void Connect(int64_t server) {
    const auto lines = replicas_.Lines();
    Follower& follower = followers_[server];
    if (!replicas_.connected(server)) follower.line = 0;  // It was let go.
    if (follower.line > 0 || std::find(lines.begin(), lines.end(), server) == lines.end()) return;
    follower.line = ++lines_;
    ASSERT_TRUE(follower.copy.Follow(life_, follower.line).ok());
    replicas_.Connected(server, follower.copy.sizes());
    Look();
  }
  void Send(int64_t server) {
    Follower& follower = followers_[server];
    if (follower.line == 0 || !replicas_.connected(server)) return;
    const std::optional<ReplicaOrder> order = replicas_.Next(server);
    if (!order.has_value()) return;
    std::string bytes;
    if (order->kind == Kind::kAppend) {
      bytes = files_.at(order->segment)
                  .substr(static_cast<size_t>(order->offset), static_cast<size_t>(order->bytes));
      ASSERT_EQ(bytes.size(), static_cast<size_t>(order->bytes));
    }
    follower.arrives.push_back({follower.line, *order, bytes});
  }
  void Arrive(int64_t server) {
    Follower& follower = followers_[server];
    if (follower.arrives.empty()) return;
    const Order order = std::move(follower.arrives.front());
    follower.arrives.pop_front();
    const absl::Status status = follower.copy.Check(order.line, order.order);
    // On a line that lives nothing is ever out of place.
    ASSERT_TRUE(status.ok() || order.line != follower.line) << status;
    if (status.ok()) {
      if (order.order.kind == Kind::kAppend) {
        std::string& file = follower.files[order.order.segment];
        file.resize(static_cast<size_t>(order.order.offset));
        file += order.bytes;
      }
      for (const int64_t gone : follower.copy.Done(order.order)) follower.files.erase(gone);
      ASSERT_EQ(SizesOf(follower.files), follower.copy.sizes());
    }
    if (order.line == follower.line) follower.answers.emplace_back(order.line, status.ok());
  }
  void Answer(int64_t server) {
    Follower& follower = followers_[server];
    if (follower.answers.empty()) return;
    const int64_t line = follower.answers.front().first;
    follower.answers.pop_front();
    if (line == follower.line) replicas_.Answered(server);
    Look();
  }
  void FollowerDies(int64_t server, bool with_disk) {
    Follower& follower = followers_[server];
    LoseLine(server);
    follower.arrives.clear();
    if (with_disk) {
      follower.files.clear();
      mending_ = true;
    }
    follower.copy = ReplicaCopy(SizesOf(follower.files));
    Look();
  }
  void LeaderDies(bool with_disk) {
    Look();
    if (with_disk && mending_) return;  // Two disks at once are more than can be borne.
    for (const int64_t server : {0, 1, 2}) LoseLine(server);
    const LogPosition acknowledged = replicas_.held();
    ++life_;
    if (with_disk) Recover(std::max(acknowledged, acknowledged_));
    acknowledged_ = std::max(acknowledged, acknowledged_);
    replicas_ = LogReplicas();
    files_[std::max(EndOf(SizesOf(files_)).segment + 1, checkpoint_)] = "header";
    replicas_.Open(SizesOf(files_));
    replicas_.SetFollower(follower_);
    mending_ = mending_ || with_disk;
  }
  void Recover(LogPosition acknowledged) {
    std::vector<LogSizes> copies;
    for (const int64_t server : {0, 1, 2}) {
      ASSERT_TRUE(followers_[server].copy.Follow(life_, ++lines_).ok());
      copies.push_back(followers_[server].copy.sizes());
    }
    const int64_t longest = LongestCopy(copies);
    const Files lost = std::exchange(files_, {});
    if (longest >= 0) files_ = followers_[longest].files;
    const bool needless = acknowledged.bytes == 0 || acknowledged.segment < checkpoint_;
    ASSERT_TRUE(needless || EndOf(SizesOf(files_)) >= acknowledged);
    // All of it, and as it was.
    for (const auto& [segment, bytes] : lost) {
      if (segment > acknowledged.segment || segment < checkpoint_) continue;
      const auto held =
          segment == acknowledged.segment ? static_cast<size_t>(acknowledged.bytes) : bytes.size();
      ASSERT_EQ(files_[segment].substr(0, held), bytes.substr(0, held)) << segment;
      if (files_[segment].empty()) files_.erase(segment);
    }
    ++recovered_;
  }
  void Look() {
    if (replicas_.settled() >= 0) mending_ = false;
  }

  Rng rng_;
  Files files_;
  LogReplicas replicas_;
  std::map<int64_t, Follower> followers_;
  int64_t follower_ = 0;
  int64_t life_ = 1;
  int64_t lines_ = 0;
  int64_t recovered_ = 0;
  LogPosition acknowledged_;  // By lives before.
  int64_t checkpoint_ = 0;    // Segments before it are needless.
  bool mending_ = false;      // A disk was lost, and not all is in two places again.
};

class LogReplicaWorldTest : public testing::TestWithParam<uint64_t> {};

TEST_P(LogReplicaWorldTest, WhatWasAcknowledgedOutlivesTheLeadersDisk) {
  int64_t recovered = 0;
  for (uint64_t world = 0; world < 50; ++world) {
    World one(GetParam() * 1000 + world);
    for (int step = 0; step < 3000 && !testing::Test::HasFatalFailure(); ++step) one.Step();
    if (testing::Test::HasFatalFailure()) FAIL() << "world " << world;
    one.Settle();
    recovered += one.recovered();
  }
  EXPECT_GT(recovered, 20);
}
INSTANTIATE_TEST_SUITE_P(Seeds, LogReplicaWorldTest, testing::Range<uint64_t>(0, 10));

TEST(LogReplicaTest, TheNextKeepsTheCopy) {
  EXPECT_EQ(FollowerOf(0, 2), 1);
  EXPECT_EQ(FollowerOf(1, 2), 0);
  EXPECT_EQ(FollowerOf(2, 3), 0);
  EXPECT_EQ(FollowerOf(2, 2), 0);  // On its way out.
  EXPECT_EQ(FollowerOf(0, 1), -1);
  EXPECT_EQ(FollowerOf(1, 1), 0);
}

TEST(LogReplicaTest, NothingIsHeldBeforeTheFollowerSaysSo) {
  LogReplicas replicas;
  replicas.Open({{1, 100}});
  replicas.SetFollower(1);
  EXPECT_EQ(replicas.held(), LogPosition());
  EXPECT_EQ(replicas.Next(1), std::nullopt);
  replicas.Connected(1, {});
  EXPECT_EQ(replicas.Next(1), (ReplicaOrder{Kind::kAppend, 1, 0, 100}));
  EXPECT_EQ(replicas.Next(1), std::nullopt);
  EXPECT_EQ(replicas.settled(), -1);
  replicas.Grew(1, 130);
  replicas.Answered(1);
  EXPECT_EQ(replicas.held(), (LogPosition{1, 100}));
  EXPECT_EQ(replicas.behind(), 30);
  EXPECT_EQ(replicas.settled(), 1);
  EXPECT_EQ(replicas.Next(1), (ReplicaOrder{Kind::kAppend, 1, 100, 30}));
}

// The follower came back without its files: nothing is acknowledged anew before it has all again.
TEST(LogReplicaTest, AnEmptyFollowerGetsEverythingAgain) {
  LogReplicas replicas;
  replicas.Open({{4, 50}, {5, 70}});
  replicas.SetFollower(1);
  replicas.Connected(1, {{4, 50}, {5, 70}});
  EXPECT_EQ(replicas.settled(), 1);
  replicas.Lost(1);
  EXPECT_EQ(replicas.settled(), -1);
  replicas.Grew(5, 90);
  replicas.Connected(1, {});
  EXPECT_EQ(replicas.Next(1), (ReplicaOrder{Kind::kAppend, 4, 0, 50}));
  EXPECT_EQ(replicas.Next(1), (ReplicaOrder{Kind::kAppend, 5, 0, 90}));
  replicas.Answered(1);
  EXPECT_EQ(replicas.held(), (LogPosition{5, 70}));
  EXPECT_EQ(replicas.settled(), -1);
  replicas.Answered(1);
  EXPECT_EQ(replicas.held(), (LogPosition{5, 90}));
  EXPECT_EQ(replicas.settled(), 1);
}

TEST(LogReplicaTest, TheOldFollowerStaysUntilTheNewOneIsLevel) {
  LogReplicas replicas;
  replicas.Open({{1, 100}});
  replicas.SetFollower(1);
  replicas.Connected(1, {{1, 100}});
  replicas.SetFollower(2);
  EXPECT_THAT(replicas.Lines(), ElementsAre(1, 2));
  replicas.Grew(1, 120);
  ASSERT_TRUE(replicas.Next(1).has_value());
  replicas.Answered(1);  // One of the two is enough.
  EXPECT_EQ(replicas.held(), (LogPosition{1, 120}));
  replicas.Connected(2, {});
  ASSERT_TRUE(replicas.Next(2).has_value());
  EXPECT_EQ(replicas.settled(), -1);
  EXPECT_EQ(replicas.Next(1), std::nullopt);
  replicas.Answered(2);
  EXPECT_EQ(replicas.Next(1), (ReplicaOrder{.kind = Kind::kForget}));
  EXPECT_EQ(replicas.settled(), -1);
  replicas.Answered(1);
  EXPECT_THAT(replicas.Lines(), ElementsAre(2));
  EXPECT_EQ(replicas.settled(), 2);
}

// An old segment of the log is shorter than its copy, or gone: the copy is not told to forget, and
// nothing is acknowledged by it.
TEST(LogReplicaTest, ACopyThatHasMoreIsLeftAlone) {
  for (const LogSizes& log : {LogSizes{{4, 20}, {5, 70}}, LogSizes{{3, 5}, {5, 70}}}) {
    LogReplicas replicas;
    replicas.Open(log);
    replicas.SetFollower(1);
    EXPECT_EQ(replicas.outrun(), -1);
    replicas.Connected(1, {{4, 50}, {5, 60}});
    EXPECT_EQ(replicas.outrun(), 1);
    EXPECT_EQ(replicas.Next(1), std::nullopt);
    EXPECT_EQ(replicas.held(), LogPosition());
    EXPECT_EQ(replicas.settled(), -1);
    replicas.SetFollower(2);  // Nor by one that has all, when that one is let go.
    replicas.Connected(2, log);
    EXPECT_EQ(replicas.Next(1), std::nullopt);
  }
}

TEST(LogReplicaTest, WhatALogLacksIsTakenFromTheCopyThatHasMost) {
  const auto take = [](const LogSizes& log, const std::vector<LogSizes>& copies) {
    return CompareLog(log, {}, copies).take;
  };
  using Takes = std::map<int64_t, size_t>;
  EXPECT_EQ(take({{4, 50}, {5, 50}}, {{{4, 50}, {5, 30}}, {}}), Takes());
  EXPECT_EQ(take({{4, 20}, {5, 50}}, {{{4, 50}}}), (Takes{{4, 0}}));
  EXPECT_EQ(take({{4, 50}, {6, 50}}, {{{5, 50}}}), (Takes{{5, 0}}));
  EXPECT_EQ(take({{4, 50}}, {{{5, 9}}, {{5, 90}}}), (Takes{{5, 1}}));
  EXPECT_EQ(take({{4, 50}}, {{{2, 50}, {3, 50}}}), Takes());  // A checkpoint made them needless.
  EXPECT_EQ(take({}, {{{2, 50}}}), Takes());                  // LongestCopy is for that.
}

// The log went on without what that copy has: a life began from another.
TEST(LogReplicaTest, WhatNeverBecameTheLogIsForgotten) {
  const std::vector<LogSizes> copies = {{{4, 50}, {5, 50}}, {{4, 60}}};
  const LogRepair repair = CompareLog({{4, 50}, {5, 50}}, {{4, 50}}, copies);
  EXPECT_TRUE(repair.take.empty());
  EXPECT_THAT(repair.forget, ElementsAre(1));
  // If it has lost some of what it began with, nobody can be spared.
  EXPECT_TRUE(CompareLog({{4, 40}, {5, 50}}, {{4, 50}}, copies).forget.empty());
}

TEST(LogReplicaTest, ADeadLifeIsNotListenedTo) {
  ReplicaCopy copy;
  ASSERT_TRUE(copy.Follow(1, 7).ok());
  ASSERT_TRUE(copy.Follow(2, 8).ok());
  EXPECT_TRUE(absl::IsAborted(copy.Check(7, {.segment = 1, .bytes = 5})));
  EXPECT_TRUE(copy.Check(8, {.segment = 1, .bytes = 5}).ok());
  EXPECT_TRUE(absl::IsAborted(copy.Check(8, {.segment = 1, .offset = 3, .bytes = 5})));
  EXPECT_TRUE(absl::IsFailedPrecondition(copy.Follow(1, 9)));
}

TEST(LogReplicaTest, WordsSurviveTheWireAndGarbageDoesNot) {
  const FollowRequest request = {"ctr", 1, 2, 3};
  EXPECT_EQ(*DecodeFollow(Encode(request)), request);
  EXPECT_FALSE(DecodeFollow("x").ok());
  EXPECT_FALSE(DecodeFollow(Encode(request) + "x").ok());
  const ReplicaOrder order = {Kind::kDropBefore, 1, 2, 3};
  EXPECT_EQ(Encode(order).size(), kReplicaOrderBytes);
  EXPECT_EQ(*DecodeReplicaOrder(Encode(order)), order);
  EXPECT_FALSE(DecodeReplicaOrder("").ok());
  const LogSizes sizes = {{1, 2}, {3, 4}};
  EXPECT_EQ(*DecodeLogSizes(Encode(sizes)), sizes);
  EXPECT_FALSE(DecodeLogSizes("123456789").ok());
}

TEST(LogReplicaTest, EveryBitOfJointsCounts) {
  const LogSizes joints = {{3, 120}, {17, 4096}};
  const std::string text = EncodeJoints(joints);
  ASSERT_TRUE(DecodeJoints(text).ok()) << DecodeJoints(text).status();
  EXPECT_EQ(*DecodeJoints(text), joints);
  for (size_t size = 0; size < text.size(); ++size) {
    EXPECT_TRUE(absl::IsDataLoss(DecodeJoints(text.substr(0, size)).status())) << size;
  }
  for (size_t i = 0; i < 8 * text.size(); ++i) {
    std::string flipped = text;
    flipped[i / 8] = static_cast<char>(flipped[i / 8] ^ (1 << i % 8));
    EXPECT_TRUE(absl::IsDataLoss(DecodeJoints(flipped).status())) << flipped;
  }
  // As an earlier build wrote them.
  ASSERT_TRUE(DecodeJoints("3 120\n17 4096").ok());
  EXPECT_EQ(*DecodeJoints("3 120\n17 4096"), joints);
  for (const char* other :
       {"3 120\n17", "3 120\n", "3  120", "17 4096\n3 120", "3 120\n3 4", "-3 1"}) {
    EXPECT_TRUE(absl::IsDataLoss(DecodeJoints(other).status())) << other;
  }
}

}  // namespace
}  // namespace rubato
