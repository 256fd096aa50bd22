// What newcomers cost those who train, and how a change of view grows with the members.
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <map>
#include <utility>

#include "bench/ring/fleet.h"
#include "bench/ring/rivals.h"

namespace rubato {
namespace {

constexpr int64_t kJoinStepUs = 10000;

constexpr int kUsualSteps = 20;  // At least, to know how long a step is.

constexpr double kLostStepsMax = 1;  // Beyond what is lost when nobody joins.
constexpr double kExponentMax = 2;   // Less than with the square of the members.

// The last three copy for many steps, and have room in memory for two of them. Of such a state a
// step changes a small part (the rest is frozen), or all of it, as a large model's does.
struct JoinCase {
  int hosts;
  int64_t compute_us = kJoinStepUs;
  int64_t state_bytes = 256 << 10;
  int64_t kept_bytes_max = 0;
  bool changes_all = false;
};
constexpr JoinCase kJoinCases[] = {{2},
                                   {4},
                                   {8},
                                   {15},
                                   {2, kJoinStepUs, 256 << 20, 512 << 10},
                                   {2, 10 * kJoinStepUs, 256 << 20, 512 << 10},
                                   {2, 10 * kJoinStepUs, 256 << 20, 512 << 10, true}};

// Process 0 at the end of a step: between two of these there are whole steps alone, where any other
// moment would be right to a step at either end.
struct StepEnd {
  int64_t step = 0;
  int64_t nanos = 0;
};
StepEnd LastStep(const TrainingFleet& fleet) {
  while (true) {
    const StepEnd end{fleet.report(0).step, fleet.report(0).committed_nanos};
    // The time is written after the step.
    if (fleet.report(0).step == end.step && end.nanos > 0) return end;
  }
}

struct Stretch {
  double ms = 0;
  int64_t steps = 0;
};
Stretch Between(const StepEnd& first, const StepEnd& last) {
  return {Millis(last.nanos - first.nanos), last.step - first.step};
}

struct JoinTimes {
  std::vector<double> first_share_ms, lost_steps, lost_without;
};

// The step time is that of the stretch just before; another stretch in which nobody joins tells how
// much of a loss is the machine's own unrest.
bool Join(TrainingFleet& fleet, int hosts, double usual_ms, JoinTimes& times) {
  if (!fleet.WaitForAll(FirstOnes(hosts))) return false;
  const auto rest = [&](double ms) {
    const StepEnd first = LastStep(fleet);
    usleep(static_cast<useconds_t>(ms * 1000));
    return Between(first, LastStep(fleet));
  };
  const Stretch usual = rest(usual_ms);
  const double step_ms = usual.ms / static_cast<double>(std::max<int64_t>(1, usual.steps));
  const auto lost = [&](const Stretch& stretch) {
    return stretch.ms / step_ms - static_cast<double>(stretch.steps);
  };
  const StepEnd before = LastStep(fleet);
  const int64_t began = NowNanos();
  fleet.Start(hosts);
  if (!fleet.WaitForAll(FirstOnes(hosts + 1))) return false;
  const double took_ms = Millis(NowNanos() - began);
  times.first_share_ms.push_back(took_ms);
  times.lost_steps.push_back(lost(Between(before, LastStep(fleet))));
  fleet.Kill(hosts);
  if (!fleet.WaitForAll(FirstOnes(hosts))) return false;
  rest(100);
  times.lost_without.push_back(lost(rest(took_ms)));
  return true;
}

}  // namespace

int RunJoinBench(int rounds, Aims& aims) {
  std::printf(
      "{\"bench\": \"join\", \"step\": \"step_ms of a device + allreduce of 256 KB\", "
      "\"cases\": [\n");
  bool first = true;
  for (const auto [hosts, compute_us, state_bytes, kept_bytes_max, changes_all] : kJoinCases) {
    TrainingFleet fleet(hosts, {.compute_us = compute_us,
                                .state_bytes = state_bytes,
                                .changes_all = changes_all,
                                .kept_bytes_max = kept_bytes_max});
    JoinTimes times;
    for (int round = 0; round < rounds; ++round) {
      const double usual_ms = std::max(500.0, kUsualSteps * static_cast<double>(compute_us) / 1000);
      if (!Join(fleet, hosts, usual_ms, times)) return 1;
    }
    if (!std::exchange(first, false)) std::printf(",\n");
    std::printf(
        "  {\"hosts\": %d, \"step_ms\": %lld, \"state_bytes\": %lld, \"changes\": "
        "\"%s\", \"rounds\": %d, "
        "\"first_share_ms\": %.1f, "
        "\"lost_steps\": %.2f, \"lost_steps_when_nobody_joins\": %.2f}",
        hosts, static_cast<long long>(compute_us / 1000), static_cast<long long>(state_bytes),
        changes_all ? "all" : "256 KB", rounds, Median(times.first_share_ms),
        Median(times.lost_steps), Median(times.lost_without));
    std::fflush(stdout);
    aims.AtMost(kLostStepsMax, Median(times.lost_steps) - std::max(0.0, Median(times.lost_without)),
                absl::StrFormat(
                    "join, 1 to %d, %d KB of state, of which a step of %d ms changes %s: steps "
                    "lost beyond those lost when nobody joins",
                    hosts, state_bytes >> 10, compute_us / 1000, changes_all ? "all" : "256 KB"));
  }
  std::printf("\n]}\n");
  return 0;
}

// From 2 processes to 16, one after the other. What counts is the exponent: how the time of a
// change grows with the members, 1 being in proportion and 2 with their square.
int RunGrowBench(int rounds, Aims& aims) {
  constexpr int kFirst = 2, kLast = kFleetMax;
  std::map<int, std::vector<double>> agree, reconnect;
  for (int round = 0; round < rounds; ++round) {
    TrainingFleet fleet(kFirst, {});
    if (!fleet.WaitForAll(FirstOnes(kFirst))) return 1;
    for (int size = kFirst + 1; size <= kLast; ++size) {
      fleet.Start(size - 1);
      if (!fleet.WaitForAll(FirstOnes(size))) return 1;
      double slowest_agree = 0, slowest_reconnect = 0;  // The last one keeps the others waiting.
      for (int i = 0; i < size - 1; ++i) {
        const MemberReport& report = fleet.report(i);
        slowest_agree = std::max(slowest_agree, Millis(report.agreed_nanos - report.noticed_nanos));
        slowest_reconnect =
            std::max(slowest_reconnect, Millis(report.entered_nanos - report.agreed_nanos));
      }
      agree[size].push_back(slowest_agree);
      reconnect[size].push_back(slowest_reconnect);
    }
  }
  // The best of the rounds: what a loaded machine leaves of the protocol's own time. Over several
  // sizes at each end, for one alone is mostly the machine's mood.
  const auto best = [&](int size) {
    return *std::min_element(agree[size].begin(), agree[size].end()) +
           *std::min_element(reconnect[size].begin(), reconnect[size].end());
  };
  const double small = Median({best(3), best(4), best(5)});
  const double large = Median({best(14), best(15), best(16)});
  const double exponent = std::log(large / small) / std::log(15.0 / 4);
  aims.AtMost(kExponentMax, exponent,
              "grow, 2 to 16: the power of the members with which a change of view grows");
  std::printf("{\"bench\": \"grow\", \"rounds\": %d, \"exponent\": %.2f, \"cases\": [\n", rounds,
              exponent);
  for (int size = kFirst + 1; size <= kLast; ++size) {
    std::printf(
        "  {\"members\": %d, \"agree_ms\": %.2f, \"reconnect_ms\": %.2f, \"best_ms\": %.2f}%s\n",
        size, Median(agree[size]), Median(reconnect[size]), best(size), size < kLast ? "," : "");
  }
  std::printf("]}\n");
  return 0;
}

}  // namespace rubato
