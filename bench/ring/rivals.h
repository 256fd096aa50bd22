#ifndef BENCH_RING_RIVALS_H_
#define BENCH_RING_RIVALS_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace rubato {

// Runs on every rank; returns the microseconds of each repetition, measured at this rank.
using TimedRuns = std::function<std::vector<double>(int rank, int size, int64_t elements, int runs,
                                                    const std::string& meeting)>;

#ifdef RUBATO_GLOO
// `algorithm` is ring, ring_chunked, halving_doubling or bcube; `meeting` an empty directory.
std::vector<double> RunGloo(const std::string& algorithm, int rank, int size, int64_t elements,
                            int runs, const std::string& meeting);
#endif

int RunAllreduceBench();
int RunKillBench(int rounds);

}  // namespace rubato

#endif  // BENCH_RING_RIVALS_H_
