// Jobs of the asked size that take turns while not all fit: what gandiva and themis share.
#ifndef RUBATO_SCHEDULE_TURNS_H_
#define RUBATO_SCHEDULE_TURNS_H_

#include <functional>

#include "absl/types/span.h"
#include "rubato/schedule/policy.h"

namespace rubato {

// Serves jobs in `order` (indices of view.jobs) while there are GPUs. If anyone waits, the plan
// asks to be woken when the first turn of those served ends: `left_s` says how much of its turn a
// job has left. At least a second lies between two turns.
Plan TakeTurns(const ClusterView& view, absl::Span<const size_t> order,
               const std::function<double(const JobView&)>& left_s);

}  // namespace rubato

#endif  // RUBATO_SCHEDULE_TURNS_H_
