// How long the survivors of a death, and the hosts of a newcomer, are kept from training.
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>

#include "bench/ring/fleet.h"
#include "bench/ring/rivals.h"

namespace rubato {
namespace {

struct Times {
  std::vector<double> total, detect, agree, reconnect, redo;
};

double Millis(int64_t nanos) { return static_cast<double>(nanos) / 1e6; }

// Until each survivor has committed a step in a view without the victims; the times are those of
// the last to do so.
bool Measure(const TrainingFleet& fleet, const std::vector<int>& survivors, uint64_t before,
             int64_t struck, Times& times) {
  for (int i = 0; i < 60000; ++i) {
    const bool all = std::all_of(survivors.begin(), survivors.end(), [&](int m) {
      const MemberReport& report = fleet.report(m);
      return report.view > before && report.holders == static_cast<int>(survivors.size());
    });
    if (!all) {
      usleep(500);
      continue;
    }
    const int last = *std::max_element(survivors.begin(), survivors.end(), [&](int a, int b) {
      return fleet.report(a).resumed_nanos < fleet.report(b).resumed_nanos;
    });
    const MemberReport& report = fleet.report(last);
    times.total.push_back(Millis(report.resumed_nanos - struck));
    times.detect.push_back(Millis(report.noticed_nanos - struck));
    times.agree.push_back(Millis(report.agreed_nanos - report.noticed_nanos));
    times.reconnect.push_back(Millis(report.entered_nanos - report.agreed_nanos));
    times.redo.push_back(Millis(report.resumed_nanos - report.entered_nanos));
    return true;
  }
  return false;
}

void Print(const char* what, int victims, int members, const Times& times) {
  const double worst =
      times.total.empty() ? 0 : *std::max_element(times.total.begin(), times.total.end());
  std::printf(
      "  {\"event\": \"%s\", \"victims\": %d, \"of\": %d, \"rounds\": %zu, "
      "\"median_ms\": %.1f, \"worst_ms\": %.1f, \"detect_ms\": %.1f, \"agree_ms\": %.1f, "
      "\"reconnect_ms\": %.2f, \"redo_ms\": %.1f}",
      what, victims, members, times.total.size(), Median(times.total), worst, Median(times.detect),
      Median(times.agree), Median(times.reconnect), Median(times.redo));
  std::fflush(stdout);
}

void Strike(int signal, int victims, int members, int rounds) {
  TrainingFleet fleet(members, victims > 1 ? Quorum::kAny : Quorum::kMajority);
  const std::vector<int> everyone = FirstOnes(members), survivors = FirstOnes(members - victims);
  Times times;
  for (int round = 0; round < rounds; ++round) {
    if (!fleet.WaitForAll(everyone)) break;
    usleep(20000);
    const uint64_t before = fleet.report(0).view;
    const int64_t struck = NowNanos();
    for (int i = members - victims; i < members; ++i) kill(fleet.pid(i), signal);
    if (!Measure(fleet, survivors, before, struck, times)) break;
    for (int i = members - victims; i < members; ++i) {
      if (signal == SIGSTOP) {
        kill(fleet.pid(i), SIGCONT);
        continue;
      }
      fleet.Kill(i);
      fleet.Start(i);
    }
  }
  Print(signal == SIGKILL ? "SIGKILL" : "SIGSTOP", victims, members, times);
}

}  // namespace

int RunKillBench(int rounds) {
  std::printf("{\"bench\": \"kill\", \"step_ms\": \"2 + allreduce of 256 KB\", \"cases\": [\n");
  for (int victims : {1, 4, 7}) {
    Strike(SIGKILL, victims, 8, rounds);
    std::printf(",\n");
  }
  Strike(SIGSTOP, 1, 8, std::min(rounds, 5));
  // The change of view must not grow with the square of the members.
  for (int members : {2, 4, 16}) {
    std::printf(",\n");
    Strike(SIGKILL, 1, members, std::min(rounds, 5));
  }
  std::printf("\n]}\n");
  return 0;
}

// What a newcomer costs those who train, and how long it takes until it has a share.
int RunJoinBench(int rounds) {
  constexpr int kHosts = 4;
  TrainingFleet fleet(kHosts, Quorum::kMajority);
  std::vector<double> first_share_ms, lost_ms, lost_steps;
  for (int round = 0; round < rounds; ++round) {
    if (!fleet.WaitForAll(FirstOnes(kHosts))) return 1;
    const int64_t step_before = fleet.report(0).step;
    const int64_t before = NowNanos();
    usleep(500000);
    const int64_t step_then = fleet.report(0).step;
    const int64_t then = NowNanos();
    const double step_ms = Millis(then - before) / std::max<int64_t>(1, step_then - step_before);
    fleet.Start(kHosts);
    if (!fleet.WaitForAll(FirstOnes(kHosts + 1))) return 1;
    const double took_ms = Millis(NowNanos() - then);
    first_share_ms.push_back(took_ms);
    lost_ms.push_back(took_ms - step_ms * static_cast<double>(fleet.report(0).step - step_then));
    lost_steps.push_back(lost_ms.back() / step_ms);
    fleet.Kill(kHosts);
  }
  std::printf(
      "{\"bench\": \"join\", \"hosts\": %d, \"rounds\": %d, \"first_share_ms\": %.1f, "
      "\"lost_ms\": %.1f, \"lost_steps\": %.2f}\n",
      kHosts, rounds, Median(first_share_ms), Median(lost_ms), Median(lost_steps));
  return 0;
}

}  // namespace rubato
