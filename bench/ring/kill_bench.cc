// How long the survivors of a death are kept from training.
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <iterator>
#include <numeric>
#include <utility>

#include "bench/ring/fleet.h"
#include "bench/ring/rivals.h"

namespace rubato {
namespace {

// Milliseconds: in the median, beside a step; of 16; and every time one is frozen, by its lease.
constexpr double kKilledMsMax = 50, kManyKilledMsMax = 200, kFrozenMsMax = 2000;
constexpr double kStepMs = 2;

struct Times {
  std::vector<double> total, detect, agree, reconnect, redo;
  // Of the rounds in which all survivors were level, and of those in which some had to copy the
  // state of the others.
  std::vector<double> level, copied;
};

int Partings(const TrainingFleet& fleet, const std::vector<int>& members) {
  return std::accumulate(members.begin(), members.end(), 0,
                         [&](int sum, int m) { return sum + fleet.report(m).partings.load(); });
}

double Worst(const std::vector<double>& values) {
  return values.empty() ? 0 : *std::max_element(values.begin(), values.end());
}

// Until each survivor has committed a step in a view without the victims; the times are those of
// the last to do so.
bool Measure(const TrainingFleet& fleet, const std::vector<int>& survivors, uint64_t before,
             int64_t struck, Times& times) {
  const int partings = Partings(fleet, survivors);
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
    const bool level = Partings(fleet, survivors) == partings;
    (level ? times.level : times.copied).push_back(times.total.back());
    return true;
  }
  return false;
}

// Who says which view counts.
enum class ViewsBy : uint8_t { kAny, kMajority, kMaster };
constexpr const char* kViewsBy[] = {"any", "majority", "master"};

struct Case {
  ViewsBy by = ViewsBy::kMajority;
  int signal = SIGKILL;
  int victims = 1;
  int members = 8;
  int rounds = 20;
  bool apart = false;   // As between machines,
  int machines = 0;     // or several on each of so many.
  bool oldest = false;  // The victims: who proposes views, founds groups, gives its state away.
};

const char* PlaneOf(const Case& strike) {
  return strike.machines > 0 ? "machines" : strike.apart ? "tcp" : "shared memory";
}

void Print(const Case& strike, const Times& times) {
  std::printf(
      "  {\"views\": \"%s\", \"event\": \"%s\", \"plane\": \"%s\", \"victims\": %d, \"who\": "
      "\"%s\", \"of\": %d, "
      "\"rounds\": %zu, "
      "\"median_ms\": %.1f, \"worst_ms\": %.1f, \"detect_ms\": %.1f, \"agree_ms\": %.1f, "
      "\"reconnect_ms\": %.2f, \"redo_ms\": %.1f, \"level_worst_ms\": %.1f, "
      "\"copied_rounds\": %zu, \"copied_median_ms\": %.1f}",
      kViewsBy[static_cast<int>(strike.by)], strike.signal == SIGKILL ? "SIGKILL" : "SIGSTOP",
      PlaneOf(strike), strike.victims, strike.oldest ? "oldest" : "youngest", strike.members,
      times.total.size(), Median(times.total), Worst(times.total), Median(times.detect),
      Median(times.agree), Median(times.reconnect), Median(times.redo), Worst(times.level),
      times.copied.size(), Median(times.copied));
  std::fflush(stdout);
}

void Check(const Case& strike, const Times& times, Aims& aims) {
  const bool killed = strike.signal == SIGKILL;
  const std::string what =
      absl::StrFormat("kill, views by %s, %s to the %s %d of %d over %s: %s ms until all train on",
                      kViewsBy[static_cast<int>(strike.by)], killed ? "SIGKILL" : "SIGSTOP",
                      strike.oldest ? "oldest" : "youngest", strike.victims, strike.members,
                      PlaneOf(strike), killed ? "median" : "worst");
  if (static_cast<int>(times.total.size()) < strike.rounds) return aims.NotMeasured(what);
  if (!killed) return aims.EachAtMost(kFrozenMsMax, times.total, what);
  const double limit = strike.members > 8 ? kManyKilledMsMax : kKilledMsMax + kStepMs;
  aims.AtMost(limit, Median(times.total), what);
}

void Strike(const Case& strike, Aims& aims) {
  TrainingFleet fleet(strike.members,
                      {.quorum = strike.by == ViewsBy::kAny ? Quorum::kAny : Quorum::kMajority,
                       .apart = strike.apart,
                       .machines = strike.machines,
                       .master = strike.by == ViewsBy::kMaster});
  std::vector<int> everyone = FirstOnes(strike.members);
  Times times;
  for (int round = 0; round < strike.rounds; ++round) {
    if (!fleet.WaitForAll(everyone)) break;
    usleep(20000);
    std::sort(everyone.begin(), everyone.end(), [&](int a, int b) {
      const bool older = fleet.report(a).rank < fleet.report(b).rank;
      return strike.oldest ? older : fleet.report(b).rank < fleet.report(a).rank;
    });
    const std::vector<int> victims(everyone.begin(), everyone.begin() + strike.victims);
    const std::vector<int> survivors(everyone.begin() + strike.victims, everyone.end());
    const uint64_t before = fleet.report(survivors.front()).view;
    const int64_t struck = NowNanos();
    for (const int victim : victims) kill(fleet.pid(victim), strike.signal);
    if (!Measure(fleet, survivors, before, struck, times)) break;
    for (const int victim : victims) {
      if (strike.signal == SIGSTOP) {
        kill(fleet.pid(victim), SIGCONT);
        continue;
      }
      fleet.Kill(victim);
    }
    for (const int victim : victims) {
      if (strike.signal == SIGKILL) fleet.Start(victim);
    }
  }
  Print(strike, times);
  Check(strike, times, aims);
}

// As a job has them, whose master needs no majority: most may go at once.
std::vector<Case> WithMaster(int rounds) {
  std::vector<Case> cases;
  for (const bool apart : {false, true}) {
    for (const int victims : {1, 4, 7}) {
      cases.push_back(
          {.by = ViewsBy::kMaster, .victims = victims, .rounds = rounds, .apart = apart});
    }
    cases.push_back({.by = ViewsBy::kMaster, .rounds = rounds, .apart = apart, .oldest = true});
  }
  for (const int victims : {1, 15}) {
    cases.push_back({.by = ViewsBy::kMaster, .victims = victims, .members = 16, .rounds = rounds});
  }
  return cases;
}

// As workers by hand have them by default: fewer than half may go.
std::vector<Case> WithMajority(int rounds) {
  std::vector<Case> cases;
  for (const bool apart : {false, true}) {
    for (const int victims : {1, 3}) {
      cases.push_back({.victims = victims, .rounds = rounds, .apart = apart});
    }
    cases.push_back({.victims = 3, .rounds = rounds, .apart = apart, .oldest = true});
  }
  for (const int victims : {1, 7}) {
    cases.push_back({.victims = victims, .members = 16, .rounds = rounds});
  }
  return cases;
}

// By age, and of more deaths than a majority outlives.
std::vector<Case> ByAge(int rounds, bool oldest) {
  const int few = std::min(rounds, 5);
  std::vector<Case> cases;
  const auto add = [&](int victims, int members, int times) {
    const ViewsBy by = victims > 1 ? ViewsBy::kAny : ViewsBy::kMajority;
    cases.push_back(
        {.by = by, .victims = victims, .members = members, .rounds = times, .oldest = oldest});
  };
  for (const int victims : {1, 4, 7}) {
    if (victims < 7 || !oldest) add(victims, 8, rounds);
  }
  cases.push_back({.signal = SIGSTOP, .rounds = few, .oldest = oldest});
  // The change of view must not grow with the square of the members.
  for (const int members : {2, 4}) {
    if (!oldest) add(1, members, few);
  }
  for (const int victims : {1, 4, 15}) {
    if (victims == 1 || !oldest) add(victims, 16, few);
  }
  return cases;
}

// Nobody sees the others' processes, only their sockets.
std::vector<Case> BetweenMachines(int rounds) {
  std::vector<Case> cases;
  for (const int victims : {1, 4, 7}) {
    const ViewsBy by = victims > 1 ? ViewsBy::kAny : ViewsBy::kMajority;
    cases.push_back({.by = by, .victims = victims, .rounds = rounds, .apart = true});
  }
  cases.push_back({.rounds = rounds, .apart = true, .oldest = true});
  return cases;
}

// Half of them on each of two machines, which sum through the memory of each: who speaks for one
// dies, and who does not.
std::vector<Case> OfTwoMachines(int rounds) {
  std::vector<Case> cases;
  for (const bool oldest : {false, true}) {
    for (const int victims : {1, 3}) {
      cases.push_back({.victims = victims, .rounds = rounds, .machines = 2, .oldest = oldest});
    }
  }
  cases.push_back({.members = 16, .rounds = rounds, .machines = 2, .oldest = true});
  return cases;
}

}  // namespace

