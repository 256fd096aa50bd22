// How the members of one view move bulk data: over TCP, through shared memory, or both.
//
// Every call is collective: all members of the view make the same calls in the same order. A call
// returns ABORTED as soon as the view is no longer live, whoever it waits for, and INTERNAL if they
// do not make the same calls; the buffers are then undefined. One thread at a time calls it.
#ifndef RUBATO_ADAPTERS_RING_DATA_PLANE_H_
#define RUBATO_ADAPTERS_RING_DATA_PLANE_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "rubato/base/rng.h"
#include "rubato/membership/view.h"
#include "rubato/ring/kernels.h"

namespace rubato {

// What the control thread shows to the training thread.
struct Attention {
  std::atomic<uint64_t> live_view{0};  // 0 while a change of view is under way.
  int event_fd = -1;                   // Readable when live_view has changed.
};

// One call of a data plane as a word that is the same at all members, unless a loop has a mistake.
// `which` is the step of a vote, the root of a broadcast.
enum class Collective : uint8_t {
  kAllreduce,
  kAllreduceAndVote,
  kAllreduceAndTell,
  kBroadcast,
  kVote,
};
inline uint64_t CallWord(Collective what, uint64_t bytes, WireFormat format, int64_t which) {
  const auto kind = static_cast<uint64_t>(what) << 8 | static_cast<uint64_t>(format);
  return Mix(Mix(kind, bytes), static_cast<uint64_t>(which));
}

// What a vote that rides in a reduction needs.
struct Voting {
  int64_t step = 0;
  float speed = 0;
  std::vector<float>* speeds = nullptr;  // Of all, by rank, once all votes are in.
  // Called before anything of the vote leaves, with what takes it back: see StepGate::Pledge.
  // False: the view has ended.
  std::function<bool(std::function<bool()> withdraw)> pledge;
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

  // Whether the last reduction of a step can carry the votes for it.
  virtual bool carries_votes() const { return false; }
  // Allreduce and Vote in one, for a plane that can: true if all votes are in, false if the sum is
  // there but someone took its vote back, so that the next view has to tell. DATA_LOSS if the sum
  // was there, and was overwritten by those who went on without this member.
  virtual absl::StatusOr<bool> AllreduceAndVote(absl::Span<float> values, WireFormat format,
                                                const Voting& voting) {
    return absl::UnimplementedError("this plane carries no votes");
  }
  // Allreduce that also tells the speeds of all, by rank, as Vote does, for a plane that does not
  // carry votes: whoever has the sum knows that all have come so far, with the step before behind
  // them, but not that they have this sum.
  virtual absl::Status AllreduceAndTell(absl::Span<float> values, WireFormat format, float speed,
                                        std::vector<float>& speeds) {
    return absl::UnimplementedError("this plane carries votes");
  }
};

}  // namespace rubato

#endif  // RUBATO_ADAPTERS_RING_DATA_PLANE_H_
