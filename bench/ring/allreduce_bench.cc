// One allreduce beside Gloo's, and what a group adds to it.
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <utility>

#include "bench/ring/contest.h"
#include "bench/ring/rivals.h"

namespace rubato {
namespace {

constexpr double kTimesGlooMin = 1.3;
constexpr double kHiddenMin = 0.5;       // Of what communication adds to a step's computation.
constexpr double kSteadyCostMax = 0.01;  // Of a step, beyond what two runs of the same differ by.

double Load() {
  double load[1] = {0};
  return getloadavg(load, 1) == 1 ? load[0] : -1;
}

std::vector<Contender> Contenders(int64_t elements) {
  const auto group = [&](const char* name, bool shared_memory, bool elastic, bool encrypt = false) {
    const GroupCase what{.shared_memory = shared_memory,
                         .encrypt = encrypt,
                         .elastic = elastic,
                         .elements = elements};
    return Contender{name, [what](const Place& place) { return RunGroup(what, place); }};
  };
  std::vector<Contender> contenders = {
      group("rubato_shm", true, false), group("rubato_shm_step", true, true),
      group("rubato_tcp", false, false), group("rubato_tcp_step", false, true),
      group("rubato_tls", false, false, true)};
  contenders.push_back(
      {"memory_limit", [elements](const Place& place) { return RunMemoryLimit(place, elements); }});
  contenders.push_back(
      {"socket_limit", [elements](const Place& place) { return RunSocketLimit(place, elements); }});
#ifdef RUBATO_GLOO
  for (const std::string algorithm : {"ring", "ring_chunked", "halving_doubling", "bcube"}) {
    contenders.push_back({"gloo_" + algorithm, [algorithm, elements](const Place& place) {
                            return RunGloo(algorithm, place, elements);
                          }});
  }
#endif
  return contenders;
}

struct Effort {
  int rounds = 0;
  int runs = 0;  // A round.
};
Effort EffortFor(int64_t bytes) {
  if (bytes <= 1024) return {5, 200};
  return bytes <= (1 << 20) ? Effort{7, 40} : Effort{5, 3};
}

void PrintCase(int size, int64_t bytes, const std::map<std::string, Timing>& timings, Aims& aims) {
  const auto at = [&](const std::string& name) {
    return absl::StrFormat("allreduce, %d processes, %d bytes: %s", size, bytes, name);
  };
  Timing gloo{1e300, 1e300};
  std::printf("  {\"processes\": %d, \"bytes\": %lld, \"load\": %.1f", size,
              static_cast<long long>(bytes), Load());
  for (const auto& [name, timing] : timings) {
    std::printf(", \"%s_us\": [%.1f, %.1f]", name.c_str(), timing.median, timing.best);
    if (name[0] != 'g') continue;
    // Where one of them fails the best of the rest need not be Gloo's best.
    if (!aims.Measured({timing.median, timing.best}, at(name))) continue;
    gloo = {std::min(gloo.median, timing.median), std::min(gloo.best, timing.best)};
  }
  const Timing shm = timings.at("rubato_shm"), tcp = timings.at("rubato_tcp");
  const auto ratio = [](const char* name, Timing a, Timing b) {
    std::printf(", \"%s\": [%.2f, %.2f]", name, a.median / b.median, a.best / b.best);
  };
  if (gloo.median < 1e300) {
    ratio("gloo_over_shm", gloo, shm);
    ratio("gloo_over_tcp", gloo, tcp);
    const auto check = [&](const std::string& plane, const Timing& ours) {
      if (!aims.Measured({ours.median, ours.best}, at(plane))) return;
      aims.AtLeast(kTimesGlooMin, gloo.median / ours.median, at(plane + ": times Gloo's best"));
    };
    check("shared memory", shm);
    check("tcp", tcp);
  } else {
    aims.NotMeasured("allreduce: times Gloo's best (built without libgloo-dev)");
  }
  ratio("memory_limit_over_shm", timings.at("memory_limit"), shm);
  ratio("socket_limit_over_tcp", timings.at("socket_limit"), tcp);
  ratio("tls_over_tcp", timings.at("rubato_tls"), tcp);  // What encryption costs.
  std::printf("}");
  std::fflush(stdout);
}

}  // namespace

int RunAllreduceBench(int size_only, int64_t bytes_only, Aims& aims) {
  std::printf("{\"bench\": \"allreduce\", \"cases\": [\n");
  bool first = true;
  for (int size : {2, 4, 8}) {
    for (int64_t bytes : {int64_t{1} << 10, int64_t{1} << 20, int64_t{64} << 20}) {
      if ((size_only > 0 && size != size_only) || (bytes_only > 0 && bytes != bytes_only)) continue;
      const Effort effort = EffortFor(bytes);
      const auto timings = RunContest(Contenders(bytes / 4), size, effort.rounds, effort.runs);
      if (!std::exchange(first, false)) std::printf(",\n");
      PrintCase(size, bytes, timings, aims);
    }
  }
  std::printf("\n]}\n");
  return 0;
}

namespace {

// What votes and leases cost a step of `what`, in one line of JSON.
void PrintSteadyCase(const char* sums, GroupCase what, int size, int rounds, Aims& aims) {
  const auto group = [&](const char* name, bool elastic, bool apart, bool together) {
    what.elastic = elastic;
    what.apart = apart;
    what.together = together;
    return Contender{name, [what](const Place& place) { return RunGroup(what, place); }};
  };
  const auto timings =
      RunContest({group("elastic", true, false, false), group("plain", false, false, false),
                  group("apart", true, true, false), group("together", false, false, true),
                  group("again", false, false, false)},
                 size, rounds, 50);
  const auto us = [&](const char* name) { return timings.at(name).median; };
  const char* const plane = what.shared_memory ? "shared memory" : "tcp";
  const double cost = us("elastic") / us("plain") - 1;
  const double unrest = std::abs(us("again") / us("plain") - 1);
  const std::string name = absl::StrFormat(
      "steady, %d processes, %s, %s: what votes and leases cost of a step beyond the unrest of the "
      "machine",
      size, plane, sums);
  if (aims.Measured({us("elastic"), us("plain"), us("again")}, name)) {
    aims.AtMost(kSteadyCostMax, cost - unrest, name);
  }
  std::printf(
      "  {\"processes\": %d, \"plane\": \"%s\", \"sums\": \"%s\", \"elastic_us\": %.1f, "
      "\"plain_us\": %.1f, \"votes_apart_us\": %.1f, \"barrier_us\": %.1f, \"cost\": %.4f, "
      "\"cost_of_best\": %.4f, \"cost_with_votes_apart\": %.4f, \"cost_of_a_barrier\": %.4f, "
      "\"unrest\": %.4f}",
      size, plane, sums, us("elastic"), us("plain"), us("apart"), us("together"), cost,
      timings.at("elastic").best / timings.at("plain").best - 1, us("apart") / us("plain") - 1,
      us("together") / us("plain") - 1, unrest);
  std::fflush(stdout);
}

}  // namespace

// What votes and leases cost a training step: the same steps with and without; with votes that
// follow the reduction instead of riding in it (or, over TCP, in the next); and with a bare barrier
// in their place, which is what waiting for each other costs processes that take turns on too few
// cores. Those without run twice: what the two differ by is the machine's own. 16 bits and
// deterministic mode, whose counts are summed on their own, with fewer.
int RunSteadyBench(int rounds, int size_only, Aims& aims) {
  constexpr GroupCase kFloats{.elements = 256 << 10, .compute_us = 10000};
  std::printf(
      "{\"bench\": \"steady\", \"step\": \"10 ms of a device + allreduce of 1 MB\", "
      "\"cases\": [\n");
  bool first = true;
  for (int size : {2, 4, 8}) {
    if (size_only > 0 && size != size_only) continue;
    for (const bool shared_memory : {true, false}) {
      for (const char* const sums : {"fp32", "bf16", "deterministic"}) {
        GroupCase what = kFloats;
        what.shared_memory = shared_memory;
        what.canonical = std::strcmp(sums, "deterministic") == 0;
        if (std::strcmp(sums, "bf16") == 0) what.wire = WireFormat::kBf16;
        if (size == 8 && (what.canonical || what.wire == WireFormat::kBf16)) continue;
        if (!std::exchange(first, false)) std::printf(",\n");
        PrintSteadyCase(sums, what, size, rounds, aims);
      }
    }
  }
  std::printf("\n]}\n");
  return 0;
}

// How much of the communication hides behind a device's backward pass.
int RunOverlapBench(int rounds, Aims& aims) {
  constexpr int64_t kComputeUs = 20000;
  constexpr int64_t kElements = 2 << 20;
  constexpr int kBuckets = 8;
  std::printf(
      "{\"bench\": \"overlap\", \"step\": \"20 ms of a device, 8 MB in 8 buckets\", "
      "\"cases\": [\n");
  bool first = true;
  for (int size : {2, 4}) {
    for (const bool shared_memory : {true, false}) {
      const auto group = [&](const char* name, int64_t elements, int64_t compute_us, bool overlap) {
        const GroupCase what{.shared_memory = shared_memory,
                             .elastic = elements > 0,  // Nobody votes where nothing is summed.
                             .elements = elements,
                             .buckets = kBuckets,
                             .compute_us = compute_us,
                             .overlap = overlap};
        return Contender{name, [what](const Place& place) { return RunGroup(what, place); }};
      };
      const auto timings = RunContest(
          {group("compute", 0, kComputeUs, false), group("communicate", kElements, 0, false),
           group("in_turn", kElements, kComputeUs, false),
           group("overlapped", kElements, kComputeUs, true)},
          size, rounds, 20);
      const auto us = [&](const char* name) { return timings.at(name).median; };
      if (!std::exchange(first, false)) std::printf(",\n");
      const char* const plane = shared_memory ? "shared memory" : "tcp";
      const double hidden = (us("in_turn") - us("overlapped")) / (us("in_turn") - us("compute"));
      const std::string name = absl::StrFormat(
          "overlap, %d processes, %s: how much of the communication is hidden", size, plane);
      if (aims.Measured({us("compute"), us("in_turn") - us("compute"), us("overlapped")}, name)) {
        aims.AtLeast(kHiddenMin, hidden, name);
      }
      std::printf(
          "  {\"processes\": %d, \"plane\": \"%s\", \"compute_us\": %.0f, "
          "\"communicate_us\": %.0f, \"in_turn_us\": %.0f, \"overlapped_us\": %.0f, "
          "\"hidden\": %.2f}",
          size, plane, us("compute"), us("communicate"), us("in_turn"), us("overlapped"), hidden);
      std::fflush(stdout);
    }
  }
  std::printf("\n]}\n");
  return 0;
}

}  // namespace rubato
