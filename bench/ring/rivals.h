#ifndef BENCH_RING_RIVALS_H_
#define BENCH_RING_RIVALS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "bench/ring/aims.h"
#include "bench/ring/contest.h"

namespace rubato {

#ifdef RUBATO_GLOO
// `algorithm` is ring, ring_chunked, halving_doubling or bcube.
std::vector<double> RunGloo(const std::string& algorithm, const Place& place, int64_t elements);
#endif

// Each process's buffer written for all to see, and another's read, as fast as memory can.
std::vector<double> RunMemoryLimit(const Place& place, int64_t elements);

// The bytes of a ring, sent and received as fast as sockets can.
std::vector<double> RunSocketLimit(const Place& place, int64_t elements);

// Each prints one object of JSON, and notes in `aims` what there is an aim for. 0 stands for all
// sizes; each time is [median, best], Gloo's over its fastest algorithm.
int RunAllreduceBench(int size_only, int64_t bytes_only, Aims& aims);
int RunMachinesBench(int rounds, const char* namespaces, Aims& aims);
int RunSteadyBench(int rounds, int size_only, Aims& aims);
int RunOverlapBench(int rounds, Aims& aims);
// `part` is youngest, oldest, tcp, majority or master; empty: all of them.
int RunKillBench(int rounds, const std::string& part, Aims& aims);
int RunJoinBench(int rounds, Aims& aims);
int RunGrowBench(int rounds, Aims& aims);
int RunStragglerBench(int rounds, Aims& aims);

}  // namespace rubato

#endif  // BENCH_RING_RIVALS_H_
