#include "bench/ring/fleet.h"

#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>

namespace rubato {

int64_t NowNanos() {
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec * 1'000'000'000LL + now.tv_nsec;
}

double Median(std::vector<double> values) {
  if (values.empty()) return 0;
  std::nth_element(values.begin(), values.begin() + values.size() / 2, values.end());
  return values[values.size() / 2];
}

SharedBoard* MakeBoard() {
  void* memory =
      mmap(nullptr, sizeof(SharedBoard), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  return static_cast<SharedBoard*>(memory);
}

pid_t StartChild(const std::function<int()>& main) {
  std::fflush(nullptr);
  const pid_t pid = fork();
  if (pid == 0) _exit(main());
  return pid;
}

}  // namespace rubato
