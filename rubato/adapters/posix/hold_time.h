// How long something kept others waiting: in its thread's own CPU time, which is the same however
// busy the machine is, and by the clock, which is what they waited, a slow disk and all.
#ifndef RUBATO_ADAPTERS_POSIX_HOLD_TIME_H_
#define RUBATO_ADAPTERS_POSIX_HOLD_TIME_H_

#include <ctime>

#include <atomic>
#include <cstdint>

namespace rubato {

// In microseconds. Any thread may look.
struct LongestHold {
  std::atomic<int64_t> cpu_us = 0;
  std::atomic<int64_t> wall_us = 0;
};

// Raises `longest` to what passes in its life. One thread makes them at a time.
class HoldTime {
 public:
  explicit HoldTime(LongestHold& longest) : longest_(longest) {}
  ~HoldTime() {
    Raise(longest_.cpu_us, Now(CLOCK_THREAD_CPUTIME_ID) - cpu_began_);
    Raise(longest_.wall_us, wall_us());
  }
  HoldTime(const HoldTime&) = delete;
  HoldTime& operator=(const HoldTime&) = delete;

  // So far.
  int64_t wall_us() const { return Now(CLOCK_MONOTONIC) - wall_began_; }

 private:
  static int64_t Now(clockid_t clock) {
    timespec now{};
    clock_gettime(clock, &now);
    return int64_t{now.tv_sec} * 1000000 + now.tv_nsec / 1000;
  }
  static void Raise(std::atomic<int64_t>& longest, int64_t took) {
    if (took > longest) longest = took;
  }

  LongestHold& longest_;
  const int64_t cpu_began_ = Now(CLOCK_THREAD_CPUTIME_ID);
  const int64_t wall_began_ = Now(CLOCK_MONOTONIC);
};

}  // namespace rubato

#endif  // RUBATO_ADAPTERS_POSIX_HOLD_TIME_H_
