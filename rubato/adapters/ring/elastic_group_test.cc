#include "rubato/adapters/ring/elastic_group.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <fstream>
#include <future>
#include <map>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/time/clock.h"
#include "rubato/adapters/ring/denied_testing.h"
#include "rubato/adapters/ring/elastic_group_c.h"
#include "rubato/base/rng.h"

namespace rubato {
namespace {

constexpr int kMicrobatches = 8;
constexpr int kWeights = 3000;

// A gradient that only its place in training decides, small integers so that sums are exact.
float GradientAt(int64_t step, int microbatch, int element) {
  return static_cast<float>(Mix(Mix(step, microbatch), element) % 7);
}

// How data and votes travel.
enum class Plane { kSharedMemory, kTcp, kTcpEarly, kTlsEarly };

// Who trains on while one worker lives does not apply early, here as in a job: one that is slow to
// answer would be out, and the state with the few who did.
GroupOptions OptionsOf(Plane plane) {
  const bool early = plane == Plane::kTcpEarly || plane == Plane::kTlsEarly;
  return {.secret = plane == Plane::kTlsEarly ? "between us" : "",
          .quorum = early ? Quorum::kMajority : Quorum::kAny,
          .shared_memory = plane == Plane::kSharedMemory,
          .early_apply = early};
}

// One worker: trains the weights until `steps`, and returns what they came to.
struct Worker {
  std::vector<float> weights = std::vector<float>(kWeights, 0.0f);
  std::vector<float> gradients = std::vector<float>(kWeights, 0.0f);
  std::unique_ptr<ElasticGroup> group;

  absl::Status Open(GroupOptions options) {
    options.microbatches = kMicrobatches;
    options.state = {absl::MakeSpan(reinterpret_cast<char*>(weights.data()), kWeights * 4)};
    options.apply = [this] {
      for (int i = 0; i < kWeights; ++i) weights[i] = weights[i] * 0.5f + gradients[i];
    };
    auto opened = ElasticGroup::Open(std::move(options));
    if (!opened.ok()) return opened.status();
    group = *std::move(opened);
    return absl::OkStatus();
  }

  void Compute(const StepPlan& plan) {
    std::fill(gradients.begin(), gradients.end(), 0.0f);
    for (int m = plan.quota.begin; m < plan.quota.end; ++m) {
      for (int i = 0; i < kWeights; ++i) gradients[i] += GradientAt(plan.step, m, i);
    }
  }

  absl::Status Step() {
    const absl::StatusOr<StepPlan> plan = group->BeginStep(absl::Seconds(30));
    if (!plan.ok()) return plan.status();
    Compute(*plan);
    if (!group->AllreduceLast(absl::MakeSpan(gradients)).ok()) return absl::OkStatus();
    return group->Commit().status();
  }
  // Trains until so many hold the state, this one too, and they have taken a few steps together.
  testing::AssertionResult TrainsWith(int workers) {
    const absl::Time deadline = absl::Now() + absl::Minutes(2);
    int64_t since = -1;
    absl::Status status;
    while (absl::Now() < deadline && (status = Step()).ok()) {
      const GroupView view = group->view();
      const bool all = view.holders == workers && view.size() == workers && !group->learning();
      since = !all ? -1 : since < 0 ? group->committed() : since;
      if (all && group->committed() > since + 20) return testing::AssertionSuccess();
    }
    return testing::AssertionFailure()
           << status << "; " << group->view() << (group->learning() ? ", learning" : ", a holder")
           << " at step " << group->step() << ", parted " << group->partings() << " times";
  }
};

std::vector<float> Expected(int64_t steps) {
  std::vector<float> weights(kWeights, 0.0f);
  for (int64_t step = 1; step <= steps; ++step) {
    for (int i = 0; i < kWeights; ++i) {
      float sum = 0;
      for (int m = 0; m < kMicrobatches; ++m) sum += GradientAt(step, m, i);
      weights[i] = weights[i] * 0.5f + sum;
    }
  }
  return weights;
}

volatile sig_atomic_t told_to_stop = 0;

// Worker processes of one test; whoever still runs at its end is killed.
class Processes {
 public:
  ~Processes() {
    for (pid_t pid : pids_) {
      kill(pid, SIGKILL);
      waitpid(pid, nullptr, 0);
    }
  }
  // A worker that waits for an address to join, trains until SIGTERM, and exits 0 if its weights
  // are right. Started before the test has threads or sockets of its own to hand down.
  // With a `user`, it sees nothing of the others but their sockets, as on another machine.
  // If `denied`, it may share memory, but not open another's.
  pid_t Start(Plane plane, uid_t user = 0, bool denied = false) {
    int ends[2];
    if (pipe(ends) != 0) return -1;
    const pid_t pid = fork();
    if (pid == 0) {
      char address[64] = {};
      close(ends[1]);
      memory_is_denied = denied;
      if (user != 0 && setuid(user) != 0) _exit(6);
      if (read(ends[0], address, sizeof(address) - 1) <= 0) _exit(1);
      _exit(Main(address, plane, user != 0));
    }
    close(ends[0]);
    pids_.push_back(pid);
    pipes_.push_back(ends[1]);
    return pid;
  }
  void Release(const std::string& address) {
    for (int end : pipes_) {
      EXPECT_EQ(write(end, address.data(), address.size()), static_cast<ssize_t>(address.size()));
      close(end);
    }
    pipes_.clear();
  }
  // -1 while it runs.
  int Poll(pid_t pid) {
    int status = -1;
    if (waitpid(pid, &status, WNOHANG) != pid) return -1;
    std::erase(pids_, pid);
    return status;
  }

