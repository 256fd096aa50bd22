// ring_bench allreduce [PROCESSES [BYTES]] | kill [ROUNDS [youngest|oldest|tcp]]
// | steady [ROUNDS [PROCESSES]] | join | grow | overlap | straggler [ROUNDS] | --quick
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "bench/ring/rivals.h"

namespace {

struct Case {
  const char* name;
  int (*run)(int rounds, const char* part);  // All of it if `part` is empty.
  int rounds;
};
template <int (*kRun)(int)>
int Whole(int rounds, const char*) {
  return kRun(rounds);
}
constexpr Case kCases[] = {
    {"kill", [](int rounds, const char* part) { return rubato::RunKillBench(rounds, part); }, 20},
    {"join", Whole<rubato::RunJoinBench>, 7},
    {"grow", Whole<rubato::RunGrowBench>, 5},
    {"steady",
     [](int rounds, const char* part) { return rubato::RunSteadyBench(rounds, std::atoi(part)); },
     7},
    {"overlap", Whole<rubato::RunOverlapBench>, 5},
    {"straggler", Whole<rubato::RunStragglerBench>, 3}};

}  // namespace

int main(int argc, char** argv) {
  const auto argument = [&](int i) { return argc > i ? argv[i] : ""; };
  const char* name = argument(1);
  if (std::strcmp(name, "allreduce") == 0) {
    return rubato::RunAllreduceBench(std::atoi(argument(2)), std::atoll(argument(3)));
  }
  for (const Case& one : kCases) {
    if (std::strcmp(name, one.name) == 0)
      return one.run(argc > 2 ? std::atoi(argv[2]) : one.rounds, argument(3));
  }
  if (std::strcmp(name, "--quick") == 0) {  // About two minutes in all.
    int failures = rubato::RunAllreduceBench(4, 1 << 20);
    for (const Case& one : kCases) failures += one.run(1, "");
    return failures;
  }
  std::fprintf(stderr,
               "usage: ring_bench allreduce [PROCESSES [BYTES]] | kill [ROUNDS "
               "[youngest|oldest|tcp]] | steady [ROUNDS [PROCESSES]] | join | grow | overlap | "
               "straggler [ROUNDS] | --quick\n");
  return 2;
}
