// The time, handed in: the real one lives in adapters/posix, the simulated one in sim/.
#ifndef RUBATO_BASE_CLOCK_H_
#define RUBATO_BASE_CLOCK_H_

#include "absl/time/time.h"

namespace rubato {

class Clock {
 public:
  virtual ~Clock() = default;
  // Never goes backwards within one process.
  virtual absl::Time Now() const = 0;
};

}  // namespace rubato

#endif  // RUBATO_BASE_CLOCK_H_
