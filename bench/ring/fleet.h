// Processes of a benchmark, and the memory they share with it.
#ifndef BENCH_RING_FLEET_H_
#define BENCH_RING_FLEET_H_

#include <sys/types.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace rubato {

// Monotonic nanoseconds, the same for all processes.
int64_t NowNanos();
double Median(std::vector<double> values);

constexpr int kFleetMax = 16;

// What a member last did, for the parent to read.
struct MemberReport {
  std::atomic<int64_t> step;
  std::atomic<int64_t> committed_nanos;
  std::atomic<uint64_t> view;
  std::atomic<int> holders;
  std::atomic<int64_t> noticed_nanos, agreed_nanos, entered_nanos;
};

struct SharedBoard {
  MemberReport members[kFleetMax];
  std::atomic<int> stop;
  std::atomic<int> ready;
  double results[64];
  char address[64];
};

// Zeroed memory that children inherit.
SharedBoard* MakeBoard();
// Forks; the child runs `main` and exits with what it returns.
pid_t StartChild(const std::function<int()>& main);

}  // namespace rubato

#endif  // BENCH_RING_FLEET_H_
