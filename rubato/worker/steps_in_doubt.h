// What a worker of a group computed for steps of which it does not know yet whether they stay.
//
// A step that was applied early, or whose sum was under way when the group went on without this
// worker, is in doubt: the others may have it, and then its part counted, or redo it, and then it
// was computed in vain. At most two are in doubt at a time. Pure.
#ifndef RUBATO_WORKER_STEPS_IN_DOUBT_H_
#define RUBATO_WORKER_STEPS_IN_DOUBT_H_

#include <cstdint>
#include <deque>

#include "absl/time/time.h"

namespace rubato {

class StepsInDoubt {
 public:
  struct Work {
    absl::Duration computed;
    int64_t positions = 0;
  };

  void Took(int64_t step, const Work& work) { steps_.push_back({step, work}); }

  // Steps up to this one stay.
  void Committed(int64_t step) {
    while (!steps_.empty() && steps_.front().step <= step) steps_.pop_front();
  }

  // The group went on from `step`, without this worker; -1: from where is not known. What was in
  // vain.
  Work Parted(int64_t step) {
    Committed(step);
    Work lost;
    for (const Entry& entry : steps_) {
      lost.computed += entry.work.computed;
      lost.positions += entry.work.positions;
    }
    steps_.clear();
    return lost;
  }

 private:
  struct Entry {
    int64_t step = 0;
    Work work;
  };
  std::deque<Entry> steps_;  // In order.
};

}  // namespace rubato

#endif  // RUBATO_WORKER_STEPS_IN_DOUBT_H_
