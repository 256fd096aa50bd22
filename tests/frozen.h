// Processes stopped by a test, each until its time has come.
#ifndef RUBATO_TESTS_FROZEN_H_
#define RUBATO_TESTS_FROZEN_H_

#include <sys/types.h>

#include <csignal>
#include <utility>
#include <vector>

#include "absl/time/clock.h"
#include "absl/time/time.h"

namespace rubato {

class Frozen {
 public:
  ~Frozen() { Thaw(absl::InfiniteFuture()); }
  // False if there is no such process any more.
  bool Freeze(pid_t pid, absl::Duration time) {
    if (kill(pid, SIGSTOP) != 0) return false;
    until_.emplace_back(absl::Now() + time, pid);
    return true;
  }
  // Those whose time has come by `now` go on; the dead are forgotten.
  void Thaw(absl::Time now) {
    std::erase_if(until_, [&](const auto& entry) {
      if (entry.first > now) return false;
      kill(entry.second, SIGCONT);
      return true;
    });
  }
  bool any() const { return !until_.empty(); }

 private:
  std::vector<std::pair<absl::Time, pid_t>> until_;
};

}  // namespace rubato

#endif  // RUBATO_TESTS_FROZEN_H_
