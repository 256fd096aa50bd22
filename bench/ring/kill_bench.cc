// How long the survivors of a death are kept from training.
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

void Print(const char* what, const char* plane, int victims, int members, const Times& times) {
  const double worst =
      times.total.empty() ? 0 : *std::max_element(times.total.begin(), times.total.end());
  std::printf(
      "  {\"event\": \"%s\", \"plane\": \"%s\", \"victims\": %d, \"of\": %d, \"rounds\": %zu, "
      "\"median_ms\": %.1f, \"worst_ms\": %.1f, \"detect_ms\": %.1f, \"agree_ms\": %.1f, "
      "\"reconnect_ms\": %.2f, \"redo_ms\": %.1f}",
      what, plane, victims, members, times.total.size(), Median(times.total), worst,
      Median(times.detect), Median(times.agree), Median(times.reconnect), Median(times.redo));
  std::fflush(stdout);
}

void Strike(int signal, int victims, int members, int rounds, bool apart = false) {
  TrainingFleet fleet(members,
                      {.quorum = victims > 1 ? Quorum::kAny : Quorum::kMajority, .apart = apart});
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
  Print(signal == SIGKILL ? "SIGKILL" : "SIGSTOP", apart ? "tcp" : "shared memory", victims,
        members, times);
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
  for (int victims : {4, 15}) {
    std::printf(",\n");
    Strike(SIGKILL, victims, 16, std::min(rounds, 5));
  }
  // As between machines: nobody sees the others' processes, only their sockets.
  for (int victims : {1, 4, 7}) {
    if (geteuid() != 0) break;
    std::printf(",\n");
    Strike(SIGKILL, victims, 8, rounds, /*apart=*/true);
  }
  std::printf("\n]}\n");
  return 0;
}

}  // namespace rubato