 private:
  static int Main(const std::string& address, Plane plane, bool far) {
    signal(SIGTERM, [](int) { told_to_stop = 1; });
    Worker worker;
    GroupOptions options = OptionsOf(plane);
    options.join = {address};
    if (far) options.network = GroupNetwork::kWan;
    if (!worker.Open(std::move(options)).ok()) return 2;
    for (bool leaving = false;;) {
      if (told_to_stop && !leaving) worker.group->Leave();
      leaving = leaving || told_to_stop;
      const absl::Status status = worker.Step();
      if (absl::IsCancelled(status)) break;
      if (!status.ok()) return 3;
    }
    if (worker.group->learning()) return 5;
    return worker.weights == Expected(worker.group->step()) ? 0 : 4;
  }
  std::vector<pid_t> pids_;
  std::vector<int> pipes_;
};

class ElasticGroupTest : public testing::TestWithParam<Plane> {};

// Three more come, one is killed in the midst of it, and everyone ends with the weights of a
// single undisturbed worker.
TEST_P(ElasticGroupTest, NoStepIsLostOrCountedTwice) {
  Processes processes;
  const pid_t doomed = processes.Start(GetParam());
  const pid_t b = processes.Start(GetParam());
  const pid_t c = processes.Start(GetParam());
  Worker founder;
  ASSERT_TRUE(founder.Open(OptionsOf(GetParam())).ok());
  processes.Release(founder.group->address());
  // One dies when all hold the state; then the others are level again.
  ASSERT_TRUE(founder.TrainsWith(4));
  kill(doomed, SIGKILL);
  ASSERT_TRUE(founder.TrainsWith(3));
  EXPECT_EQ(founder.weights, Expected(founder.group->step()));
  for (const pid_t pid : {b, c}) {
    kill(pid, SIGTERM);
    // It may be waiting for this member's part of a step.
    int status = 0;
    while ((status = processes.Poll(pid)) < 0) ASSERT_TRUE(founder.Step().ok());
    EXPECT_EQ(status, 0);
  }
}

// What else a loop of one's own may call: a broadcast brings one member's bytes to all, a barrier
// lets nobody through before the last has come, and changes of the view are told.
TEST_P(ElasticGroupTest, BroadcastsMeetsAndTellsOfChanges) {
  constexpr size_t kBytes = (1 << 20) + 3;
  std::atomic<int> came = 0;
  const auto take_part = [&](GroupOptions options, std::promise<std::string>* address) {
    std::vector<int> sizes;
    const GroupOptions plane = OptionsOf(GetParam());
    options.secret = plane.secret;
    options.shared_memory = plane.shared_memory;
    options.early_apply = plane.early_apply;
    options.microbatches = 2;
    options.on_change = [&](const GroupView& view) { sizes.push_back(view.size()); };
    const auto group = ElasticGroup::Open(std::move(options));
    ASSERT_TRUE(group.ok()) << group.status();
    if (address != nullptr) address->set_value((*group)->address());
    float tiny = 0;
    absl::StatusOr<StepPlan> plan;
    while ((plan = (*group)->BeginStep()).ok() && (*group)->view().holders < 2) {
      if ((*group)->AllreduceLast({&tiny, 1}).ok()) (*group)->Commit().IgnoreError();
    }
    ASSERT_TRUE(plan.ok()) << plan.status();
    std::vector<char> bytes(kBytes, static_cast<char>('a' + plan->rank));
    EXPECT_EQ((*group)->Broadcast(absl::MakeSpan(bytes), 1), absl::OkStatus());
    EXPECT_EQ(bytes, std::vector<char>(kBytes, 'b'));
    for (const int nobody : {-1, 2}) {
      EXPECT_TRUE(
          absl::IsInvalidArgument((*group)->Broadcast(absl::MakeSpan(bytes).first(1), nobody)));
    }
    ++came;
    EXPECT_EQ((*group)->Barrier(), absl::OkStatus());
    EXPECT_EQ(came, 2);
    ASSERT_FALSE(sizes.empty());
    EXPECT_EQ(sizes.back(), 2);
    // Nobody leaves before all have looked. The first to leave may interrupt the last.
    (*group)->Barrier().IgnoreError();
  };
  std::promise<std::string> address;
  std::thread founder([&] { take_part({}, &address); });
  take_part({.join = {address.get_future().get()}}, nullptr);
  founder.join();
}

// Deaths at any moment of a step, one after the other: whatever the dying had voted for, those who
// are left apply it all, or none of them does. Applied early, a step may part some from the state:
// they copy it before the next is struck.
TEST_P(ElasticGroupTest, WhateverTheDyingHadVotedForAllAgree) {
  Processes processes;
  std::vector<pid_t> doomed(8);
  std::vector<pid_t> heirs(3);
  for (pid_t& pid : doomed) pid = processes.Start(GetParam());
  for (pid_t& pid : heirs) pid = processes.Start(GetParam());
  Worker founder;
  ASSERT_TRUE(founder.Open(OptionsOf(GetParam())).ok());
  processes.Release(founder.group->address());
  ASSERT_TRUE(founder.TrainsWith(12));
  const bool early = OptionsOf(GetParam()).early_apply;
  std::atomic<int64_t> step = founder.group->step();
  std::atomic<bool> all_hold = true;
  std::atomic<bool> failed = false;
  std::atomic<bool> over = false;
  std::thread killer([&] {
    for (const pid_t pid : doomed) {
      const int64_t then = step;
      while ((step < then + 10 || !all_hold) && !failed) std::this_thread::yield();
      kill(pid, SIGKILL);
    }
    over = true;
  });
  absl::Status status;
  bool forgot = false;  // What it knew, and copied the state from others.
  while (!over && status.ok()) {
    status = founder.Step();
    failed = !status.ok();
    const GroupView view = founder.group->view();
    forgot = forgot || founder.group->learning();
    all_hold = !early || (view.holders == view.size() && !founder.group->learning());
    step = founder.group->step();
  }
  killer.join();
  ASSERT_TRUE(status.ok()) << status;
  ASSERT_TRUE(founder.TrainsWith(4));
  // Applied early, a step may part those who have it from those who lack it.
  EXPECT_TRUE(!forgot || early);
  EXPECT_EQ(founder.weights, Expected(founder.group->step()));
  for (const pid_t heir : heirs) {
    kill(heir, SIGTERM);
    int end = 0;
    while ((end = processes.Poll(heir)) < 0) ASSERT_TRUE(founder.Step().ok());
    EXPECT_EQ(end, 0);
  }
}

std::string NameOf(const testing::TestParamInfo<Plane>& info) {
  const char* const names[] = {"SharedMemory", "Tcp", "TcpEarly", "TlsEarly"};
  return names[static_cast<int>(info.param)];
}
INSTANTIATE_TEST_SUITE_P(Planes, ElasticGroupTest,
                         testing::Values(Plane::kSharedMemory, Plane::kTcp, Plane::kTcpEarly,
                                         Plane::kTlsEarly),
                         NameOf);

// A newcomer on the same machine is not allowed what the others are: it comes again without memory
// to share, and all train on over TCP. Nobody waits for ever for someone who lives.
TEST(ElasticGroupTest, WhoMayNotOpenTheMemoryOfOthersGoesWithout) {
  Processes processes;
  const pid_t denied = processes.Start(Plane::kSharedMemory, /*user=*/0, /*denied=*/true);
  Worker founder;
  ASSERT_TRUE(founder.Open({.quorum = Quorum::kAny}).ok());
  processes.Release(founder.group->address());
  while (founder.group->view().holders < 2) ASSERT_TRUE(founder.Step().ok());
  kill(denied, SIGTERM);
  int end = 0;
  while ((end = processes.Poll(denied)) < 0) ASSERT_TRUE(founder.Step().ok());
  EXPECT_EQ(end, 0);
}

// The other way round: one that is allowed everything joins one that is not. It cannot know, so it
// is told.
TEST(ElasticGroupTest, WhoseMemoryMayNotBeOpenedComesWithout) {
  Processes processes;
  const pid_t newcomer = processes.Start(Plane::kSharedMemory);
  memory_is_denied = true;
  Worker founder;
  ASSERT_TRUE(founder.Open({.quorum = Quorum::kAny}).ok());
  processes.Release(founder.group->address());
  EXPECT_TRUE(founder.TrainsWith(2));
  memory_is_denied = false;
  kill(newcomer, SIGTERM);
  int end = 0;
  while ((end = processes.Poll(newcomer)) < 0) ASSERT_TRUE(founder.Step().ok());
  EXPECT_EQ(end, 0);
}

// Sixteen bits on the wire and canonical sums take no votes of their own: counts, which go last and
// as they are, carry them. Over TCP that shows by the step being known only with the next.
TEST(ElasticGroupTest, VotesRideWhateverIsSummed) {
  for (const Plane plane : {Plane::kSharedMemory, Plane::kTcpEarly}) {
    Worker worker;
    GroupOptions options = OptionsOf(plane);
    options.wire = WireFormat::kBf16;
    ASSERT_TRUE(worker.Open(options).ok());
    for (int64_t step = 1; step <= 3; ++step) {
      const absl::StatusOr<StepPlan> plan = worker.group->BeginStep();
      ASSERT_TRUE(plan.ok()) << plan.status();
      CanonicalSum sum(kMicrobatches, 0);
      for (int i = 0; i < kMicrobatches; ++i) sum.Add(std::vector<float>(kWeights, 1.0f));
      ASSERT_TRUE(worker.group->AllreduceCanonical(sum, absl::MakeSpan(worker.gradients)).ok());
      float count = 257;  // No number of eight bits.
      ASSERT_TRUE(worker.group->AllreduceLastExactly({&count, 1}).ok());
      EXPECT_EQ(count, 257);
      ASSERT_TRUE(worker.group->Commit().value());
      EXPECT_EQ(worker.group->step(), step);
      EXPECT_EQ(worker.group->committed(), plane == Plane::kTcpEarly ? step - 1 : step);
    }
  }
}

TEST(ElasticGroupTest, CSaysWhatItDoesNotKnow) {
  rubato_group_options options = {};
  options.microbatches = 1;
  options.wire = 7;
  EXPECT_EQ(rubato_group_open(&options), nullptr);
  EXPECT_TRUE(absl::StrContains(rubato_group_error(nullptr), "wire format"));
  options.wire = RUBATO_BF16;
  options.network = -1;
  EXPECT_EQ(rubato_group_open(&options), nullptr);
  EXPECT_TRUE(absl::StrContains(rubato_group_error(nullptr), "network"));
  options.network = RUBATO_LAN;
  rubato_group* const group = rubato_group_open(&options);
  ASSERT_NE(group, nullptr) << rubato_group_error(nullptr);
  EXPECT_EQ(rubato_group_encrypted(group), 0);
  rubato_group_close(group);
  options.secret = "between us";
  for (const int no_encryption : {0, 1}) {
    options.no_encryption = no_encryption;
    rubato_group* const secret = rubato_group_open(&options);
    ASSERT_NE(secret, nullptr) << rubato_group_error(nullptr);
    EXPECT_EQ(rubato_group_encrypted(secret), no_encryption == 0);
    rubato_group_close(secret);
  }
}

// Three have a step's sum, one goes without a word. Another, who voted, is impatient and asks again
// and again whether the step counts: asking changes nothing.
TEST(ElasticGroupTest, AskedAgainADecidedStepStillCounts) {
  const auto open = [&](Worker& worker, std::vector<std::string> join) {
    ASSERT_TRUE(
        worker.Open({.join = std::move(join), .verdict_timeout = absl::ZeroDuration()}).ok());
  };
  // How often the answer was that nobody knows.
  const auto commit = [](Worker& worker) {
    for (int asked = 0;; ++asked) {
      const absl::StatusOr<bool> done = worker.group->Commit();
      if (absl::IsDeadlineExceeded(done.status())) continue;
      EXPECT_TRUE(done.ok() && *done) << done.status();
      return asked;
    }
  };
  // Trains until the three have the state, and stops with a sum that is not committed.
  const auto contribute = [](Worker& worker) {
    while (true) {
      const absl::StatusOr<StepPlan> plan = worker.group->BeginStep(absl::Seconds(60));
      ASSERT_TRUE(plan.ok()) << plan.status();
      worker.Compute(*plan);
      const bool summed = worker.group->AllreduceLast(absl::MakeSpan(worker.gradients)).ok();
      if (summed && worker.group->view().holders == 3) return;
      while (absl::IsDeadlineExceeded(worker.group->Commit().status())) {
      }
    }
  };
  Worker a, b, c;
  ASSERT_NO_FATAL_FAILURE(open(a, {}));
  std::thread second([&] { open(b, {a.group->address()}), contribute(b); });
  std::thread third([&] { open(c, {a.group->address()}), contribute(c); });
  contribute(a);
  second.join();
  third.join();
  const int64_t decided = a.group->step() + 1;
  // The votes are in. One hears that the view has ended before it looks at them.
  b.group.reset();
  commit(c);
  while (c.group->view().size() > 2) ASSERT_TRUE(c.group->BeginStep(absl::Seconds(60)).ok());
  EXPECT_GT(commit(a), 0) << "was never told to wait: nothing is tested";
  EXPECT_EQ(a.group->step(), decided);
  EXPECT_FALSE(a.group->learning());
  EXPECT_FALSE(c.group->learning());
  EXPECT_EQ(a.weights, Expected(decided));
}

// The connections that processes have with each other, as the kernel knows them: the inodes of both
// ends, which no later connection has again.
std::set<std::pair<std::string, std::string>> Connections(const std::vector<pid_t>& pids) {
  std::set<std::string> ours;
  for (const pid_t pid : pids) {
    std::error_code gone;
    for (const auto& fd :
         std::filesystem::directory_iterator(absl::StrCat("/proc/", pid, "/fd"), gone)) {
      const std::string target = std::filesystem::read_symlink(fd, gone).string();
      if (target.starts_with("socket:[")) ours.insert(target.substr(8, target.size() - 9));
    }
  }
  std::map<std::pair<std::string, std::string>, std::string> inode_of;  // By both addresses.
  std::ifstream table("/proc/net/tcp");
  std::string line;
  std::getline(table, line);
  while (std::getline(table, line)) {
    const std::vector<std::string> cells = absl::StrSplit(line, ' ', absl::SkipEmpty());
    constexpr int kHere = 1, kThere = 2, kState = 3, kInode = 9;
    if (cells.size() <= kInode || cells[kState] != "01" || !ours.contains(cells[kInode])) continue;
    inode_of[{cells[kHere], cells[kThere]}] = cells[kInode];
  }
  std::set<std::pair<std::string, std::string>> connections;
  for (const auto& [ends, inode] : inode_of) {
    const auto other = inode_of.find({ends.second, ends.first});
    if (other != inode_of.end()) connections.insert(std::minmax(inode, other->second));
  }
  return connections;
}

// A change of view leaves the connections between those who stay as they are.
TEST(ElasticGroupTest, OnlyEdgesThatChangedAreMadeAnew) {
  Processes processes;
  const pid_t doomed = processes.Start(Plane::kTcp);
  const std::vector<pid_t> staying = {processes.Start(Plane::kTcp), processes.Start(Plane::kTcp),
                                      getpid()};
  Worker founder;
  ASSERT_TRUE(founder.Open({.quorum = Quorum::kAny, .shared_memory = false}).ok());
  processes.Release(founder.group->address());
  const auto train = [&](int steps) {
    for (const int64_t then = founder.group->step(); founder.group->step() < then + steps;) {
      ASSERT_TRUE(founder.Step().ok());
    }
  };
  while (founder.group->view().holders < 4) ASSERT_TRUE(founder.Step().ok());
  // Those that are there twice are no newcomer's, who closes them when it has the state.
  train(50);
  std::set<std::pair<std::string, std::string>> edges = Connections(staying);
  train(50);
  const auto again = Connections(staying);
  std::erase_if(edges, [&](const auto& edge) { return !again.contains(edge); });
  ASSERT_FALSE(edges.empty());
  kill(doomed, SIGKILL);
  while (founder.group->view().size() > 3) ASSERT_TRUE(founder.Step().ok());
  train(50);
  const auto after = Connections(staying);
  for (const auto& edge : edges) EXPECT_TRUE(after.contains(edge)) << edge.first;
}

// Between machines there are no processes to watch. Three of four die at once; whoever of them no
// connection of the survivor shows is known by the port it no longer has, not by its silence.
class DeathsElsewhereTest : public testing::TestWithParam<Plane> {};

TEST_P(DeathsElsewhereTest, AreSeenByTheirPorts) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can be several users";
  Processes processes;
  std::vector<pid_t> others;
  for (uid_t user : {20001, 20002, 20003}) others.push_back(processes.Start(GetParam(), user));
  Worker founder;
  // Where leases are long: silence would take ten seconds, an answer four.
  GroupOptions options = OptionsOf(GetParam());
  options.network = GroupNetwork::kWan;
  ASSERT_TRUE(founder.Open(std::move(options)).ok());
  processes.Release(founder.group->address());
  while (founder.group->view().holders < 4) ASSERT_TRUE(founder.Step().ok());
  if (OptionsOf(GetParam()).early_apply) others.pop_back();  // With the oldest, a majority.
  for (const pid_t pid : others) kill(pid, SIGKILL);
  while (founder.group->view().size() > 4 - static_cast<int>(others.size())) {
    ASSERT_TRUE(founder.Step().ok());
    const ChangeTimes change = founder.group->last_change();
    EXPECT_LT(change.agreed - change.noticed, absl::Milliseconds(3900));
    for (const Loss& loss : change.losses) EXPECT_NE(loss.reason, LossReason::kLease);
  }
  EXPECT_EQ(founder.weights, Expected(founder.group->step()));
}
INSTANTIATE_TEST_SUITE_P(Planes, DeathsElsewhereTest,
                         testing::Values(Plane::kTcp, Plane::kTlsEarly), NameOf);

// Whoever joins with another model or another division of the work is told what is different, and
// is not let in.
TEST(ElasticGroupOptionsTest, WhoTrainsSomethingElseIsTold) {
  Worker founder;
  ASSERT_TRUE(founder.Open({.contract = "model: resnet\nseed: 1\n"}).ok());
  ASSERT_TRUE(founder.Step().ok());
  const std::string address = founder.group->address();
  const auto refusal = [&](GroupOptions options) {
    options.join = {address};
    auto stranger = ElasticGroup::Open(std::move(options));
    return (*stranger)->BeginStep(absl::Seconds(30)).status();
  };
  std::vector<char> state(kWeights * 4);
  GroupOptions same = {.contract = "model: transformer\nseed: 1\n"};
  same.microbatches = kMicrobatches;
  same.state = {absl::MakeSpan(state)};
  EXPECT_EQ(refusal(same), absl::FailedPreconditionError(
                               absl::StrCat("the group at ", address,
                                            " trains something else: "
                                            "model is transformer here and resnet there")));
  GroupOptions looser = same;  // Both halves of a cut would train on.
  looser.contract = "model: resnet\nseed: 1\n";
  looser.quorum = Quorum::kAny;
  EXPECT_EQ(refusal(looser).message(),
            absl::StrCat("the group at ", address,
                         " trains something else: quorum is any here and majority there"));
  GroupOptions smaller = {.name = "mine", .microbatches = 3, .state = {absl::MakeSpan(state)}};
  EXPECT_EQ(refusal(smaller).message(),
            absl::StrCat("the group at ", address,
                         " trains something else: microbatches is 3 here and 8 there; model is not "
                         "set here and resnet there; name is mine here and rubato there; and 1 "
                         "more"));
  // Nor is anyone answered who does not know the secret, though it is not to be read either.
  GroupOptions stranger = {.join = {address}, .secret = "guess", .encrypt = false};
  auto group = ElasticGroup::Open(std::move(stranger));
  const absl::Status waited = (*group)->BeginStep(absl::Milliseconds(400)).status();
  EXPECT_EQ(waited, absl::DeadlineExceededError(absl::StrCat(
                        "no view to train in after 400ms; the member at ", address,
                        " hangs up without a word; it may be short of files, or know another "
                        "secret")));
  EXPECT_EQ(founder.group->view().size(), 1);
}

TEST(ElasticGroupOptionsTest, BadAddressesAreNamed) {
  const auto group = ElasticGroup::Open({.join = {"nowhere"}});
  EXPECT_EQ(group.status().message(), "\"nowhere\" is not HOST:PORT");
}

}  // namespace
}  // namespace rubato
