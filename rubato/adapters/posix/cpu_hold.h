// How long something kept a thread to itself, in the thread's own CPU time: what others wait for it
// at least, and, unlike time on the wall, the same however busy the machine is.
#ifndef RUBATO_ADAPTERS_POSIX_CPU_HOLD_H_
#define RUBATO_ADAPTERS_POSIX_CPU_HOLD_H_

#include <ctime>

#include <atomic>
#include <cstdint>

namespace rubato {

// Raises `longest`, in microseconds, to what passes in its life. One thread makes them at a time.
class CpuHold {
 public:
  explicit CpuHold(std::atomic<int64_t>& longest) : longest_(longest), began_(Now()) {}
  ~CpuHold() {
    const int64_t took = Now() - began_;
    if (took > longest_) longest_ = took;
  }
  CpuHold(const CpuHold&) = delete;
  CpuHold& operator=(const CpuHold&) = delete;

 private:
  static int64_t Now() {
    timespec now{};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return int64_t{now.tv_sec} * 1000000 + now.tv_nsec / 1000;
  }

  std::atomic<int64_t>& longest_;
  const int64_t began_;
};

}  // namespace rubato

#endif  // RUBATO_ADAPTERS_POSIX_CPU_HOLD_H_