int RunKillBench(int rounds, const std::string& part, Aims& aims) {
  const std::pair<const char*, std::vector<Case>> parts[] = {
      {"youngest", ByAge(rounds, /*oldest=*/false)},
      {"oldest", ByAge(rounds, /*oldest=*/true)},  // Those whom the others follow.
      {"tcp", BetweenMachines(rounds)},
      {"machines", OfTwoMachines(rounds)},
      {"majority", WithMajority(rounds)},
      {"master", WithMaster(rounds)}};
  const auto is_meant = [&](const auto& one) { return part.empty() || part == one.first; };
  if (std::none_of(std::begin(parts), std::end(parts), is_meant)) {
    std::fprintf(stderr, "ring_bench kill: no cases are called '%s'\n", part.c_str());
    return 2;
  }
  std::printf("{\"bench\": \"kill\", \"step_ms\": \"2 + allreduce of 256 KB\", \"cases\": [\n");
  bool first = true;
  for (const auto& of_part : parts) {
    if (!is_meant(of_part)) continue;
    for (const Case& one : of_part.second) {
      if (one.apart && geteuid() != 0) continue;
      if (!std::exchange(first, false)) std::printf(",\n");
      Strike(one, aims);
    }
  }
  std::printf("\n]}\n");
  return 0;
}

}  // namespace rubato
