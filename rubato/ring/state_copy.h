// The copy of a member's state to a newcomer, in chunks with checksums, beside training.
//
// The newcomer takes part in the view's steps from the first, with nothing to add, and keeps their
// sums. A holder that it asks takes a snapshot (state_snapshot.h) at the end of any step of the
// view and serves it, a few chunks at a time; once it is whole, the newcomer applies the sums kept
// since. Only then may it become a holder: a member never serves what it has not got.
//
// A snapshot may be of a step that the newcomer has yet to see through, or that a change of view
// undoes; so it is used only when the newcomer has finished that step too, and dropped if its
// source falls out of the view.
#ifndef RUBATO_RING_STATE_COPY_H_
#define RUBATO_RING_STATE_COPY_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "rubato/membership/view.h"
#include "rubato/ring/state_snapshot.h"

namespace rubato {

struct StateRequest {
  int64_t min_step = 0;  // The state after this step or a later one.
  uint32_t chunk = 0;
};

struct StateChunk {
  int64_t step = 0;
  uint32_t chunk = 0;
  uint64_t total_bytes = 0;
  uint64_t checksum = 0;  // Of all the rest: see Sum().
  std::string bytes;

  uint64_t Sum() const;
};

// The holder's half: one snapshot, kept until the newcomers that it is for hold the state. Its
// pieces are the chunks.
class StateSource {
 public:
  explicit StateSource(std::shared_ptr<StateSnapshot> snapshot) : snapshot_(std::move(snapshot)) {}

  // NOT_FOUND if the snapshot is too old, OUT_OF_RANGE for a chunk beyond the end.
  absl::StatusOr<StateChunk> Serve(const StateRequest& request) const;
  int64_t step() const { return snapshot_->step(); }

 private:
  const std::shared_ptr<StateSnapshot> snapshot_;
};

// The newcomer's half.
class StateSink {
 public:
  // Steps after `min_step` can be made up for.
  StateSink(int64_t min_step, uint32_t chunk_bytes)
      : min_step_(min_step), chunk_bytes_(chunk_bytes) {}

  // What to ask for now, at most `window` chunks, those still missing first. Asking again is how a
  // lost request is repeated.
  std::vector<StateRequest> Want(int window) const;
  // DATA_LOSS if the checksum is wrong, FAILED_PRECONDITION if it is of another step than the first
  // chunk. The chunk is then still missing.
  absl::Status Take(const StateChunk& chunk);
  bool complete() const { return total_bytes_ && missing_ == 0; }
  // The whole snapshot; complete() must hold.
  std::string TakeSnapshot();
  // Of the snapshot; -1 until the first chunk is there.
  int64_t step() const { return step_; }
  uint64_t bytes_total() const { return total_bytes_.value_or(0); }

 private:
  const int64_t min_step_;
  const uint32_t chunk_bytes_;
  int64_t step_ = -1;
  std::optional<uint64_t> total_bytes_;
  size_t missing_ = 0;
  std::vector<bool> have_;
  std::string snapshot_;
};

// The holder that serves learner `learner` (a place behind the holders): spread over all of them,
// so that several newcomers do not drain one.
int SourceRank(const GroupView& view, int learner);

}  // namespace rubato

#endif  // RUBATO_RING_STATE_COPY_H_
