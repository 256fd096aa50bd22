// Deaths among those who still copy the state, of the last who held it, and of most at once: real
// processes, killed at a moment that they choose.
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdlib>
#include <deque>
#include <memory>
#include <new>
#include <numeric>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "rubato/adapters/ring/elastic_group.h"
#include "rubato/adapters/ring/endpoint.h"

namespace rubato {
namespace {

constexpr int kWeights = 1000;
constexpr absl::Duration kLong = absl::Minutes(2);

// How sums travel: through memory; over TCP; or, between the two machines that processes pose as,
// over TCP between those and through memory within each. Early: steps are applied with one's sum.
enum class Plane : uint8_t { kSharedMemory, kTcp, kMachines, kMachinesEarly, kMachinesTls };

// Where in its life a newcomer dies.
enum class Moment { kAtTheDoor, kInItsFirstStep, kOnceItIsLevel };

struct Worker {
  std::vector<float> weights = std::vector<float>(kWeights, 1.0f);
  std::vector<float> gradients = std::vector<float>(kWeights, 0.0f);
  std::unique_ptr<ElasticGroup> group;
  int rank = 0;  // In its last step.

  absl::Status Open(Plane plane, std::vector<std::string> join, int machine = 0) {
    const bool early = plane == Plane::kMachinesEarly || plane == Plane::kMachinesTls;
    GroupOptions options = {.join = std::move(join),
                            .secret = plane == Plane::kMachinesTls ? "between us" : "",
                            .quorum = early ? Quorum::kMajority : Quorum::kAny,
                            .shared_memory = plane != Plane::kTcp,
                            .machine = plane < Plane::kMachines ? "" : absl::StrCat(machine),
                            .microbatches = 4,
                            .early_apply = early};
    options.state = {absl::MakeSpan(reinterpret_cast<char*>(weights.data()), kWeights * 4)};
    options.apply = [this] {
      for (int i = 0; i < kWeights; ++i) weights[i] = weights[i] * 0.5f + gradients[i];
    };
    absl::StatusOr<std::unique_ptr<ElasticGroup>> opened = ElasticGroup::Open(std::move(options));
    if (opened.ok()) group = *std::move(opened);
    return opened.status();
  }
  // The part of a step after BeginStep.
  absl::Status Finish(const StepPlan& plan) {
    const auto parts = static_cast<float>(plan.quota.size());
    std::fill(gradients.begin(), gradients.end(), parts * static_cast<float>(plan.step));
    if (!group->AllreduceLast(absl::MakeSpan(gradients)).ok()) return absl::OkStatus();
    return group->Commit().status();
  }
  absl::Status Step() {
    const absl::StatusOr<StepPlan> plan = group->BeginStep(absl::Seconds(30));
    if (!plan.ok()) return plan.status();
    rank = plan->rank;
    return Finish(*plan);
  }
  // It has the whole state, and no view yet says that it holds it.
  bool IsLevelLearner() const { return !group->learning() && group->view().holders == 1; }
};

std::vector<float> Expected(int64_t steps) {
  float weight = 1.0f;
  for (int64_t step = 1; step <= steps; ++step) weight = weight * 0.5f + 4.0f * step;
  return std::vector<float>(kWeights, weight);
}

// A process that waits for a line, and says one; killed at the end if it still lives.
class Process {
 public:
  template <typename F>
  explicit Process(F main) {
    int there[2], back[2];
    if (pipe(there) != 0 || pipe(back) != 0) return;
    pid_ = fork();
    if (pid_ == 0) {
      to_ = back[1];
      from_ = there[0];
      main(*this);
      _exit(0);
    }
    to_ = there[1];
    from_ = back[0];
    close(there[0]);
    close(back[1]);
  }
  ~Process() {
    if (pid_ > 0) Kill();
    close(to_);
    close(from_);
  }
  Process(const Process&) = delete;

  void Say(const std::string& line) {
    if (write(to_, line.data(), line.size()) < 0) return;
  }
  std::string Hear() {
    char line[128];
    const ssize_t n = read(from_, line, sizeof(line));
    return n > 0 ? std::string(line, static_cast<size_t>(n)) : "";
  }
  void Kill() {
    kill(pid_, SIGKILL);
    waitpid(std::exchange(pid_, -1), nullptr, 0);
  }
  pid_t pid() const { return pid_; }

