#include "bench/ring/fleet.h"

#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <numeric>

#include "bench/ring/bench_master.h"
#include "rubato/adapters/ring/elastic_group.h"

namespace rubato {
namespace {

constexpr int64_t kElements = 64 << 10;

}  // namespace

int64_t NowNanos() {
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec * 1'000'000'000LL + now.tv_nsec;
}

double Median(std::vector<double> values) {
  if (values.empty()) return 0;
  std::nth_element(values.begin(), values.begin() + values.size() / 2, values.end());
  return values[values.size() / 2];
}

SharedBoard* MakeBoard() {
  void* memory =
      mmap(nullptr, sizeof(SharedBoard), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  return static_cast<SharedBoard*>(memory);
}

void FreeBoard(SharedBoard* board) { munmap(board, sizeof(SharedBoard)); }

pid_t StartChild(const std::function<int()>& main) {
  std::fflush(nullptr);
  const pid_t pid = fork();
  if (pid == 0) _exit(main());
  return pid;
}

std::vector<int> FirstOnes(int count) {
  std::vector<int> ones(count);
  std::iota(ones.begin(), ones.end(), 0);
  return ones;
}

int TrainingFleet::Train(int index) {
  const auto elements = std::max<int64_t>(kElements, options_.state_bytes / 4);
  std::vector<float> weights(elements, 1.0f), gradients(kElements);
  GroupOptions options;
  options.quorum = options_.quorum;
  options.early_apply = options_.quorum == Quorum::kMajority;  // As a job would.
  if (options_.apart && setuid(20000 + static_cast<uid_t>(index)) != 0) return 1;
  if (options_.machines > 0) options.machine = std::to_string(index % options_.machines);
  options.microbatches = 16;
  std::unique_ptr<BenchCourier> courier;
  if (master_) {
    courier = std::make_unique<BenchCourier>(master_->address);
    options.report = [&courier](const ViewReport& report) { courier->Send(report); };
    options.first_step = board_->ready == 0 ? 0 : -1;  // The first one's is the group's.
  }
  for (int i = 0; i < kFleetMax; ++i) {
    const bool there = i != index && pids_[i] > 0 && board_->addresses[i][0] != 0;
    if (there) options.join.push_back(board_->addresses[i]);
  }
  options.state = {absl::MakeSpan(reinterpret_cast<char*>(weights.data()), elements * 4)};
  options.kept_bytes_max = options_.kept_bytes_max;
  absl::StatusOr<std::unique_ptr<ElasticGroup>> group;
  options.names_changes = !options_.changes_all;
  options.apply = [&] {
    const int64_t changed = options_.changes_all ? elements : kElements;
    if (!options_.changes_all) {
      (*group)->BeforeChange({reinterpret_cast<const char*>(weights.data()), kElements * 4});
    }
    for (int64_t i = 0; i < changed; ++i) weights[i] += gradients[i % kElements];
  };
  group = ElasticGroup::Open(std::move(options));
  if (!group.ok()) return 1;
  std::snprintf(board_->addresses[index], sizeof(board_->addresses[index]), "%s",
                (*group)->address().c_str());
  if (index == 0) board_->ready = 1;
  if (courier) courier->Start([&](const ViewOrder& order) { (*group)->Obey(order); });
  TakeSteps(**group, gradients, board_->members[index]);
  return 0;
}

void TrainingFleet::TakeSteps(ElasticGroup& group, std::vector<float>& gradients,
                              MemberReport& report) {
  while (board_->stop.load() == 0) {
    const auto plan = group.BeginStep();
    if (!plan.ok()) continue;
    // Who copies the state has nothing to compute.
    if (plan->quota.size() > 0) usleep(static_cast<useconds_t>(options_.compute_us));
    std::fill(gradients.begin(), gradients.end(), 1.0f);
    if (!group.AllreduceLast(absl::MakeSpan(gradients)).ok()) continue;
    const auto committed = group.Commit();
    if (!committed.ok() || !*committed) continue;
    const ChangeTimes change = group.last_change();
    if (change.resumed == absl::InfinitePast()) continue;  // The next view is there already.
    report.noticed_nanos = absl::ToUnixNanos(change.noticed);
    report.agreed_nanos = absl::ToUnixNanos(change.agreed);
    report.entered_nanos = absl::ToUnixNanos(change.entered);
    report.resumed_nanos = absl::ToUnixNanos(change.resumed);
    report.partings = group.partings();
    report.rank = plan->rank;
    report.holders = group.view().holders;
    report.view = group.view().number;
    report.step = group.step();
    report.committed_nanos = NowNanos();
  }
}

TrainingFleet::TrainingFleet(int size, Options options)
    : options_(options), board_(MakeBoard()), pids_(kFleetMax, -1) {
  if (options.master) {
    master_ = std::make_unique<DatagramSocket>();
    master_pid_ = StartChild([this] { return RunBenchMaster(*master_); });
  }
  Start(0);
  while (board_->ready.load() == 0) usleep(1000);
  for (int i = 1; i < size; ++i) Start(i);
}

TrainingFleet::~TrainingFleet() {
  for (int i = 0; i < kFleetMax; ++i) Kill(i);
  if (master_pid_ > 0) {
    kill(master_pid_, SIGKILL);
    waitpid(master_pid_, nullptr, 0);
  }
  FreeBoard(board_);
}

void TrainingFleet::Start(int index) {
  pids_[index] = StartChild([this, index] { return Train(index); });
}

void TrainingFleet::Kill(int index) {
  if (pids_[index] <= 0) return;
  kill(pids_[index], SIGKILL);
  waitpid(pids_[index], nullptr, 0);
  pids_[index] = -1;
  board_->members[index].holders = 0;
}

bool TrainingFleet::WaitForAll(const std::vector<int>& members) {
  for (int i = 0; i < 30000; ++i) {
    const bool all = std::all_of(members.begin(), members.end(), [&](int m) {
      return board_->members[m].holders.load() == static_cast<int>(members.size());
    });
    if (all) return true;
    usleep(1000);
  }
  return false;
}

}  // namespace rubato
