// ring_sim [SEEDS [FIRST [BUG [majority | any | master [PLANE]]]]]: runs that many simulated
// groups, prints one line of JSON, and exits 1 at the first seed whose run breaks a rule. Every
// second one has shared memory and every fourth applies steps early, unless PLANE names one for
// all: "shared", "votes" (over connections, with votes of their own) or "early". In every third
// with a master, that dies with the only holder of the state when another has it too. Without one,
// every third ends with a step, and every fifth is founded twice. There is nothing of all this
// where PLANE is "severed": all have connections, every fourth applies steps early, and one link
// between two dies for good.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <iterator>

#include "absl/time/time.h"
#include "rubato/ring/sim/world.h"

namespace {

rubato::RingWorldOptions OptionsOf(uint64_t seed, const char* mode, const char* plane) {
  const auto planned = [&](const char* name, bool by_seed) {
    return *plane == '\0' ? by_seed : std::strcmp(plane, name) == 0;
  };
  rubato::RingWorldOptions options{.seed = seed};
  const bool any = std::strcmp(mode, "any") == 0;
  options.quorum = any ? rubato::Quorum::kAny : rubato::Quorum::kMajority;
  options.master = std::strcmp(mode, "master") == 0;
  options.severed = planned("severed", false);
  options.shared_memory = planned("shared", seed % 2 == 1);
  options.early_apply = options.severed ? seed % 4 == 2 : planned("early", seed % 4 == 2);
  options.orphans = options.master && !options.severed && seed % 3 == 0;
  options.foundings = !options.master && !options.severed && seed % 5 == 3;
  options.ends = !options.master && !options.severed && seed % 3 == 1;
  return options;
}

}  // namespace

int main(int argc, char** argv) {
  const uint64_t seeds = argc > 1 ? std::strtoull(argv[1], nullptr, 10) : 1000;
  const uint64_t first = argc > 2 ? std::strtoull(argv[2], nullptr, 10) : 0;
  const int bug = argc > 3 ? std::atoi(argv[3]) : 0;
  const char* mode = argc > 4 ? argv[4] : "majority";
  const char* modes[] = {"majority", "any", "master"};
  if (std::none_of(std::begin(modes), std::end(modes),
                   [&](const char* one) { return std::strcmp(mode, one) == 0; })) {
    std::fprintf(stderr, "ring_sim: no mode \"%s\"; majority, any or master\n", mode);
    return 2;
  }
  const char* plane = argc > 5 ? argv[5] : "";
  int64_t committed = 0, views = 0, events = 0, lost = 0, restarts = 0, orphans = 0, struck = 0,
          fell_back = 0, founded_twice = 0, done = 0, told = 0, left = 0, forsaken = 0;
  double slowest_s = 0;
  for (uint64_t seed = first; seed < first + seeds; ++seed) {
    rubato::RingWorldOptions options = OptionsOf(seed, mode, plane);
    options.bug = static_cast<rubato::RingBug>(bug);
    rubato::RingWorld world(options);
    const rubato::RingWorldResult result = world.Run();
    if (!result.violation.empty()) {
      std::printf("{\"mode\": \"%s\", \"seed\": %llu, \"rule\": \"%s\", \"violation\": \"%s\"}\n",
                  mode, static_cast<unsigned long long>(seed), rubato::Name(result.broken),
                  result.violation.c_str());
      return 1;
    }
    committed += result.committed;
    views += static_cast<int64_t>(result.views);
    events += result.events;
    lost += result.quorum_lost;
    restarts += result.restarts;
    orphans += result.orphans;
    struck += result.struck;
    fell_back += result.fell_back;
    founded_twice += result.foundings > 1;
    done += result.done;
    told += result.told;
    left += result.lost;
    forsaken += result.forsaken;
    if (!result.quorum_lost && !options.ends) {
      slowest_s = std::max(slowest_s, absl::ToDoubleSeconds(result.agreed_after));
    }
  }
  std::printf(
      "{\"mode\": \"%s\", \"seeds\": %llu, \"events\": %lld, "
      "\"steps_committed\": %lld, \"views\": %lld, "
      "\"quorum_lost\": %lld, \"master_restarts\": %lld, \"orphans\": %lld, "
      "\"struck\": %lld, \"fell_back\": %lld, \"founded_twice\": %lld, "
      "\"ended\": %lld, \"told\": %lld, \"left\": %lld, \"forsaken\": %lld, "
      "\"slowest_agreement_s\": %.2f}\n",
      mode, static_cast<unsigned long long>(seeds), static_cast<long long>(events),
      static_cast<long long>(committed), static_cast<long long>(views),
      static_cast<long long>(lost), static_cast<long long>(restarts),
      static_cast<long long>(orphans), static_cast<long long>(struck),
      static_cast<long long>(fell_back), static_cast<long long>(founded_twice),
      static_cast<long long>(done), static_cast<long long>(told), static_cast<long long>(left),
      static_cast<long long>(forsaken), slowest_s);
  return 0;
}
