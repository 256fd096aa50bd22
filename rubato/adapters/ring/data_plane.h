// How the members of one view move bulk data: over TCP, or through shared memory.
//
// Every call is collective: all members of the view make the same calls in the same order. A call
// returns ABORTED as soon as the view is no longer live, whoever it waits for; the buffers are then
// undefined. One thread at a time calls it.
#ifndef RUBATO_ADAPTERS_RING_DATA_PLANE_H_
#define RUBATO_ADAPTERS_RING_DATA_PLANE_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "rubato/membership/view.h"
#include "rubato/ring/kernels.h"

namespace rubato {

// What the control thread shows to the training thread.
struct Attention {
  std::atomic<uint64_t> live_view{0};  // 0 while a change of view is under way.
  int event_fd = -1;                   // Readable when live_view has changed.
};

class DataPlane {
 public:
  virtual ~DataPlane() = default;

  // Takes part in `view` as `self` from now on; keeps what it has to members who stay.
  virtual absl::Status Enter(const GroupView& view, int rank, MemberId self) = 0;
  // Sums over all members; the same bits everywhere.
  virtual absl::Status Allreduce(absl::Span<float> values, WireFormat format) = 0;
  virtual absl::Status Broadcast(absl::Span<char> bytes, int root) = 0;
  // Returns when all members have called it; `speeds` are theirs, by rank.
  virtual absl::Status Vote(int64_t step, float speed, std::vector<float>& speeds) = 0;
};

}  // namespace rubato

#endif  // RUBATO_ADAPTERS_RING_DATA_PLANE_H_
