// The real clock: wall time at the start, carried forward by the monotonic one.
#ifndef RUBATO_ADAPTERS_POSIX_REAL_CLOCK_H_
#define RUBATO_ADAPTERS_POSIX_REAL_CLOCK_H_

#include <chrono>

#include "absl/time/clock.h"
#include "rubato/base/clock.h"

namespace rubato {

class RealClock final : public Clock {
 public:
  absl::Time Now() const override {
    return start_ + absl::FromChrono(std::chrono::steady_clock::now() - monotonic_);
  }

 private:
  const absl::Time start_ = absl::Now();
  const std::chrono::steady_clock::time_point monotonic_ = std::chrono::steady_clock::now();
};

}  // namespace rubato

#endif  // RUBATO_ADAPTERS_POSIX_REAL_CLOCK_H_
