// Sums of members who pose as several machines: through real memory and over real sockets.
#include "rubato/adapters/ring/machines_plane.h"

#include <gtest/gtest.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cmath>
#include <cstring>
#include <deque>
#include <functional>
#include <numeric>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "rubato/adapters/ring/edge_door.h"
#include "rubato/base/rng.h"

namespace rubato {
namespace {

// One who sums, on the machine that its address names.
class Member {
 public:
  explicit Member(const std::string& machine) : machine_(machine) {
    attention_.event_fd = event_.get();
    slots_ = SharedSlots::Create(attention_).value();
    plane_ = std::make_unique<MachinesPlane>(slots_.get(), edges_);
  }
  // Nobody shares memory with a machine without a name.
  std::string address() const {
    return absl::StrCat(door_.address(), ";", machine_, ";", getpid(), ";",
                        machine_.empty() ? -1 : slots_->memory_fd());
  }
  MachinesPlane& plane() { return *plane_; }
  const EdgeDoor& door() const { return door_; }
  void Enter(const GroupView& view, int rank) {
    uint64_t count;
    EXPECT_TRUE(read(event_.get(), &count, sizeof(count)) > 0 || errno == EAGAIN);
    attention_.live_view = view.number;
    EXPECT_TRUE(plane_->Enter(view, rank, view.members[rank].id).ok());
  }
  void EndView() {
    attention_.live_view = 0;
    const uint64_t one = 1;
    EXPECT_EQ(write(event_.get(), &one, sizeof(one)), static_cast<ssize_t>(sizeof(one)));
  }

 private:
  const std::string machine_;
  Fd event_{eventfd(0, EFD_NONBLOCK)};
  Attention attention_;
  SocketNetwork network_{nullptr};
  TcpEdges edges_{attention_, 7, network_, [](MemberId, LossReason) { ADD_FAILURE() << "lost"; }};
  EdgeDoor door_{edges_};
  std::unique_ptr<SharedSlots> slots_;
  std::unique_ptr<MachinesPlane> plane_;
};

using Machines = std::vector<std::string>;  // By member.
using Call = std::function<absl::Status(MachinesPlane&, int rank)>;

class Group {
 public:
  explicit Group(const Machines& machines) {
    for (const std::string& machine : machines) members_.emplace_back(machine);
  }
  // The next view, of these members, oldest first.
  void Enter(const std::vector<int>& members) {
    in_view_ = members;
    ++view_.number;
    view_.members.clear();
    for (const int member : members) {
      view_.members.push_back({MemberId(member + 1), members_[member].address()});
    }
    view_.holders = view_.size();
    for (int rank = 0; rank < view_.size(); ++rank) members_[members[rank]].Enter(view_, rank);
  }
  // The one at `rank` is in another view of the same number, whose last member is `other`.
  void Stray(int rank, int other) {
    GroupView view = view_;
    view.members.back() = {MemberId(other + 1), members_[other].address()};
    members_[in_view_[rank]].Enter(view, rank);
  }
  void EnterAll() {
    std::vector<int> all(members_.size());
    std::iota(all.begin(), all.end(), 0);
    Enter(all);
  }
  // What each of `ranks` came to; `meanwhile` runs once all have begun.
  std::vector<absl::Status> Run(
      const std::vector<int>& ranks, const Call& call,
      const std::function<void()>& meanwhile = [] {}) {
    std::vector<absl::Status> came(ranks.size());
    std::vector<std::thread> threads;
    for (size_t i = 0; i < ranks.size(); ++i) {
      threads.emplace_back([&, i] {
        MachinesPlane& plane = members_[in_view_[ranks[i]]].plane();
        came[i] = call(plane, ranks[i]);
      });
    }
    meanwhile();
    for (std::thread& thread : threads) thread.join();
    return came;
  }
  void RunAll(const Call& call) {
    for (const absl::Status& came : Run(everyone(), call)) EXPECT_TRUE(came.ok()) << came;
  }
  void EndView() {
    for (Member& member : members_) member.EndView();
  }
  std::vector<int> everyone() const {
    std::vector<int> ranks(in_view_.size());
    std::iota(ranks.begin(), ranks.end(), 0);
    return ranks;
  }
  int size() const { return static_cast<int>(in_view_.size()); }
  int calls_to(int member) const { return members_[member].door().let_in(); }

