// Time in a simulated world: it stands still while something happens, and then jumps to whatever
// happens next.
#ifndef RUBATO_SIM_EVENT_QUEUE_H_
#define RUBATO_SIM_EVENT_QUEUE_H_

#include <cstdint>
#include <functional>
#include <queue>
#include <utility>
#include <vector>

#include "absl/time/time.h"

namespace rubato {

class EventQueue {
 public:
  absl::Time now() const { return now_; }
  int64_t steps() const { return steps_; }

  // Events of one moment run in the order in which they were asked for.
  void After(absl::Duration delay, std::function<void()> what) {
    queue_.push({now_ + delay, ++sequence_, std::move(what)});
  }

  // Runs the next event; false if there is none.
  bool Step() {
    if (queue_.empty()) return false;
    Waiting next = std::move(const_cast<Waiting&>(queue_.top()));
    queue_.pop();
    now_ = next.when;
    ++steps_;
    next.what();
    return true;
  }

 private:
  struct Waiting {
    absl::Time when;
    int64_t sequence;
    std::function<void()> what;
    bool operator<(const Waiting& other) const {
      return when != other.when ? when > other.when : sequence > other.sequence;
    }
  };

  absl::Time now_ = absl::UnixEpoch();
  int64_t sequence_ = 0;
  int64_t steps_ = 0;
  std::priority_queue<Waiting> queue_;
};

}  // namespace rubato

#endif  // RUBATO_SIM_EVENT_QUEUE_H_
