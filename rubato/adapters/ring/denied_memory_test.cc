// Members of one machine, of whom one may not open the memory of the others: it alone goes without.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <future>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "rubato/adapters/ring/denied_testing.h"
#include "rubato/adapters/ring/elastic_group.h"
#include "rubato/adapters/ring/group_settings.h"

namespace rubato {
namespace {

constexpr int kMembers = 4;
using Machines = std::vector<std::vector<int>>;

// Trains until all hold the state and have taken a few steps so; the machines of that view.
Machines TrainTogether(int number, bool is_denied, std::promise<std::string>& founder,
                       std::shared_future<std::string> address, std::atomic<int>& holders,
                       std::atomic<int>& through) {
  while (holders < number) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  memory_is_denied = is_denied;
  float steps = 0, sum = 0;
  GroupOptions options = {.quorum = Quorum::kAny, .microbatches = kMembers};
  if (number > 0) options.join = {address.get()};
  options.state = {absl::MakeSpan(reinterpret_cast<char*>(&steps), sizeof(steps))};
  options.apply = [&] { steps += sum / kMembers; };
  int without = 0;  // How often it came again as one that shares no memory.
  options.on_parting = [&](const Parting& parting) {
    without += absl::StrContains(parting.why, "comes again without") ? 1 : 0;
  };
  const auto group = ElasticGroup::Open(std::move(options)).value();
  if (number == 0) founder.set_value(group->address());
  Machines machines;
  bool counted = false;
  for (int64_t since = -1; through < kMembers;) {
    const absl::StatusOr<StepPlan> plan = group->BeginStep(absl::Seconds(30));
    EXPECT_TRUE(plan.ok()) << plan.status();
    if (!plan.ok()) break;
    sum = static_cast<float>(plan->quota.size());
    if (!group->AllreduceLast({&sum, 1}).ok() || !group->Commit().ok()) continue;
    if (number == 0) holders = group->view().holders;
    const bool all = group->view().holders == kMembers && !group->learning();
    since = !all ? -1 : since < 0 ? group->step() : since;
    if (!all || group->step() < since + 20 || std::exchange(counted, true)) continue;
    machines = MachinesOf(group->view());
    EXPECT_EQ(steps, static_cast<float>(group->step()));
    ++through;
  }
  EXPECT_LE(without, 1) << "member " << number;
  return machines;
}

// How many members share memory with others, when member `number` may not open any. They come one
// after the other.
Machines MachinesIfDenied(int number) {
  std::promise<std::string> founder;
  const std::shared_future<std::string> address = founder.get_future().share();
  std::atomic<int> holders = 0, through = 0;
  std::vector<Machines> machines(kMembers);
  std::vector<std::thread> threads;
  for (int i = 0; i < kMembers; ++i) {
    threads.emplace_back([&, i] {
      machines[i] = TrainTogether(i, i == number, founder, address, holders, through);
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const Machines& seen : machines) EXPECT_EQ(seen, machines[0]);
  return machines[0];
}

TEST(DeniedMemoryTest, OneOfFourIsAMachineOfItsOwn) {
  const Machines machines = MachinesIfDenied(3);
  ASSERT_EQ(machines.size(), 2);
  EXPECT_EQ(machines[0].size() + machines[1].size(), 4);
  EXPECT_EQ(std::max(machines[0].size(), machines[1].size()), 3);
}

// The oldest stays as it is: the others come again without.
TEST(DeniedMemoryTest, WhoMayNotOpenAnyAndIsTheOldestStays) {
  EXPECT_EQ(MachinesIfDenied(0).size(), 4);
}

}  // namespace
}  // namespace rubato
