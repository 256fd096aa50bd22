// ring_bench allreduce [PROCESSES [BYTES]] | kill [ROUNDS] | join [ROUNDS] | --quick
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "bench/ring/rivals.h"

int main(int argc, char** argv) {
  if (argc > 1 && std::strcmp(argv[1], "allreduce") == 0) {
    return rubato::RunAllreduceBench(argc > 2 ? std::atoi(argv[2]) : 0,
                                     argc > 3 ? std::atoll(argv[3]) : 0);
  }
  if (argc > 1 && std::strcmp(argv[1], "kill") == 0) {
    return rubato::RunKillBench(argc > 2 ? std::atoi(argv[2]) : 20);
  }
  if (argc > 1 && std::strcmp(argv[1], "join") == 0) {
    return rubato::RunJoinBench(argc > 2 ? std::atoi(argv[2]) : 10);
  }
  if (argc > 1 && std::strcmp(argv[1], "--quick") == 0) {  // About a minute in all.
    return rubato::RunAllreduceBench(4, 1 << 20) + rubato::RunKillBench(3) +
           rubato::RunJoinBench(2);
  }
  std::fprintf(stderr,
               "usage: ring_bench allreduce [PROCESSES [BYTES]] | kill [ROUNDS] | join [ROUNDS] | "
               "--quick\n");
  return 2;
}
