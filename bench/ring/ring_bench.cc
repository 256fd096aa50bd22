// ring_bench allreduce | kill [ROUNDS]
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "bench/ring/rivals.h"

int main(int argc, char** argv) {
  if (argc > 1 && std::strcmp(argv[1], "allreduce") == 0) return rubato::RunAllreduceBench();
  if (argc > 1 && std::strcmp(argv[1], "kill") == 0) {
    return rubato::RunKillBench(argc > 2 ? std::atoi(argv[2]) : 20);
  }
  std::fprintf(stderr, "usage: ring_bench allreduce | kill [ROUNDS]\n");
  return 2;
}
