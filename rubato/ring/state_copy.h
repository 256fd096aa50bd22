// The copy of a member's state to a newcomer, in chunks with checksums, beside training.
//
// The newcomer takes part in the view's steps from the first, with nothing to add, and keeps their
// sums. A holder that it asks takes a snapshot (state_snapshot.h) at the end of any step of the
// view and serves it, a few chunks at a time; once it is whole, the newcomer applies the sums kept
// since. Only then may it become a holder: a member never serves what it has not got.
//
// A snapshot may be of a step that the newcomer has yet to see through, or that a change of view
// undoes; so it is used only when the newcomer has finished that step too, and dropped if its
// source falls out of the view. A source that brings nothing is left for another.
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
#include "absl/time/time.h"
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
  // How much of it is there.
  uint64_t bytes() const { return bytes_; }
  // Of the snapshot; -1 until the first chunk is there.
  int64_t step() const { return step_; }
  uint64_t bytes_total() const { return total_bytes_.value_or(0); }

 private:
  const int64_t min_step_;
  const uint32_t chunk_bytes_;
  int64_t step_ = -1;
  std::optional<uint64_t> total_bytes_;
  size_t missing_ = 0;
  uint64_t bytes_ = 0;
  std::vector<bool> have_;
  std::string snapshot_;
};

// Which holder a learner asks. Others may vouch for one that it does not reach, and no sum need
// that link: then nobody but the learner notices. So one that brings nothing for too long is left
// for the next, as is one that hung up. Each time the wait is twice as long, for it may have been
// just too short.
class SourceChoice {
 public:
  // `patience` for the next bytes, and `making` more for the first: a snapshot is copied before any
  // of it is sent.
  explicit SourceChoice(absl::Duration patience, absl::Duration making = absl::ZeroDuration())
      : patience_min_(patience), making_(making) {}

  // For `self`, a learner of `view`: learners are spread over the holders, so that several do not
  // drain one. False if there is none.
  bool Begin(const GroupView& view, MemberId self);
  // The next holder of `view` in turn, which may be the same if there is no other.
  bool Next(const GroupView& view, MemberId self);
  MemberId source() const { return source_; }

  // Between two steps, the last of which was `step`, with so many bytes of the copy there: whether
  // the source is to be left. It answers between two steps itself, however long they are, so no
  // time counts before it must have come to one.
  bool InVain(int64_t step, uint64_t bytes, absl::Time now);

 private:
  // A learner that finishes the second step from here has seen its source begin one.
  static constexpr int kSteps = 2;
  static constexpr int kPatienceMax = 32;  // Times the least.

  const absl::Duration patience_min_;
  const absl::Duration making_;
  MemberId source_;
  absl::Duration patience_;
  int64_t asked_ = -1;  // After this step; -1: it is yet to be told.
  uint64_t bytes_ = 0;
  absl::Time since_;  // Nothing has come.
};

}  // namespace rubato

#endif  // RUBATO_RING_STATE_COPY_H_