 private:
  pid_t pid_ = -1;
  int to_ = -1, from_ = -1;
};

class GroupDeathsTest : public testing::TestWithParam<Plane> {};

// The only one who holds the state is killed in a step that its newcomer, level by then, has yet to
// add its part to: that one inherits, and trains on from there.
TEST_P(GroupDeathsTest, ALevelNewcomerInheritsTheState) {
  Process holder([](Process& self) {
    Worker founder;
    if (!founder.Open(GetParam(), {}).ok()) return;
    self.Say(founder.group->address());
    while (founder.Step().ok()) {
    }
  });
  Worker heir;
  ASSERT_TRUE(heir.Open(GetParam(), {holder.Hear()}).ok());
  while (true) {
    const absl::StatusOr<StepPlan> plan = heir.group->BeginStep(absl::Seconds(60));
    ASSERT_TRUE(plan.ok()) << plan.status();
    ASSERT_EQ(heir.group->view().holders, 1) << "it held the state before it was level";
    // No view can come before this step is over, which needs this one's part.
    if (heir.IsLevelLearner()) holder.Kill();
    ASSERT_TRUE(heir.Finish(*plan).ok());
    if (holder.pid() < 0) break;
  }
  const int64_t inherited = heir.group->step();
  EXPECT_GE(inherited, 0);
  while (heir.group->step() < inherited + 20) ASSERT_TRUE(heir.Step().ok());
  EXPECT_EQ(heir.group->partings(), 0);
  EXPECT_EQ(heir.group->view().size(), 1);
  EXPECT_EQ(heir.weights, Expected(heir.group->step()));
}

// Newcomers die before any view has them, in their first step, and when they have the state: the
// one they came to trains on with what it had, and each is named once.
TEST_P(GroupDeathsTest, NewcomersThatDieCostNobodyAStep) {
  const auto come = [](Moment moment) {
    return [moment](Process& self) {
      Worker newcomer;
      if (!newcomer.Open(GetParam(), {self.Hear()}).ok()) return;
      while (moment == Moment::kAtTheDoor && newcomer.group->unheard() > absl::Hours(1)) {
        std::this_thread::yield();
      }
      if (moment == Moment::kAtTheDoor) raise(SIGKILL);
      while (true) {
        const absl::StatusOr<StepPlan> plan = newcomer.group->BeginStep(absl::Seconds(60));
        if (!plan.ok()) return;
        const bool now = moment == Moment::kInItsFirstStep || newcomer.IsLevelLearner();
        if (now) raise(SIGKILL);
        if (!newcomer.Finish(*plan).ok()) return;
      }
    };
  };
  Process door(come(Moment::kAtTheDoor)), first(come(Moment::kInItsFirstStep)),
      level(come(Moment::kOnceItIsLevel));
  Worker founder;
  ASSERT_TRUE(founder.Open(GetParam(), {}).ok());
  for (Process* newcomer : {&door, &first, &level}) {
    const absl::StatusOr<StepPlan> plan = founder.group->BeginStep(absl::Seconds(30));
    ASSERT_TRUE(plan.ok()) << plan.status();
    newcomer->Say(founder.group->address());
    // Nobody is let in before this step is over.
    const std::string last_words = newcomer == &door ? door.Hear() : "";
    EXPECT_EQ(last_words, "") << "it says nothing, and has ended";
    ASSERT_TRUE(founder.Finish(*plan).ok());
    int named = 0;
    uint64_t seen = founder.group->view().number;
    const absl::Time deadline = absl::Now() + kLong;
    while ((named == 0 || founder.group->view().size() > 1) && absl::Now() < deadline) {
      ASSERT_TRUE(founder.Step().ok());
      std::vector<Departure> gone = founder.group->TakeLostNewcomers();
      const ChangeTimes change = founder.group->last_change();
      if (change.view > std::exchange(seen, change.view)) {
        gone.insert(gone.end(), change.gone.begin(), change.gone.end());
      }
      for (const Departure& departure : gone) {
        EXPECT_EQ(ParseEndpoint(departure.member.address)->pid, newcomer->pid());
        ++named;
      }
    }
    EXPECT_EQ(named, 1);
  }
  EXPECT_EQ(founder.group->view().size(), 1);
  EXPECT_EQ(founder.group->partings(), 0);
  EXPECT_EQ(founder.weights, Expected(founder.group->step()));
}

// What the processes of a large group say of themselves, in memory that they share.
struct Member {
  std::atomic<int> holders{0};  // Of the view that it trains in.
  std::atomic<int64_t> step{-1};
  std::atomic<int> partings{0};
  std::atomic<int> rank{0};
  std::atomic<bool> wrong{false};  // Its weights are not those of its step.
};
constexpr int kMembers = 32;
using Board = std::array<Member, kMembers>;

Board& MakeBoard() {
  void* const memory =
      mmap(nullptr, sizeof(Board), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) std::abort();
  return *new (memory) Board;
}

void TrainOn(Worker& worker, Member& member) {
  while (worker.Step().ok()) {
    if (!worker.group->learning() && worker.weights != Expected(worker.group->step())) {
      member.wrong = true;
    }
    member.rank = worker.rank;
    member.partings = worker.group->partings();
    member.holders = worker.group->view().holders;
    member.step = worker.group->step();
  }
}

bool AllHold(const Board& board, const std::vector<int>& members, int64_t step) {
  const absl::Time deadline = absl::Now() + kLong;
  const auto there = [&](int i) {
    return board[i].holders == static_cast<int>(members.size()) && board[i].step >= step;
  };
  while (!std::all_of(members.begin(), members.end(), there)) {
    if (absl::Now() > deadline || poll(nullptr, 0, 5) != 0) return false;
  }
  return true;
}

// So many processes that train on until they are killed, half of them on each machine.
std::deque<Process> StartAll(Plane plane, int count, Board& board) {
  std::deque<Process> processes;
  std::string founder;
  for (int i = 0; i < count; ++i) {
    processes.emplace_back([&](Process& self) {
      Worker worker;
      std::vector<std::string> join;
      if (i > 0) join.push_back(founder);
      if (!worker.Open(plane, join, i % 2).ok()) return;
      self.Say(worker.group->address());
      TrainOn(worker, board[i]);
    });
    const std::string address = processes.back().Hear();
    if (i == 0) founder = address;
  }
  return processes;
}

std::vector<int> Numbers(int count) {
  std::vector<int> numbers(count);
  std::iota(numbers.begin(), numbers.end(), 0);
  return numbers;
}

// Thirty of thirty-two are killed at one moment, the founder among them; the two train on as they
// are, from the step where they were.
TEST_P(GroupDeathsTest, TwoOfThirtyTwoGoOn) {
  Board& board = MakeBoard();
  std::deque<Process> processes = StartAll(GetParam(), kMembers, board);
  const std::vector<int> all = Numbers(kMembers), two = {11, 23};
  ASSERT_TRUE(AllHold(board, all, 1));
  for (const int i : all) {
    if (i != two[0] && i != two[1]) kill(processes[i].pid(), SIGKILL);
  }
  const int64_t step = std::max(board[two[0]].step.load(), board[two[1]].step.load());
  EXPECT_TRUE(AllHold(board, two, step + 10));
  for (const int i : two) {
    EXPECT_EQ(board[i].partings, 0) << "it had to begin anew";
    EXPECT_FALSE(board[i].wrong) << "after step " << board[i].step;
  }
  processes.clear();
  munmap(&board, sizeof(Board));
}

std::string NameOf(const testing::TestParamInfo<Plane>& info) {
  const char* const names[] = {"SharedMemory", "Tcp", "Machines", "MachinesEarly", "MachinesTls"};
  return names[static_cast<int>(info.param)];
}
INSTANTIATE_TEST_SUITE_P(Planes, GroupDeathsTest,
                         testing::Values(Plane::kSharedMemory, Plane::kTcp, Plane::kMachines),
                         NameOf);

class MachinesDeathsTest : public testing::TestWithParam<Plane> {};

// Four processes on each of two machines. Of those who speak for their machine and of those who do
// not one after the other is killed, amid their steps: the others go on as they are. Where steps
// are applied early one of them may have to copy the state again, and comes to the same.
TEST_P(MachinesDeathsTest, WhoeverDiesTheOthersGoOnExactly) {
  Board& board = MakeBoard();
  std::deque<Process> processes = StartAll(GetParam(), 8, board);
  std::vector<int> living = Numbers(8);
  ASSERT_TRUE(AllHold(board, living, 1));
  int64_t step = 0;
  const auto by_rank = [&](int a, int b) { return board[a].rank < board[b].rank; };
  for (const auto& [machine, first] :
       {std::pair(0, true), {1, false}, {1, true}, {0, false}, {0, true}}) {
    for (const int i : living) step = std::max(step, board[i].step.load());
    ASSERT_TRUE(AllHold(board, living, step + 10));
    std::vector<int> there = living;
    std::erase_if(there, [machine = machine](int i) { return i % 2 != machine; });
    const int doomed = first ? *std::min_element(there.begin(), there.end(), by_rank)
                             : *std::max_element(there.begin(), there.end(), by_rank);
    kill(processes[doomed].pid(), SIGKILL);
    std::erase(living, doomed);
  }
  EXPECT_TRUE(AllHold(board, living, step + 30));
  for (const int i : living) {
    EXPECT_FALSE(board[i].wrong) << "after step " << board[i].step;
    EXPECT_TRUE(GetParam() != Plane::kMachines || board[i].partings == 0) << "it began anew";
  }
  processes.clear();
  munmap(&board, sizeof(Board));
}
INSTANTIATE_TEST_SUITE_P(Planes, MachinesDeathsTest,
                         testing::Values(Plane::kMachines, Plane::kMachinesEarly,
                                         Plane::kMachinesTls),
                         NameOf);

}  // namespace
}  // namespace rubato
