// Groups whose views a master issues: the real members and the real ViewAuthority, with a queue in
// place of the master's connections.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "rubato/adapters/ring/elastic_group.h"
#include "rubato/base/mutex.h"
#include "rubato/base/rng.h"
#include "rubato/membership/view_authority.h"
#include "rubato/membership/wire.h"
#include "rubato/ring/canonical.h"
#include "rubato/ring/straggler.h"

namespace rubato {
namespace {

constexpr int kMicrobatches = 8;
constexpr int kWeights = 500;

float GradientAt(int64_t step, int microbatch, int element) {
  return static_cast<float>(Mix(Mix(step, microbatch), element) % 7);
}

// One whose sums depend on their order.
float RoughGradientAt(int64_t step, int microbatch, int element) {
  return static_cast<float>(Mix(Mix(step, microbatch), element) % 1000) * 0.0013f - 0.6f;
}

absl::Time Now() {
  return absl::UnixEpoch() + absl::FromChrono(std::chrono::steady_clock::now().time_since_epoch());
}

// A master's thread: reports in, orders out, views to a journal. What passes is bytes.
class Master {
 public:
  Master() : authority_(std::make_unique<ViewAuthority>(AuthorityOptions(), GroupView(), Now())) {
    thread_ = std::thread([this] { Run(); });
  }
  ~Master() {
    {
      MutexLock lock(mu_);
      stopping_ = true;
      changed_.NotifyAll();
    }
    thread_.join();
  }
  void Report(const ViewReport& report) {
    MutexLock lock(mu_);
    reports_.push_back(EncodeReport(report));
    changed_.NotifyAll();
  }
  void Serve(ElasticGroup* group) {
    MutexLock lock(mu_);
    groups_.push_back(group);
  }
  // The first and the third are of one machine, where a job has two.
  std::string NextMachine() { return absl::StrCat(came_++ % 2); }
  void Forget(ElasticGroup* group) {
    MutexLock lock(mu_);
    std::erase(groups_, group);
  }
  // Loses everything but the journal.
  void Restart() {
    MutexLock lock(mu_);
    authority_ = std::make_unique<ViewAuthority>(AuthorityOptions(), journal_.back(), Now());
  }
  GroupView view() {
    MutexLock lock(mu_);
    return journal_.empty() ? GroupView() : journal_.back();
  }

 private:
  void Run() {
    MutexLock lock(mu_);
    while (!stopping_) {
      for (const std::string& bytes : std::exchange(reports_, {})) {
        const absl::StatusOr<ViewReport> report = DecodeReport(bytes);
        ASSERT_TRUE(report.ok()) << report.status();
        EXPECT_TRUE(authority_->Receive(*report, Now()).ok());
      }
      authority_->Tick(Now());
      for (const auto& decision : authority_->TakeDecisions()) journal_.push_back(decision.view);
      // To all: a member knows what is meant for it by the view, and an order is for one address.
      for (const ViewAuthority::Send& send : authority_->TakeOrders()) {
        const absl::StatusOr<ViewOrder> order = DecodeOrder(EncodeOrder(send.order));
        ASSERT_TRUE(order.ok());
        const std::string place = send.to.address.substr(0, send.to.address.find(';'));
        for (ElasticGroup* group : groups_) {
          if (group->address() == place) group->Obey(*order);
        }
      }
      if (reports_.empty()) changed_.WaitFor(mu_, absl::Milliseconds(5));
    }
  }

