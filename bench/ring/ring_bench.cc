// ring_bench allreduce [PROCESSES [BYTES]] | kill | join | grow | steady | overlap | straggler
// [ROUNDS] | --quick
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "bench/ring/rivals.h"

namespace {

struct Case {
  const char* name;
  int (*run)(int rounds);
  int rounds;
};
constexpr Case kCases[] = {
    {"kill", rubato::RunKillBench, 20},      {"join", rubato::RunJoinBench, 7},
    {"grow", rubato::RunGrowBench, 5},       {"steady", rubato::RunSteadyBench, 7},
    {"overlap", rubato::RunOverlapBench, 5}, {"straggler", rubato::RunStragglerBench, 3}};

}  // namespace

int main(int argc, char** argv) {
  const char* name = argc > 1 ? argv[1] : "";
  if (std::strcmp(name, "allreduce") == 0) {
    return rubato::RunAllreduceBench(argc > 2 ? std::atoi(argv[2]) : 0,
                                     argc > 3 ? std::atoll(argv[3]) : 0);
  }
  for (const Case& one : kCases) {
    if (std::strcmp(name, one.name) == 0)
      return one.run(argc > 2 ? std::atoi(argv[2]) : one.rounds);
  }
  if (std::strcmp(name, "--quick") == 0) {  // About two minutes in all.
    int failures = rubato::RunAllreduceBench(4, 1 << 20);
    for (const Case& one : kCases) failures += one.run(1);
    return failures;
  }
  std::fprintf(stderr,
               "usage: ring_bench allreduce [PROCESSES [BYTES]] | kill | join | grow | steady | "
               "overlap | straggler [ROUNDS] | --quick\n");
  return 2;
}
