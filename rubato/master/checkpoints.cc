#include "rubato/master/checkpoints.h"

#include <algorithm>

namespace rubato {

Checkpoints::Checkpoints(const CheckpointSpec& spec) : spec_(spec), next_at_(spec.every_steps) {}

bool Checkpoints::DueInTraining(int64_t steps) const {
  return spec_.every_steps > 0 && !running() && steps >= next_at_;
}

void Checkpoints::Begin(int64_t version, int64_t step, bool last) {
  wanted_ = version;
  step_ = step;
  last_begun_ = last;
  if (spec_.every_steps > 0) next_at_ = (step / spec_.every_steps + 1) * spec_.every_steps;
}

bool Checkpoints::Complete(int64_t version, const SavedState& saved) {
  kept_.emplace_back(version, saved);
  if (static_cast<int64_t>(kept_.size()) <= std::max<int64_t>(spec_.keep, 1)) return false;
  dropped_ = kept_.front().first;
  kept_.erase(kept_.begin());
  return true;
}

}  // namespace rubato