 private:
  std::deque<Member> members_;
  std::vector<int> in_view_;
  GroupView view_;
};

float ValueAt(int rank, int64_t i) {
  const uint64_t chance = Mix(static_cast<uint64_t>(rank), static_cast<uint64_t>(i)) % 20001;
  return (static_cast<float>(chance) - 10000) / 997;
}

std::vector<float> ValuesOf(int rank, int64_t elements) {
  std::vector<float> values;
  for (int64_t i = 0; i < elements; ++i) values.push_back(ValueAt(rank, i));
  return values;
}

// What rounding a number once costs at most, as a part of it.
double RoundingOf(WireFormat format) {
  return format == WireFormat::kFp32 ? 0x1p-22 : format == WireFormat::kBf16 ? 0x1p-8 : 0x1p-11;
}

// The same bits for all, numbers that the wire can carry, and near the sum.
void ExpectSums(const std::vector<std::vector<float>>& sums, WireFormat format, int machines) {
  const auto elements = static_cast<int64_t>(sums[0].size());
  for (const std::vector<float>& sum : sums) {
    ASSERT_EQ(sum.size(), sums[0].size());
    EXPECT_TRUE(sum.empty() || std::memcmp(sum.data(), sums[0].data(), elements * 4) == 0);
  }
  std::vector<float> rounded = sums[0];
  RoundTo(format, absl::MakeSpan(rounded));
  EXPECT_TRUE(rounded == sums[0]);
  int64_t far = 0;
  for (int64_t i = 0; i < elements; ++i) {
    double exact = 0, largest = 0;
    for (size_t rank = 0; rank < sums.size(); ++rank) {
      exact += ValueAt(static_cast<int>(rank), i);
      largest += std::abs(ValueAt(static_cast<int>(rank), i));
    }
    const double allowed = machines * RoundingOf(format) * largest;
    far += std::abs(sums[0][i] - exact) > allowed ? 1 : 0;
  }
  EXPECT_EQ(far, 0);
}

class MachinesPlaneTest : public testing::TestWithParam<Machines> {
 protected:
  // Each without a name is one of its own.
  static int machines() {
    std::set<std::string> names;
    int unnamed = 0;
    for (const std::string& name : GetParam()) name.empty() ? ++unnamed : names.insert(name).second;
    return static_cast<int>(names.size()) + unnamed;
  }
};

TEST_P(MachinesPlaneTest, SumsAreTheSameForAll) {
  Group group(GetParam());
  group.EnterAll();
  for (const WireFormat format : {WireFormat::kFp32, WireFormat::kBf16, WireFormat::kFp16}) {
    // At once; in one part; in several; and by another algorithm.
    for (const int64_t elements : {0, 7, 3'000, 100'003, 300'001}) {
      std::vector<std::vector<float>> sums(group.size());
      std::vector<std::vector<float>> speeds(group.size());
      group.RunAll([&](MachinesPlane& plane, int rank) {
        sums[rank] = ValuesOf(rank, elements);
        const absl::Span<float> mine = absl::MakeSpan(sums[rank]);
        return elements == 7 ? plane.AllreduceAndTell(mine, format, 1.5f + rank, speeds[rank])
                             : plane.Allreduce(mine, format);
      });
      ExpectSums(sums, format, machines());
      for (const std::vector<float>& told : speeds) {
        if (elements != 7) continue;
        ASSERT_EQ(told.size(), sums.size());
        for (int rank = 0; rank < group.size(); ++rank) EXPECT_EQ(told[rank], 1.5f + rank);
      }
    }
  }
}

// So large that it goes between the machines in pieces, the last of which tells the speeds; it may
// be as large as the others.
TEST_P(MachinesPlaneTest, LargeSumsGoInPieces) {
  Group group(GetParam());
  group.EnterAll();
  for (const int64_t elements : {int64_t{5'000'001}, int64_t{machines()} << 20}) {
    std::vector<std::vector<float>> sums(group.size());
    group.RunAll([&](MachinesPlane& plane, int rank) {
      std::vector<float> speeds(group.size(), -1.0f);
      sums[rank] = ValuesOf(rank, elements);
      const absl::Status came = plane.AllreduceAndTell(absl::MakeSpan(sums[rank]),
                                                       WireFormat::kBf16, 1.5f + rank, speeds);
      for (int other = 0; other < group.size(); ++other) EXPECT_EQ(speeds[other], 1.5f + other);
      return came;
    });
    ExpectSums(sums, WireFormat::kBf16, machines());
  }
}

TEST_P(MachinesPlaneTest, VotesTellTheSpeedsOfAll) {
  Group group(GetParam());
  group.EnterAll();
  std::vector<float> expected;
  for (const int rank : group.everyone()) expected.push_back(static_cast<float>(rank + 2));
  group.RunAll([&](MachinesPlane& plane, int rank) {
    for (int64_t step = 1; step < 50; ++step) {
      std::vector<float> speeds;
      const absl::Status came = plane.Vote(step, static_cast<float>(rank + 2), speeds);
      if (!came.ok()) return came;
      EXPECT_EQ(speeds, expected);
    }
    return absl::OkStatus();
  });
}

TEST_P(MachinesPlaneTest, ABroadcastComesFromWhoeverIsNamed) {
  Group group(GetParam());
  group.EnterAll();
  for (const int root : group.everyone()) {
    for (const size_t bytes : {0, 1, 5, 70'001, 2'000'003}) {
      const auto of = [&](int rank) { return std::string(bytes, static_cast<char>('a' + rank)); };
      group.RunAll([&](MachinesPlane& plane, int rank) {
        std::string mine = of(rank);
        const absl::Status came = plane.Broadcast({mine.data(), mine.size()}, root);
        EXPECT_EQ(mine, of(root));
        return came;
      });
    }
  }
}

// Whoever has a sum, even of nothing, or a vote knows that all have come: as long as one has not,
// nobody gets through, and when the view ends all are told so.
TEST_P(MachinesPlaneTest, NobodyGoesOnBeforeTheLastHasCome) {
  const std::vector<Call> calls = {
      [](MachinesPlane& plane, int) { return plane.Allreduce({}, WireFormat::kFp32); },
      [](MachinesPlane& plane, int) {
        std::vector<float> mine(40'000), speeds;
        return plane.AllreduceAndTell(absl::MakeSpan(mine), WireFormat::kBf16, 1, speeds);
      },
      [](MachinesPlane& plane, int) {
        std::vector<float> speeds;
        return plane.Vote(3, 1, speeds);
      }};
  Group group(GetParam());
  for (const Call& call : calls) {
    group.EnterAll();
    for (const int missing : group.everyone()) {
      std::vector<int> others = group.everyone();
      std::erase(others, missing);
      std::atomic<int> through = 0;
      const auto came = group.Run(
          others,
          [&](MachinesPlane& plane, int rank) {
            const absl::Status status = call(plane, rank);
            through += status.ok() ? 1 : 0;
            return status;
          },
          [&] {
            std::this_thread::sleep_for(std::chrono::milliseconds(20));
            group.EndView();
          });
      EXPECT_EQ(through, 0);
      for (const absl::Status& status : came) EXPECT_TRUE(absl::IsAborted(status)) << status;
      group.EnterAll();  // What was cut off is forgotten.
    }
    group.RunAll(call);
  }
}

INSTANTIATE_TEST_SUITE_P(Layouts, MachinesPlaneTest,
                         testing::Values(Machines{"a", "a", "b", "b"}, Machines{"a", "b", "a"},
                                         Machines{"a", "b", "a", "b", "a", "c", "a"},
                                         Machines{"", "a", "", "a", "a"}),
                         [](const auto& info) {
                           std::string name;
                           for (const std::string& one : info.param)
                             name += one.empty() ? "x" : one;
                           return name;
                         });

// Whoever was first on its machine goes, another is, and the first comes back as the youngest;
// connections to those who stay first are those of before, also when a sum was cut off.
TEST(MachinesPlaneViewsTest, FirstsChange) {
  Group group({"a", "a", "b", "b", "c"});
  const auto sum = [&] {
    for (const int64_t elements : {100, 50'000, 3'300'000}) {
      std::vector<std::vector<float>> sums(group.size());
      group.RunAll([&](MachinesPlane& plane, int rank) {
        sums[rank] = ValuesOf(rank, elements);
        return plane.Allreduce(absl::MakeSpan(sums[rank]), WireFormat::kFp32);
      });
      ExpectSums(sums, WireFormat::kFp32, 3);
    }
  };
  // All but the last come to a sum, which the end of the view cuts off.
  const auto cut_off = [&] {
    std::vector<int> others = group.everyone();
    others.pop_back();
    const auto came = group.Run(
        others,
        [](MachinesPlane& plane, int rank) {
          std::vector<float> mine(3'300'000);
          return plane.Allreduce(absl::MakeSpan(mine), WireFormat::kFp32);
        },
        [&] {
          std::this_thread::sleep_for(std::chrono::milliseconds(30));
          group.EndView();
        });
    for (const absl::Status& status : came) EXPECT_TRUE(absl::IsAborted(status)) << status;
  };
  group.Enter({0, 1, 2, 3, 4});
  sum();
  const int before = group.calls_to(0) + group.calls_to(4);
  EXPECT_EQ(group.calls_to(1) + group.calls_to(3), 0) << "it is not the first, so nobody calls it";
  cut_off();
  group.Enter({0, 1, 3, 2, 4});  // Another is the first of b.
  EXPECT_EQ(group.calls_to(3), 0);
  sum();
  EXPECT_GT(group.calls_to(3), 0);
  cut_off();
  group.Enter({0, 2, 4, 1, 3});
  const int calls = group.calls_to(0) + group.calls_to(2) + group.calls_to(4);
  sum();
  EXPECT_EQ(group.calls_to(0) + group.calls_to(2) + group.calls_to(4), calls)
      << "they had called each other before";
  EXPECT_GE(calls, before);
  group.Enter({1, 2, 4, 3});  // The first of a is gone.
  cut_off();
  group.Enter({1, 4, 3});  // None shares memory.
  sum();
  group.Enter({4, 3, 2, 1, 0});
  sum();
}

// Under `quorum: any` two views may count alike. Who is in the other one is on the same machine,
// and that has the same members in both: it takes no part all the same.
TEST(MachinesPlaneViewsTest, WhoIsInTheOtherOfTwoViewsTakesNoPart) {
  Group group({"a", "a", "b", "c"});
  group.Enter({0, 1, 2});
  group.Stray(1, 3);
  const auto came = group.Run(
      group.everyone(),
      [](MachinesPlane& plane, int) {
        std::vector<float> speeds;
        return plane.Vote(3, 1, speeds);
      },
      [&] {
        std::this_thread::sleep_for(std::chrono::milliseconds(20));
        group.EndView();
      });
  for (const absl::Status& status : came) EXPECT_TRUE(absl::IsAborted(status)) << status;
}

// Each calls what `which` says. All of one of `machines` are told that it is not the same for all;
// others may see only that the view ends. Nobody gets through, but who had only to send.
void ExpectNobodyGetsThrough(const Machines& machines, const std::vector<int>& which,
                             const std::vector<std::vector<int>>& told) {
  Group group(machines);
  group.EnterAll();
  std::vector<std::atomic<bool>> internal(group.size());
  const auto is_told = [&](const std::vector<int>& ranks) {
    return std::all_of(ranks.begin(), ranks.end(), [&](int rank) { return internal[rank].load(); });
  };
  const auto one_is_told = [&] { return std::any_of(told.begin(), told.end(), is_told); };
  const auto call = [&](MachinesPlane& plane, int rank) {
    std::vector<float> values(70'000), speeds;
    std::vector<char> bytes(100'000);
    const absl::Span<float> all = absl::MakeSpan(values);
    switch (which[rank]) {
      case 0:
        return plane.Allreduce(all.first(50'000), WireFormat::kFp32);
      case 1:
        return plane.Allreduce(all, WireFormat::kFp32);
      case 2:
        return plane.Vote(1, 1, speeds);
      case 3:
        return plane.Vote(2, 1, speeds);
      case 4:
        return plane.Broadcast(absl::MakeSpan(bytes), 0);
      case 5:
        return plane.Broadcast(absl::MakeSpan(bytes), 1);
      default:
        return plane.AllreduceAndTell(all.first(5), WireFormat::kFp32, 1, speeds);
    }
  };
  std::vector<absl::Status> came(group.size());
  group.Run(
      group.everyone(),
      [&](MachinesPlane& plane, int rank) {
        came[rank] = call(plane, rank);
        internal[rank] = absl::IsInternal(came[rank]);
        return came[rank];
      },
      [&] {
        for (int i = 0; i < 20'000 && !one_is_told(); ++i) {
          std::this_thread::sleep_for(std::chrono::milliseconds(1));
        }
        group.EndView();
      });
  EXPECT_TRUE(one_is_told()) << absl::StrJoin(came, "; ", absl::StreamFormatter());
  for (const int rank : group.everyone()) {
    const bool sends = which[rank] == 4 || which[rank] == 5;
    if (came[rank].ok() && sends) continue;
    EXPECT_TRUE(absl::IsInternal(came[rank]) || absl::IsAborted(came[rank])) << came[rank];
  }
}

TEST(MachinesPlaneMistakesTest, WithinAMachineAllOfItAreTold) {
  for (int right = 0; right < 7; ++right) {
    for (int wrong = 0; wrong < 7; ++wrong) {
      if (right == wrong) continue;
      SCOPED_TRACE(absl::StrCat(right, " ", wrong));
      ExpectNobodyGetsThrough({"a", "a", "b", "b"}, {right, wrong, right, right}, {{0, 1}});
      ExpectNobodyGetsThrough({"b", "b", "a", "a"}, {right, right, wrong, right}, {{2, 3}});
    }
  }
}

// What the first of a machine hears from another is told to all who wait for it in memory.
TEST(MachinesPlaneMistakesTest, BetweenMachinesOneOfThemIsToldAsAWhole) {
  // A larger sum; another vote; the sums of different steps; a broadcast of another.
  for (const auto& [here, there] : {std::pair(0, 1), {2, 3}, {0, 6}, {1, 2}, {4, 5}}) {
    SCOPED_TRACE(absl::StrCat(here, " ", there));
    ExpectNobodyGetsThrough({"a", "a", "a", "b", "b"}, {here, here, here, there, there},
                            {{0, 1, 2}, {3, 4}});
  }
}

}  // namespace
}  // namespace rubato
