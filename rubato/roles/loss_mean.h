// The losses between two heartbeats, as their mean.
#ifndef RUBATO_ROLES_LOSS_MEAN_H_
#define RUBATO_ROLES_LOSS_MEAN_H_

#include <cstdint>

#include "rubato/master/messages.h"

namespace rubato {

class LossMean {
 public:
  void Add(double loss) {
    sum_ += loss;
    ++batches_;
  }
  // Tells what came since the last time, and begins anew.
  void TakeInto(WorkerHeartbeat* beat) {
    beat->loss = batches_ > 0 ? sum_ / static_cast<double>(batches_) : 0;
    beat->loss_batches = batches_;
    *this = {};
  }

 private:
  double sum_ = 0;
  int64_t batches_ = 0;
};

}  // namespace rubato

#endif  // RUBATO_ROLES_LOSS_MEAN_H_
