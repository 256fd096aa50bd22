#ifndef BENCH_RING_RIVALS_H_
#define BENCH_RING_RIVALS_H_

#include <cstdint>
#include <string>
#include <vector>

namespace rubato {

#ifdef RUBATO_GLOO
// `algorithm` is ring, ring_chunked, halving_doubling or bcube; `meeting` an empty directory.
std::vector<double> RunGloo(const std::string& algorithm, int rank, int size, int64_t elements,
                            int runs, const std::string& meeting);
#endif

// 0 stands for all sizes. Each time is [median, best], Gloo's over its fastest algorithm.
int RunAllreduceBench(int size_only, int64_t bytes_only);
int RunKillBench(int rounds);
int RunJoinBench(int rounds);

}  // namespace rubato

#endif  // BENCH_RING_RIVALS_H_
