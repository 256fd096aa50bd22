// How a newcomer comes by the state that the others hold, beside training.
//
//     a holder    step ─── step ─┬─ step ─── step ───          Serve: a snapshot of what is there
//     a learner   sum ──── sum ──┴─ sum ──── sum ── CatchUp    Keep the sums, then load and apply
//
// A learner takes part in every step and keeps its sums while the snapshot is on its way; then it
// puts that in place, piece by piece, and applies those that came after it, all while the others
// compute. It keeps them in so much memory at most, and then in a file, for nobody shall wait for a
// copy: see ring/kept_sums.h. The training thread owns it.
#ifndef RUBATO_ADAPTERS_RING_STATE_EXCHANGE_H_
#define RUBATO_ADAPTERS_RING_STATE_EXCHANGE_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "rubato/adapters/ring/state_server.h"
#include "rubato/adapters/ring/sum_file.h"
#include "rubato/adapters/ring/tcp_edges.h"
#include "rubato/adapters/tls/tls_links.h"
#include "rubato/base/mutex.h"
#include "rubato/membership/view.h"
#include "rubato/ring/kept_sums.h"
#include "rubato/ring/state_copy.h"
#include "rubato/ring/state_snapshot.h"

namespace rubato {

class StateExchange {
 public:
  struct Options {
    // As in GroupOptions.
    std::vector<absl::Span<char>> state;
    std::function<void()> apply;
    size_t kept_bytes_max = 0;
    std::string kept_folder;
    uint64_t group = 0;             // Tells groups apart on the wire.
    const TlsLinks* tls = nullptr;  // May be null, and must live longer.
    // A source that brings nothing for so long is left for another.
    absl::Duration lease = absl::Seconds(2);
    Resolver* names = nullptr;  // Likewise; null: it looks names up for itself.
  };
  explicit StateExchange(Options options);

  // ---- holders ----
  // A newcomer asks for the state. Called by the control thread.
  void Ask(const EdgeHello& hello, std::unique_ptr<Stream> stream);
  // Answers those who asked and are in `view` too; the state here is that after `step`.
  void Serve(const GroupView& view, MemberId self, int64_t step);
  // The state as it is now, after `step`, copied beside training.
  std::shared_ptr<StateSnapshot> TakeSnapshot(int64_t step);
  // `bytes` of the state are about to change, or all of it: what of them belongs to a snapshot that
  // is still under way is copied first.
  void BeforeChange(absl::Span<const char> bytes);
  void BeforeChange();

  // ---- learners ----
  // Asks a holder of `view` for a snapshot; what was kept so far is forgotten.
  void Begin(const GroupView& view, MemberId self);
  // Whether a snapshot is on its way from one that holds `view`.
  bool Copies(const GroupView& view) const { return copying() && view.Holds(sources_.source()); }
  void Keep(int64_t step, absl::Span<const absl::Span<float>> buffers);
  // True once the state is that after `finished`, which has been kept last. Applies what was kept
  // for about as long as `patience`, and then returns false: go on with the next step. Asks another
  // holder if the copy failed, or stands still. RESOURCE_EXHAUSTED if what passed meanwhile could
  // not be kept.
  absl::StatusOr<bool> CatchUp(const GroupView& view, MemberId self, int64_t finished,
                               absl::Duration patience);
  // The step that the state is after, between the snapshot's and the last; -1: it is yet to come.
  int64_t reached() const { return reached_; }
  size_t kept_bytes() const { return kept_.bytes(); }             // In memory,
  int64_t kept_elsewhere_bytes() const { return file_.bytes(); }  // and in the file.
  // Some of a snapshot is there.
  bool begun() const { return fetcher_ && fetcher_->step() >= 0; }
  // Some of the state is the snapshot's, and some is not.
  bool torn() const { return restored_ > 0; }
  void Drop();

 private:
  struct Kept {  // A buffer of the training loop, and what was in it.
    absl::Span<float> buffer;
    std::vector<float> sum;
    int64_t at = 0;  // In the file, if `sum` is empty.
  };

  bool copying() const { return fetcher_ != nullptr || snapshot_ || reached_ >= 0; }
  // Whether the snapshot is there, whole,
  bool Arrived(const GroupView& view, MemberId self, int64_t finished);
  // and in place.
  bool Restored(absl::Time until);
  absl::Status ApplyNext();
  void Fetch(const GroupView& view, MemberId self, int64_t min_step);
  // The source brings nothing: another snapshot, of the state after `finished` or later.
  void FetchElsewhere(const GroupView& view, MemberId self, int64_t finished);
  struct Asker {
    EdgeHello hello;
    std::unique_ptr<Stream> stream;
  };

  const Options options_;
  Resolver own_names_;
  KeptSums<std::vector<Kept>> kept_;
  SumFile file_;
  absl::Status keeping_;                // Not OK: a sum was lost.
  std::optional<StateChunk> snapshot_;  // All of it, on its way into the state:
  size_t restored_ = 0;                 // so many bytes are there.
  int64_t reached_ = -1;
  std::unique_ptr<StateFetcher> fetcher_;
  SourceChoice sources_;
  std::vector<std::weak_ptr<StateSnapshot>> under_way_;
  StateServer server_;
  Mutex mu_;
  std::vector<Asker> askers_ ABSL_GUARDED_BY(mu_);
};

}  // namespace rubato

#endif  // RUBATO_ADAPTERS_RING_STATE_EXCHANGE_H_
