// What is known of each worker's end, until its one record is written.
//
// The pieces of a record come from the parent of the process, from the issuer of views and from a
// survivor, in any order and with a restart of the master between them: so each is journaled. A
// worker whose end was told is told of no more; what happens to it later is collateral.
//
// What it cost has four parts, one after the other, from its last sign of life to the next step:
//
//     heard ──detect──▶ noticed ──agree──▶ founded ──reconnect──▶ held ──redo──▶ a step is applied
//
// Where others of its view live, one of them tells the parts (GroupChange). Where nobody is left,
// the next generation is what all wait for, and the master has seen when each part ended.
//
// Without a master each worker keeps these for itself (roles/chronicle.h), and writes the same
// record of what it saw.
#ifndef RUBATO_MASTER_FAILURES_H_
#define RUBATO_MASTER_FAILURES_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "rubato/base/ids.h"
#include "rubato/master/effect.h"
#include "rubato/master/messages.h"

namespace rubato {

struct Failure {
  absl::Time noted;    // In this life of the master.
  absl::Time noticed;  // By the master.
  absl::Time heard;    // Its last sign of life, to whoever tells what its end cost; 0: not known.
  int64_t pid = 0;
  std::string where;
  int64_t step = 0;     // The last that was committed.
  std::string cause;    // As its parent saw it, or the lease; empty if nobody saw its end.
  bool silent = false;  // Nobody saw it end.
  std::string state;    // "copying" the model, or "joining" a group; empty: it held the model.
  std::string noticed_by, reason;
  uint64_t view = 0;               // The first without it.
  int64_t generation = 0;          // Or the one that goes on where it ended, for want of others,
  absl::Time founded;              // begun at this time by one
  std::optional<absl::Time> held;  // who has the state since then.
  std::optional<GroupChange> change;

  // From its last sign of life until whoever tells the rest let go of the view.
  absl::Duration detect() const;
  friend bool operator==(const Failure&, const Failure&) = default;
};

std::string EncodeFailure(const Failure& failure);
// DATA_LOSS if the bytes are none of ours.
absl::StatusOr<Failure> DecodeFailure(absl::string_view bytes);

// How a record calls what is the same in all of them.
struct FailureWords {
  JobEvent::Value worker;     // Its number, or where there are none its address.
  std::string noticed_by;     // If nobody of the group did.
  std::string cause;          // If nobody knows the failure's own:
  std::string collateral_of;  // then the first cause, if there is one.
};
// The one record of `failure`, an event "failure".
JobEvent RecordOf(const Failure& failure, const FailureWords& words, absl::Time now);

// Why one that held the model copies it anew, and stays where it is.
inline constexpr char kNotLevelCause[] =
    "it was a step behind or ahead of those who went on, and copies the model from them";
// "worker-3: silent for 1.2s", and `more` behind it.
std::string SilentCause(const std::string& who, const Failure& failure, absl::string_view more);
// What to say of one that left the group and whose end nobody has told of.
std::string UnseenCause(const std::string& who, const std::string& reason, bool lives);

class Failures {
 public:
  // Not yet told.
  const std::map<WorkerId, Failure>& open() const { return open_; }
  // Those that `change` was about, with what it took. If another died before the next step, the
  // change to a later view is what brought that step.
  std::map<WorkerId, Failure> Changed(const GroupChange& change) const;
  // Null if its end was not told, or not its end: it may join again.
  const std::string* CauseTold(WorkerId worker) const;
  // The cause of a failure that the change to `view` was about; empty if none is known.
  std::string FirstCause(uint64_t view) const;

  // ---- entries ----
  void Note(WorkerId worker, Failure failure) { open_[worker] = std::move(failure); }
  void Told(WorkerId worker);
  void Forget(WorkerId worker) { open_.erase(worker); }  // It was none.
  // Those who could tell more have yet to find a restarted master.
  void Restart(absl::Time now);

 private:
  std::map<WorkerId, Failure> open_;
  std::map<WorkerId, std::string> told_;
  uint64_t told_view_ = 0;  // The last that was told with a cause, and
  std::string told_cause_;  // that cause.
};

}  // namespace rubato

#endif  // RUBATO_MASTER_FAILURES_H_
