// One decision of the master, as its journal keeps it. Small: most are a dozen bytes.
#ifndef RUBATO_MASTER_ENTRY_H_
#define RUBATO_MASTER_ENTRY_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "rubato/base/ids.h"
#include "rubato/base/interval_set.h"
#include "rubato/master/messages.h"

namespace rubato {

// The numbers are in files: never change one, only add.
enum class EntryKind : uint8_t {
  kCreated = 1,     // text: the job's shape; numbers: when.
  kRestarted = 2,   // value: 1 if resumed, everybody being gone; numbers: when.
  kLaunched = 3,    // role, id, incarnation; value: a worker's slot.
  kRegistered = 4,  // role, id; value: pid, text: address.
  kLeaving = 5,     // A worker is asked to leave.
  kEvicted = 6,     // A worker was silent; its tasks are fenced off. numbers: totals.
  kFenced = 7,      // Every server refuses that worker: its tasks are open again.
  kExited = 8,      // role, id; value: ExitKind, text: last words, numbers: totals.
  kLeased = 9,      // id: worker, task.
  // id: worker, task, value: upto; sums for evaluations; numbers: bad rows, if any, and text:
  // the last of them.
  kCommitted = 10,
  kReleased = 11,         // task.
  kTaskFailed = 12,       // id: worker, task, text: error; value: 1 if not finite.
  kScaled = 13,           // value: the new target.
  kStopRequested = 14,    // value: 1 with a checkpoint.
  kEvaluationBegan = 15,  // value: number; incarnation: 1 if over the final weights.
  kEndedEarly = 16,       // Training stops: the model gets no better.
  kCheckpointBegan = 17,  // value: version; incarnation: 1 if the last one; text: why.
  // value: version; numbers: the rounds it is a cut at, if it is. Allreduce also: id: the worker
  // that wrote it, incarnation: steps, task: records.
  kCheckpointComplete = 18,
  kClosed = 19,  // value: JobState, text: error, incarnation: 1 for bad input.
  // id: founder, incarnation: generation, value: checkpoint it begins from; numbers: seconds whose
  // work is lost.
  kFounded = 20,
  kTrained = 21,  // Allreduce. id: who told, value: steps in all, incarnation: records in all.
  // Allreduce. incarnation: generation, text: the view of the group; numbers: which worker each of
  // its members is.
  kViewIssued = 22,
  kBestSaved = 23,  // value: version of the checkpoint that holds the best evaluated weights.
  // Allreduce. value: version of a checkpoint that cannot be read: the one before it is the newest.
  kCheckpointDamaged = 24,
  kSpent = 25,          // id: a worker, numbers: totals so far.
  kServersScaled = 30,  // value: the new number of servers; numbers: when, records/s before.
  // value: number; id: from, incarnation: to, text: partitions. For load, numbers: the giver's, in
  // means.
  kMoveBegan = 31,
  kMoved = 32,           // value: number. The partitions are the receiver's.
  kServersSettled = 33,  // value: microseconds it took.
  // Allreduce. id: worker, text: what is known of its end; value: 1 once that was told.
  kFailure = 40,
  // id: a server, incarnation: the life in which it came back without committed records, text:
  // which; value: how many, numbers: seconds of work on them.
  kTakenBack = 50,
  // Modes sync and hybrid. id: a server that came back without part of a whole round; value: the
  // checkpoint from which all servers begin anew; numbers: seconds of work since.
  kWentBack = 51,
};

enum class ExitKind : int64_t { kLeft, kLost, kCrashed, kFenced };

struct JournalEntry {
  EntryKind kind = EntryKind::kCreated;
  Role role = Role::kWorker;
  int64_t id = 0;
  int64_t incarnation = 0;
  TaskId task;
  int64_t value = 0;
  std::string text;
  std::vector<double> numbers;
  std::optional<EvaluationSums> sums;
};

std::string EncodeEntry(const JournalEntry& entry);
// Positions by epoch, as the text of an entry.
std::string EncodePositions(const std::map<int64_t, IntervalSet>& positions);
absl::StatusOr<std::map<int64_t, IntervalSet>> DecodePositions(absl::string_view bytes);

// DATA_LOSS if the bytes are none of ours.
absl::StatusOr<JournalEntry> DecodeEntry(absl::string_view bytes);

}  // namespace rubato

#endif  // RUBATO_MASTER_ENTRY_H_