  std::atomic<int> came_{0};
  Mutex mu_;
  CondVar changed_;
  std::unique_ptr<ViewAuthority> authority_ ABSL_GUARDED_BY(mu_);
  std::vector<GroupView> journal_ ABSL_GUARDED_BY(mu_);
  std::vector<std::string> reports_ ABSL_GUARDED_BY(mu_);
  std::vector<ElasticGroup*> groups_ ABSL_GUARDED_BY(mu_);
  bool stopping_ ABSL_GUARDED_BY(mu_) = false;
  std::thread thread_;
};

// What members of one job share: memory; connections; or these, with steps applied early, as jobs
// between machines do; or memory with those who are of the same of two machines, and connections.
enum class Way : uint8_t { kSharedMemory, kTcp, kTcpEarly, kMachines, kMachinesEarly };

struct Habits {
  Way way = Way::kSharedMemory;
  bool buckets = false;    // Reduced while the rest is computed.
  bool canonical = false;  // Deterministic.
  absl::Duration pace;     // Of one microbatch.
};

// A worker as a thread: trains until told to leave; its weights can be read afterwards.
class Trainee {
 public:
  Trainee(Master& master, Habits habits)
      : master_(master), habits_(habits), weights_(kWeights, 0.0f) {
    gradients_.resize(kWeights);
    GroupOptions options;
    options.report = [&master](const ViewReport& report) { master.Report(report); };
    const bool machines = habits.way == Way::kMachines || habits.way == Way::kMachinesEarly;
    options.shared_memory = machines || habits.way == Way::kSharedMemory;
    options.early_apply = habits.way == Way::kTcpEarly || habits.way == Way::kMachinesEarly;
    if (machines) options.machine = master.NextMachine();
    options.microbatches = kMicrobatches;
    options.state = {absl::MakeSpan(reinterpret_cast<char*>(weights_.data()), kWeights * 4)};
    options.apply = [this] {
      for (int i = 0; i < kWeights; ++i) weights_[i] = weights_[i] * 0.5f + gradients_[i];
    };
    auto group = ElasticGroup::Open(std::move(options));
    EXPECT_TRUE(group.ok());
    group_ = *std::move(group);
    master_.Serve(group_.get());
    thread_ = std::thread([this] { Train(); });
  }
  ~Trainee() {
    Leave();
    thread_.join();
    master_.Forget(group_.get());
  }
  void Leave() { leaving_ = true; }
  void Join() {
    if (thread_.joinable()) thread_.join();
    thread_ = std::thread([] {});
  }
  int64_t step() const { return step_; }
  int holders() const { return holders_; }
  int share() const { return share_; }
  bool lagging() const { return lagging_; }
  const std::vector<float>& weights() const { return weights_; }

 private:
  void Train() {
    bool told = false;
    while (true) {
      if (leaving_ && !std::exchange(told, true)) group_->Leave();
      const absl::StatusOr<StepPlan> plan = group_->BeginStep(absl::Seconds(30));
      if (!plan.ok()) {
        EXPECT_TRUE(absl::IsCancelled(plan.status())) << plan.status();
        return;
      }
      share_ = plan->quota.size();
      if (!Reduce(*plan).ok()) continue;
      const absl::Status committed = group_->Commit().status();
      EXPECT_TRUE(committed.ok()) << committed;
      if (!committed.ok()) return;
      if (share_ > 0 && watch_.Observe(group_->pace())) lagging_ = watch_.lagging();
      holders_ = group_->view().holders;
      if (!group_->learning()) step_ = group_->step();
    }
  }

  absl::Status Reduce(const StepPlan& plan) {
    CanonicalSum canonical(kMicrobatches, plan.quota.begin);
    std::vector<float> gradient(kWeights);
    std::fill(gradients_.begin(), gradients_.end(), 0.0f);
    for (int m = plan.quota.begin; m < plan.quota.end; ++m) {
      std::this_thread::sleep_for(absl::ToChronoMicroseconds(habits_.pace));
      for (int i = 0; i < kWeights; ++i) {
        gradient[i] =
            habits_.canonical ? RoughGradientAt(plan.step, m, i) : GradientAt(plan.step, m, i);
        gradients_[i] += gradient[i];
      }
      if (habits_.canonical) canonical.Add(gradient);
    }
    const absl::Span<float> all = absl::MakeSpan(gradients_);
    if (habits_.canonical) {
      const absl::Status summed = group_->AllreduceCanonical(canonical, all);
      return summed.ok() ? group_->AllreduceLastExactly({&count_, 1}) : summed;
    }
    if (!habits_.buckets) return group_->AllreduceLast(all);
    int begin = 0;
    for (; begin + 200 < kWeights; begin += 200) {
      EXPECT_EQ(group_->StartAllreduce(all.subspan(begin, 200)), absl::OkStatus());
    }
    return group_->AllreduceLast(all.subspan(begin));
  }

