// Processes that pose as machines: sums that go through the memory of each and between their first
// members over TCP, beside the same over TCP alone.
#include <cstdio>
#include <cstdlib>
#include <map>
#include <string>
#include <utility>

#include "absl/strings/str_format.h"
#include "bench/ring/contest.h"
#include "bench/ring/rivals.h"

namespace rubato {
namespace {

constexpr double kTimesTcpMin = 0.9;  // What a busy machine leaves of 1.

struct Layout {
  int machines = 0;
  int each = 0;
  int64_t bytes = 0;

  int runs() const { return bytes <= 1024 ? 200 : bytes <= (1 << 20) ? 40 : 3; }
};

std::vector<Contender> Contenders(const Layout& layout, const char* namespaces) {
  const auto group = [&](const char* name, bool shared_memory, bool elastic, bool encrypt) {
    const GroupCase what{.shared_memory = shared_memory,
                         .machines = layout.machines,
                         .namespaces = namespaces,
                         .encrypt = encrypt,
                         .elastic = elastic,
                         .elements = layout.bytes / 4};
    return Contender{name, [what](const Place& place) { return RunGroup(what, place); }};
  };
  return {group("tcp", false, false, false),     group("machines", true, false, false),
          group("tcp_step", false, true, false), group("machines_step", true, true, false),
          group("tls", false, false, true),      group("machines_tls", true, false, true)};
}

void PrintCase(const Layout& layout, const std::map<std::string, Timing>& timings, Aims& aims) {
  double load[1] = {0};
  if (getloadavg(load, 1) != 1) load[0] = -1;
  std::printf("  {\"machines\": %d, \"processes_each\": %d, \"bytes\": %lld, \"load\": %.1f",
              layout.machines, layout.each, static_cast<long long>(layout.bytes), load[0]);
  for (const auto& [name, timing] : timings) {
    std::printf(", \"%s_us\": [%.1f, %.1f]", name.c_str(), timing.median, timing.best);
  }
  for (const auto& [over, under] :
       {std::pair("tcp", "machines"), {"tcp_step", "machines_step"}, {"tls", "machines_tls"}}) {
    const Timing a = timings.at(over), b = timings.at(under);
    std::printf(", \"%s_over_%s\": [%.2f, %.2f]", over, under, a.median / b.median,
                a.best / b.best);
    const std::string what =
        absl::StrFormat("machines, %d of %d, %d bytes: %s over %s", layout.machines, layout.each,
                        layout.bytes, over, under);
    if (aims.Measured({a.median, b.median}, what)) {
      aims.AtLeast(kTimesTcpMin, a.median / b.median, what);
    }
  }
  std::printf("}");
  std::fflush(stdout);
}

}  // namespace

int RunMachinesBench(int rounds, const char* namespaces, Aims& aims) {
  std::printf("{\"bench\": \"machines\", \"cases\": [\n");
  bool first = true;
  for (const int each : {2, 4}) {
    for (const int64_t bytes : {int64_t{1} << 10, int64_t{1} << 20, int64_t{64} << 20}) {
      const Layout layout{2, each, bytes};
      const auto timings =
          RunContest(Contenders(layout, namespaces), layout.machines * each, rounds, layout.runs());
      if (!std::exchange(first, false)) std::printf(",\n");
      PrintCase(layout, timings, aims);
    }
  }
  std::printf("\n]}\n");
  return 0;
}

}  // namespace rubato
