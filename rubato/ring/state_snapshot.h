// The state as it is between two steps, copied while training goes on.
//
//     in place ──Finish()────────▶ copied     a thread beside training, from the last piece on
//        └───────BeforeChange()──▶ copied     the training thread, which is about to change it
//
// Whoever comes to a piece first copies it, and none is changed before it is copied. So training
// waits for as much of the copy as the next step changes and the thread has not come to, and that
// it makes itself: for nothing where computing a step takes as long as copying the state.
//
// Any thread may call anything, but what BeforeChange() is not called for must stay as it is.
#ifndef RUBATO_RING_STATE_SNAPSHOT_H_
#define RUBATO_RING_STATE_SNAPSHOT_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "rubato/base/mutex.h"

namespace rubato {

class StateSnapshot {
 public:
  struct Options {
    size_t piece_bytes = 1 << 20;  // The longest that one thread waits for another.
    // Parts of the state up to this size are copied at once, and may change at any time: counters,
    // or a random number generator that the next step's computation moves.
    size_t small_bytes = 16 << 10;
  };

  // Of the state after `step`, whose parts must stay where they are until all is copied.
  StateSnapshot(int64_t step, absl::Span<const absl::Span<char>> state, const Options& options);

  int64_t step() const { return step_; }
  size_t bytes() const { return bytes_; }
  size_t piece_bytes() const { return options_.piece_bytes; }
  size_t pieces() const { return pieces_.size(); }  // One at least, if it is empty.

  // Copies what is left, and returns when all is there.
  void Finish();
  // `bytes`, of the state or of anything else, are about to change.
  void BeforeChange(absl::Span<const char> bytes);
  // Piece `index`, copied if it has yet to be.
  absl::string_view Piece(size_t index);
  // The same, which is gone with it.
  std::string TakePiece(size_t index);
  bool finished() const;

 private:
  enum class Place : uint8_t { kInPlace, kUnderWay, kCopied };
  struct Part {
    absl::Span<const char> from;
    size_t at = 0;  // Of the snapshot's bytes.
  };
  // Copies it, unless another thread does or did.
  void CopyOnce(size_t index);
  void AwaitCopy(size_t index);
  std::string Read(size_t index) const;

  const int64_t step_;
  const Options options_;
  size_t bytes_ = 0;
  std::deque<std::string> small_;  // Where the small parts are read from.
  std::vector<Part> parts_;
  mutable Mutex mu_;
  CondVar copied_;
  std::vector<Place> places_ ABSL_GUARDED_BY(mu_);  // Of the pieces.
  size_t left_ ABSL_GUARDED_BY(mu_) = 0;            // Those that are not copied.
  std::vector<std::string> pieces_;  // Each is its copier's until it is copied, and then stays.
};

}  // namespace rubato

#endif  // RUBATO_RING_STATE_SNAPSHOT_H_
