// What quotas save when one worker is slow.
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <utility>

#include "bench/ring/contest.h"
#include "bench/ring/rivals.h"

namespace rubato {
namespace {

constexpr int kProcesses = 4;
constexpr int64_t kMicrobatchUs = 1000;
constexpr int kWarmup = 20;  // Speeds are smoothed: shares settle in a few steps.
constexpr int kSteps = 40;
// Of what all could do without ever waiting, where there is something to deal. What 16 whole
// microbatches allow of it is 0.91.
constexpr int kMicrobatchesMin = 16;
constexpr double kOfIdealMin = 0.85;

struct StragglerCase {
  int microbatches = 0;
  double slow = 1;     // The last process needs so many times as long.
  bool follow = true;  // Shares follow speeds.
};

std::vector<double> Train(const StragglerCase& what, const Place& place) {
  StepPlan plan;
  const auto group = MeetOthers({.elastic = true, .microbatches = what.microbatches}, place, plan);
  if (group == nullptr) return {};
  // The last to come is slow: ranks are by age.
  const double cost =
      static_cast<double>(kMicrobatchUs) * (plan.rank + 1 == plan.size ? what.slow : 1);
  std::vector<float> values(64 << 10, 1.0f);
  std::vector<double> micros;
  for (int step = 0; step < kWarmup + place.runs; ++step) {
    const int64_t begin = NowNanos();
    if (step > 0) {
      const absl::StatusOr<StepPlan> next = group->BeginStep();
      if (!next.ok()) return {};
      plan = *next;
    }
    if (!what.follow) group->DoNotMeasure();
    usleep(static_cast<useconds_t>(cost * plan.quota.size()));
    if (!group->AllreduceLast(absl::MakeSpan(values)).ok() || !group->Commit().ok()) return {};
    if (step >= kWarmup) micros.push_back(static_cast<double>(NowNanos() - begin) / 1000);
  }
  return micros;
}

// The shortest that any division into whole microbatches takes.
double WholeUs(int microbatches, double slow) {
  double best = 1e300;
  for (int share = 0; share <= microbatches; ++share) {
    const double others = std::ceil(static_cast<double>(microbatches - share) / (kProcesses - 1));
    best = std::min(best, std::max(others, share * slow));
  }
  return best * kMicrobatchUs;
}

}  // namespace

int RunStragglerBench(int rounds, Aims& aims) {
  constexpr double kSlow = 2;
  std::printf(
      "{\"bench\": \"straggler\", \"processes\": %d, \"slowed\": 1, \"times\": %.0f, "
      "\"step\": \"1 ms of a device a microbatch + allreduce of 256 KB\", \"cases\": [\n",
      kProcesses, kSlow);
  bool first = true;
  for (const int microbatches : {4, 8, 16, 32, 64}) {
    const auto group = [&](const char* name, double slow, bool follow) {
      const StragglerCase what{microbatches, slow, follow};
      return Contender{name, [what](const Place& place) { return Train(what, place); }};
    };
    const auto timings = RunContest(
        {group("quotas", kSlow, true), group("even", kSlow, false), group("nobody_slow", 1, true)},
        kProcesses, rounds, kSteps);
    // Microbatches a second.
    const auto rate = [&](double us) { return us > 0 ? microbatches * 1e6 / us : 0; };
    const auto measured = [&](const char* name) { return rate(timings.at(name).median); };
    const double ideal = 1e6 / kMicrobatchUs * (kProcesses - 1 + 1 / kSlow);
    const std::string name = absl::StrFormat(
        "straggler, 1 of %d, %d microbatches: throughput over the ideal", kProcesses, microbatches);
    if (microbatches >= kMicrobatchesMin && aims.Measured({timings.at("quotas").median}, name)) {
      aims.AtLeast(kOfIdealMin, measured("quotas") / ideal, name);
    }
    if (!std::exchange(first, false)) std::printf(",\n");
    std::printf(
        "  {\"microbatches\": %d, \"quotas_per_s\": %.0f, \"even_per_s\": %.0f, "
        "\"nobody_slow_per_s\": %.0f, \"ideal_per_s\": %.0f, \"ideal_whole_per_s\": %.0f, "
        "\"quotas_over_even\": %.2f, \"quotas_over_ideal\": %.2f, "
        "\"even_over_ideal\": %.2f}",
        microbatches, measured("quotas"), measured("even"), measured("nobody_slow"), ideal,
        rate(WholeUs(microbatches, kSlow)), measured("quotas") / measured("even"),
        measured("quotas") / ideal, measured("even") / ideal);
    std::fflush(stdout);
  }
  std::printf("\n]}\n");
  return 0;
}

}  // namespace rubato