  Master& master_;
  const Habits habits_;
  std::vector<float> weights_;
  std::vector<float> gradients_;
  float count_ = 1;  // What a loop counts with a step.
  std::unique_ptr<ElasticGroup> group_;
  std::atomic<bool> leaving_{false};
  std::atomic<int64_t> step_{0};
  std::atomic<int> holders_{0};
  std::atomic<int> share_{0};
  StragglerWatch watch_;
  std::atomic<bool> lagging_{false};
  std::thread thread_;
};

template <typename F>
bool Eventually(F holds) {
  for (int i = 0; i < 30000; ++i) {
    if (holds()) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return false;
}

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

class IssuedGroupTest : public testing::TestWithParam<Way> {};

// Two found the group, a third comes, the master forgets all but its journal, one goes.
TEST_P(IssuedGroupTest, TheMasterComesBackAndNothingIsLost) {
  Master master;
  const Habits habits{.way = GetParam(), .buckets = true};
  Trainee a(master, habits);
  Trainee b(master, habits);
  ASSERT_TRUE(Eventually([&] { return a.holders() == 2 && b.holders() == 2; }));
  master.Restart();
  Trainee c(master, habits);
  ASSERT_TRUE(Eventually([&] { return c.holders() == 3 && a.holders() == 3; }));
  master.Restart();
  const int64_t then = a.step();
  b.Leave();
  ASSERT_TRUE(Eventually([&] { return a.holders() == 2 && a.step() > then + 20; }));
  b.Join();
  a.Leave();
  a.Join();
  c.Leave();
  c.Join();
  EXPECT_GT(c.step(), then);
  for (const Trainee* trainee : {&a, &b, &c}) {
    EXPECT_EQ(trainee->weights(), Expected(trainee->step()));
  }
  EXPECT_EQ(master.view().size(), 0);
}

std::vector<float> ExpectedCanonical(int64_t steps) {
  std::vector<float> weights(kWeights, 0.0f), gradient(kWeights);
  for (int64_t step = 1; step <= steps; ++step) {
    CanonicalSum sum(kMicrobatches, 0);
    for (int m = 0; m < kMicrobatches; ++m) {
      for (int i = 0; i < kWeights; ++i) gradient[i] = RoughGradientAt(step, m, i);
      sum.Add(gradient);
    }
    for (int i = 0; i < kWeights; ++i) weights[i] = weights[i] * 0.5f + sum.sum(0)[i];
  }
  return weights;
}

// One, then two, then three workers, then two: the bits are those of one worker alone.
TEST_P(IssuedGroupTest, InDeterministicModeTheNumberOfWorkersCannotBeSeen) {
  Master master;
  const Habits habits{.way = GetParam(), .canonical = true};
  Trainee a(master, habits);
  ASSERT_TRUE(Eventually([&] { return a.step() > 5; }));
  Trainee b(master, habits);
  ASSERT_TRUE(Eventually([&] { return b.holders() == 2; }));
  Trainee c(master, habits);
  ASSERT_TRUE(Eventually([&] { return c.holders() == 3 && c.step() > 0; }));
  a.Leave();
  a.Join();
  const int64_t then = c.step();
  ASSERT_TRUE(Eventually([&] { return c.step() > then + 5; }));
  for (Trainee* trainee : {&b, &c}) {
    trainee->Leave();
    trainee->Join();
  }
  for (const Trainee* trainee : {&a, &b, &c}) {
    EXPECT_EQ(trainee->weights(), ExpectedCanonical(trainee->step()));
  }
}

// A worker that needs four times as long for a microbatch is dealt fewer of them, and named.
TEST_P(IssuedGroupTest, TheSlowGetLess) {
  Master master;
  Trainee fast(master, {.way = GetParam(), .pace = absl::Milliseconds(2)});
  Trainee slow(master, {.way = GetParam(), .pace = absl::Milliseconds(8)});
  EXPECT_TRUE(Eventually([&] { return slow.share() >= 1 && fast.share() >= slow.share() + 3; }));
  EXPECT_TRUE(Eventually([&] { return slow.lagging(); }));
}

std::string NameOf(Way way) {
  const char* const names[] = {"SharedMemory", "Tcp", "TcpEarly", "Machines", "MachinesEarly"};
  return names[static_cast<int>(way)];
}
INSTANTIATE_TEST_SUITE_P(Planes, IssuedGroupTest,
                         testing::Values(Way::kSharedMemory, Way::kTcp, Way::kTcpEarly,
                                         Way::kMachines, Way::kMachinesEarly),
                         [](const auto& info) { return NameOf(info.param); });

}  // namespace
}  // namespace rubato
