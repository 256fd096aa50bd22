// ring_bench allreduce [PROCESSES [BYTES]] | kill [ROUNDS
// [youngest|oldest|tcp|machines|majority|master]] | steady [ROUNDS [PROCESSES]] | join | grow |
// machines | overlap | straggler [ROUNDS] | --quick, each with --check to fail by aims that are
// missed.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "bench/ring/rivals.h"

namespace {

struct Case {
  const char* name;
  int (*run)(int rounds, const char* part, rubato::Aims& aims);  // All of it if `part` is empty.
  int rounds;
};
template <int (*kRun)(int, rubato::Aims&)>
int Whole(int rounds, const char*, rubato::Aims& aims) {
  return kRun(rounds, aims);
}
constexpr Case kCases[] = {{"kill",
                            [](int rounds, const char* part, rubato::Aims& aims) {
                              return rubato::RunKillBench(rounds, part, aims);
                            },
                            20},
                           {"join", Whole<rubato::RunJoinBench>, 7},
                           {"grow", Whole<rubato::RunGrowBench>, 5},
                           {"steady",
                            [](int rounds, const char* part, rubato::Aims& aims) {
                              return rubato::RunSteadyBench(rounds, std::atoi(part), aims);
                            },
                            7},
                           {"machines",
                            [](int rounds, const char* part, rubato::Aims& aims) {
                              return rubato::RunMachinesBench(rounds, part, aims);
                            },
                            5},
                           {"overlap", Whole<rubato::RunOverlapBench>, 5},
                           {"straggler", Whole<rubato::RunStragglerBench>, 3}};

int Run(const std::vector<const char*>& words, rubato::Aims& aims) {
  const auto argument = [&](size_t i) { return words.size() > i ? words[i] : ""; };
  const char* name = argument(0);
  if (std::strcmp(name, "allreduce") == 0) {
    return rubato::RunAllreduceBench(std::atoi(argument(1)), std::atoll(argument(2)), aims);
  }
  for (const Case& one : kCases) {
    if (std::strcmp(name, one.name) != 0) continue;
    const int rounds = words.size() > 1 ? std::atoi(words[1]) : one.rounds;
    if (rounds > 0) return one.run(rounds, argument(2), aims);
    std::fprintf(stderr, "ring_bench %s: '%s' is no number of rounds\n", name, words[1]);
    return 2;
  }
  if (std::strcmp(name, "--quick") == 0) {  // About two minutes in all.
    int failures = rubato::RunAllreduceBench(4, 1 << 20, aims);
    for (const Case& one : kCases) failures += one.run(1, "", aims);
    return failures;
  }
  std::fprintf(
      stderr,
      "usage: ring_bench allreduce [PROCESSES [BYTES]] | kill [ROUNDS "
      "[youngest|oldest|tcp|machines|majority|master]] | steady [ROUNDS [PROCESSES]] | join | grow "
      "| machines | overlap | straggler [ROUNDS] | --quick, each with [--check]\n");
  return 2;
}

}  // namespace

int main(int argc, char** argv) {
  std::vector<const char*> words(argv + 1, argv + argc);
  const bool check =
      std::erase_if(words, [](const char* word) { return std::strcmp(word, "--check") == 0; }) > 0;
  rubato::Aims aims;
  const int failed = Run(words, aims);
  return failed == 0 && check ? aims.Report() : failed;
}
