#include "rubato/ring/state_copy.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "rubato/base/rng.h"
#include "rubato/ring/state_snapshot.h"

namespace rubato {
namespace {

StateSource SourceOf(int64_t step, std::string& state, size_t chunk_bytes) {
  const std::vector<absl::Span<char>> parts = {absl::MakeSpan(state.data(), state.size())};
  return StateSource(std::make_shared<StateSnapshot>(
      step, parts, StateSnapshot::Options{.piece_bytes = chunk_bytes}));
}

// Chunks arrive in any order, some twice, some broken; the state comes out whole or not at all.
TEST(StateCopyTest, SurvivesABadWire) {
  Rng rng(9);
  for (size_t bytes : {0, 1, 99, 100, 101, 1000}) {
    std::string state(bytes, 0);
    for (char& c : state) c = static_cast<char>(rng.Next());
    const StateSource source = SourceOf(12, state, 100);
    StateSink sink(12, 100);
    int rounds = 0;
    while (!sink.complete()) {
      ASSERT_LT(++rounds, 1000);
      std::vector<StateRequest> wants = sink.Want(4);
      rng.Shuffle(wants);
      for (const StateRequest& want : wants) {
        StateChunk chunk = *source.Serve(want);
        if (rng.Chance(0.3)) continue;  // Lost.
        if (rng.Chance(0.3) && !chunk.bytes.empty()) {
          chunk.bytes[rng.Below(chunk.bytes.size())] ^= 1;
          EXPECT_FALSE(sink.Take(chunk).ok());
          continue;
        }
        for (int copies = rng.Chance(0.3) ? 2 : 1; copies > 0; --copies) {
          EXPECT_TRUE(sink.Take(chunk).ok());
        }
      }
    }
    EXPECT_EQ(sink.bytes(), bytes);
    EXPECT_EQ(sink.TakeSnapshot(), state);
  }
}

TEST(StateCopyTest, StatesAreNotMixedAndNotTooOld) {
  std::string weights = "weights", capitals = "WEIGHTS";
  const StateSource source = SourceOf(12, weights, 4);
  EXPECT_FALSE(source.Serve({13, 0}).ok()) << "too old for who missed step 13";
  StateSink sink(11, 4);
  EXPECT_TRUE(sink.Take(*source.Serve({11, 0})).ok());
  const StateSource later = SourceOf(14, capitals, 4);
  EXPECT_FALSE(sink.Take(*later.Serve({11, 1})).ok()) << "half of one, half of another";
  EXPECT_FALSE(sink.complete());
  StateSink behind(13, 4);
  EXPECT_FALSE(behind.Take(*source.Serve({12, 0})).ok()) << "it has not kept the sum of step 13";
  EXPECT_EQ(behind.step(), -1);
}

std::string Whole(StateSnapshot& snapshot) {
  std::string bytes;
  for (size_t i = 0; i < snapshot.pieces(); ++i) absl::StrAppend(&bytes, snapshot.Piece(i));
  return bytes;
}

GroupView ViewOf(int holders, int learners) {
  GroupView view{.number = 7, .holders = holders};
  for (int i = 0; i < holders + learners; ++i) {
    view.members.push_back({MemberId(100 + i), absl::StrCat("n", i)});
  }
  return view;
}

TEST(SourceChoiceTest, LearnersAreSpreadAndAskTheOthersInTurn) {
  const GroupView view = ViewOf(3, 4);
  std::vector<MemberId> first, second;
  for (int rank = view.holders; rank < view.size(); ++rank) {
    SourceChoice choice(absl::Seconds(2));
    ASSERT_TRUE(choice.Begin(view, view.members[rank].id));
    first.push_back(choice.source());
    ASSERT_TRUE(choice.Next(view, view.members[rank].id));
    second.push_back(choice.source());
  }
  EXPECT_EQ(first, (std::vector{MemberId(100), MemberId(101), MemberId(102), MemberId(100)}));
  EXPECT_EQ(second, (std::vector{MemberId(101), MemberId(102), MemberId(100), MemberId(101)}));
  SourceChoice lonely(absl::Seconds(2));
  EXPECT_FALSE(lonely.Begin(ViewOf(0, 1), MemberId(100)));
}

// Steps may be as long as they like: a source answers between two of its own. From then on, and
// whenever something came, it has a lease, and more before the first byte.
TEST(SourceChoiceTest, ASourceIsGivenTheStepsItNeedsAndALease) {
  SourceChoice choice(absl::Seconds(2), /*making=*/absl::Seconds(1));
  choice.Begin(ViewOf(2, 1), MemberId(102));
  absl::Time now = absl::UnixEpoch();
  const auto in_vain = [&](int64_t step, uint64_t bytes, int seconds) {
    now += absl::Seconds(seconds);
    return choice.InVain(step, bytes, now);
  };
  EXPECT_FALSE(in_vain(5, 0, 0));
  EXPECT_FALSE(in_vain(6, 0, 60)) << "it may be in the step that it was asked in";
  EXPECT_FALSE(in_vain(7, 0, 60)) << "now it has been between two";
  EXPECT_FALSE(in_vain(8, 0, 2)) << "it copies its state first";
  EXPECT_FALSE(in_vain(9, 10, 1));
  EXPECT_FALSE(in_vain(10, 10, 1));
  EXPECT_TRUE(in_vain(11, 10, 1));
  choice.Next(ViewOf(2, 1), MemberId(102));
  EXPECT_FALSE(in_vain(10, 0, 60)) << "the next one is asked just now";
  EXPECT_FALSE(in_vain(12, 0, 60));
  EXPECT_FALSE(in_vain(12, 10, 1));
  EXPECT_FALSE(in_vain(13, 10, 3)) << "the second has twice as long";
  EXPECT_TRUE(in_vain(13, 10, 1));
}

// Whoever was asked may be out by now, or learn itself: the choice begins anew, with those who hold
// the state, and a lease for the first of them.
TEST(SourceChoiceTest, OneThatHoldsTheStateNoMoreIsNobodyToComeAfter) {
  GroupView later = ViewOf(2, 2);
  std::swap(later.members[0], later.members[2]);  // 102 101 | 100 103
  for (const bool learns : {true, false}) {
    SourceChoice choice(absl::Seconds(2));
    ASSERT_TRUE(choice.Begin(ViewOf(1, 3), MemberId(103)));
    ASSERT_EQ(choice.source(), MemberId(100));
    const absl::Time now = absl::UnixEpoch();
    choice.InVain(5, 0, now);
    choice.InVain(7, 0, now);
    ASSERT_TRUE(choice.InVain(7, 0, now + absl::Seconds(2)));
    if (!learns) later.members[2].id = MemberId(104);
    ASSERT_TRUE(choice.Next(later, MemberId(103)));
    EXPECT_EQ(choice.source(), MemberId(101)) << "the learners are spread";
    EXPECT_FALSE(choice.InVain(8, 0, now + absl::Seconds(60))) << "it is asked just now";
    EXPECT_FALSE(choice.InVain(10, 0, now + absl::Seconds(60)));
    EXPECT_TRUE(choice.InVain(10, 0, now + absl::Seconds(62))) << "a lease, as at first";
  }
}

// One of them may be just slow: the lease grows, but not for ever, or one that is mute would be
// waited for for hours.
TEST(SourceChoiceTest, TheLeaseGrowsThirtytwofold) {
  SourceChoice choice(absl::Seconds(2));
  const GroupView view = ViewOf(2, 1);
  choice.Begin(view, MemberId(102));
  absl::Time now = absl::UnixEpoch();
  for (const int lease : {2, 4, 8, 16, 32, 64, 64, 64}) {
    choice.InVain(5, 0, now);
    choice.InVain(7, 0, now);
    EXPECT_FALSE(choice.InVain(7, 0, now + absl::Seconds(lease - 1))) << lease;
    EXPECT_TRUE(choice.InVain(7, 0, now += absl::Seconds(lease))) << lease;
    choice.Next(view, MemberId(102));
  }
}

// However what copies and what changes the state take turns, the snapshot is of one moment.
TEST(StateSnapshotTest, IsOfOneMoment) {
  for (uint64_t seed = 0; seed < 300; ++seed) {
    Rng rng(seed);
    std::vector<std::string> state(rng.Below(6));
    std::vector<absl::Span<char>> parts;
    std::string before;
    for (std::string& part : state) {
      part.resize(rng.Below(rng.Chance(0.3) ? 4 : 60));
      for (char& c : part) c = static_cast<char>(rng.Next());
      parts.push_back(absl::MakeSpan(part.data(), part.size()));
      before += part;
    }
    StateSnapshot snapshot(7, parts, {.piece_bytes = 1 + rng.Below(20), .small_bytes = 3});
    EXPECT_EQ(snapshot.bytes(), before.size());
    for (int turn = 0; turn < 20; ++turn) {
      if (rng.Chance(0.2)) snapshot.Piece(rng.Below(snapshot.pieces()));
      if (rng.Chance(0.03)) snapshot.Finish();
      if (state.empty()) continue;
      std::string& part = state[rng.Below(state.size())];
      const size_t begin = rng.Below(part.size() + 1);
      const size_t size = rng.Below(part.size() - begin + 1);
      const absl::Span<char> changed = absl::MakeSpan(part).subspan(begin, size);
      if (part.size() > 3) snapshot.BeforeChange(changed);  // The small ones need no word.
      for (char& c : changed) c = static_cast<char>(rng.Next());
    }
    ASSERT_EQ(Whole(snapshot), before) << "seed " << seed;
    EXPECT_TRUE(snapshot.finished());
  }
}

// What is about to change is copied, and no more: the rest has time.
TEST(StateSnapshotTest, CopiesNoMoreThanItMust) {
  std::string first(100, 'a'), second(100, 'b');
  const std::vector<absl::Span<char>> parts = {absl::MakeSpan(first.data(), 100),
                                               absl::MakeSpan(second.data(), 100)};
  StateSnapshot snapshot(3, parts, {.piece_bytes = 50, .small_bytes = 0});
  std::string elsewhere(10, 'c');
  snapshot.BeforeChange(elsewhere);
  snapshot.BeforeChange(absl::MakeConstSpan(second).subspan(49, 2));
  std::fill(first.begin(), first.end(), 'A');    // Without a word,
  std::fill(second.begin(), second.end(), 'B');  // both halves with one.
  EXPECT_EQ(Whole(snapshot), std::string(100, 'A') + std::string(100, 'b'));
}

}  // namespace
}  // namespace rubato
