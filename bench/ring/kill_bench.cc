#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstring>

#include "bench/ring/fleet.h"
#include "bench/ring/rivals.h"
#include "rubato/adapters/ring/elastic_group.h"

namespace rubato {
namespace {

constexpr int kMembers = 8;
constexpr int64_t kElements = 64 << 10;

int Train(int index, SharedBoard* board, std::string join, Quorum quorum) {
  std::vector<float> weights(kElements), gradients(kElements);
  GroupOptions options;
  options.quorum = quorum;
  options.microbatches = 16;
  if (!join.empty()) options.join = {join};
  options.state = {absl::MakeSpan(reinterpret_cast<char*>(weights.data()), kElements * 4)};
  options.apply = [&] {
    for (int64_t i = 0; i < kElements; ++i) weights[i] += gradients[i];
  };
  auto group = ElasticGroup::Open(std::move(options));
  if (!group.ok()) return 1;
  if (join.empty()) {
    std::snprintf(board->address, sizeof(board->address), "%s", (*group)->address().c_str());
    board->ready = 1;
  }
  MemberReport& report = board->members[index];
  while (board->stop.load() == 0) {
    const auto plan = (*group)->BeginStep();
    if (!plan.ok()) continue;
    usleep(2000);  // Stands for the computation, without taking the cores from the others.
    std::fill(gradients.begin(), gradients.end(), 1.0f);
    if (!(*group)->Allreduce(absl::MakeSpan(gradients)).ok()) continue;
    const auto committed = (*group)->Commit();
    if (!committed.ok() || !*committed) continue;
    const ChangeTimes change = (*group)->last_change();
    report.noticed_nanos = absl::ToUnixNanos(change.noticed);
    report.agreed_nanos = absl::ToUnixNanos(change.agreed);
    report.entered_nanos = absl::ToUnixNanos(change.entered);
    report.holders = (*group)->view().holders;
    report.view = (*group)->view().number;
    report.step = (*group)->step();
    report.committed_nanos = NowNanos();
  }
  return 0;
}

class Fleet {
 public:
  explicit Fleet(Quorum quorum) : quorum_(quorum), board_(MakeBoard()), pids_(kMembers, -1) {
    Start(0, "");
    while (board_->ready.load() == 0) usleep(1000);
    for (int i = 1; i < kMembers; ++i) Start(i, board_->address);
  }
  ~Fleet() {
    for (pid_t pid : pids_) {
      if (pid <= 0) continue;
      kill(pid, SIGKILL);
      waitpid(pid, nullptr, 0);
    }
  }
  void Start(int index, const std::string& join) {
    pids_[index] = StartChild([&] { return Train(index, board_, join, quorum_); });
  }
  bool WaitForAll(const std::vector<int>& members) {
    for (int i = 0; i < 30000; ++i) {
      const bool all = std::all_of(members.begin(), members.end(), [&](int m) {
        return board_->members[m].holders.load() == static_cast<int>(members.size());
      });
      if (all) return true;
      usleep(1000);
    }
    return false;
  }
  SharedBoard& board() { return *board_; }
  pid_t pid(int index) const { return pids_[index]; }
  void Bury(int index) {
    waitpid(pids_[index], nullptr, 0);
    pids_[index] = -1;
    board_->members[index].holders = 0;
  }

 private:
  const Quorum quorum_;
  SharedBoard* board_;
  std::vector<pid_t> pids_;
};

struct Times {
  std::vector<double> total, detect, agree, reconnect, redo;
};

// Until each survivor has committed a step in a view without the victims.
bool Measure(Fleet& fleet, const std::vector<int>& survivors, int64_t struck, Times& times) {
  const uint64_t before = fleet.board().members[survivors[0]].view;
  for (int i = 0; i < 20000; ++i) {
    const bool all = std::all_of(survivors.begin(), survivors.end(), [&](int m) {
      const MemberReport& report = fleet.board().members[m];
      return report.view > before && report.holders == static_cast<int>(survivors.size());
    });
    if (!all) {
      usleep(500);
      continue;
    }
    // The first commit in the new view is not kept, so take the latest part times and the total
    // up to the first report seen; the poll adds at most its half millisecond.
    const MemberReport& report = fleet.board().members[survivors[0]];
    const auto ms = [](int64_t nanos) { return static_cast<double>(nanos) / 1e6; };
    times.total.push_back(ms(NowNanos() - struck));
    times.detect.push_back(ms(report.noticed_nanos - struck));
    times.agree.push_back(ms(report.agreed_nanos - report.noticed_nanos));
    times.reconnect.push_back(ms(report.entered_nanos - report.agreed_nanos));
    times.redo.push_back(times.total.back() - ms(report.entered_nanos - struck));
    return true;
  }
  return false;
}

void Print(const char* what, int victims, const Times& times) {
  std::vector<double> total = times.total;
  const double worst = total.empty() ? 0 : *std::max_element(total.begin(), total.end());
  std::printf(
      "  {\"event\": \"%s\", \"victims\": %d, \"of\": %d, \"rounds\": %zu, "
      "\"median_ms\": %.1f, \"worst_ms\": %.1f, \"detect_ms\": %.1f, \"agree_ms\": %.1f, "
      "\"reconnect_ms\": %.2f, \"redo_ms\": %.1f}",
      what, victims, kMembers, total.size(), Median(total), worst, Median(times.detect),
      Median(times.agree), Median(times.reconnect), Median(times.redo));
  std::fflush(stdout);
}

void Strike(int signal, int victims, int rounds) {
  Fleet fleet(victims > 1 ? Quorum::kAny : Quorum::kMajority);
  std::vector<int> everyone, survivors;
  for (int i = 0; i < kMembers; ++i) everyone.push_back(i);
  for (int i = 0; i < kMembers - victims; ++i) survivors.push_back(i);
  Times times;
  for (int round = 0; round < rounds; ++round) {
    if (!fleet.WaitForAll(everyone)) break;
    usleep(20000);
    const int64_t struck = NowNanos();
    for (int i = kMembers - victims; i < kMembers; ++i) kill(fleet.pid(i), signal);
    if (!Measure(fleet, survivors, struck, times)) break;
    for (int i = kMembers - victims; i < kMembers; ++i) {
      if (signal == SIGSTOP) {
        kill(fleet.pid(i), SIGCONT);
        continue;
      }
      fleet.Bury(i);
      fleet.Start(i, fleet.board().address);
    }
  }
  Print(signal == SIGKILL ? "SIGKILL" : "SIGSTOP", victims, times);
}

}  // namespace

int RunKillBench(int rounds) {
  std::printf("{\"bench\": \"kill\", \"step_ms\": \"2 + allreduce of 256 KB\", \"cases\": [\n");
  for (int victims : {1, 4, 7}) {
    Strike(SIGKILL, victims, rounds);
    std::printf(",\n");
  }
  Strike(SIGSTOP, 1, std::min(rounds, 5));
  std::printf("\n]}\n");
  return 0;
}

}  // namespace rubato
