// What the master wants done in the world. Effects are performed in order, all of them before
// the reply that came with them is sent: what is promised is in the journal first.
#ifndef RUBATO_MASTER_EFFECT_H_
#define RUBATO_MASTER_EFFECT_H_

#include <cstdint>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/time/time.h"
#include "rubato/master/messages.h"

namespace rubato {

// Append to the journal file as it is: one framed record, or the header of a new journal.
struct AppendJournal {
  std::string bytes;
};

// Start a process. Repeated after a restart of the master for everything it believes alive, so
// the supervisor must ignore a launch it knows, and repeat the ExitNotice of one that is gone.
struct LaunchProcess {
  Role role = Role::kWorker;
  int64_t id = 0;
  int64_t incarnation = 0;  // Servers: which life. Workers: always 1.
};

// Signal a process; one that is gone is answered with its ExitNotice again.
struct SignalProcess {
  enum class Kind { kTerminate, kKill };
  Role role = Role::kWorker;
  int64_t id = 0;
  int64_t incarnation = 0;
  Kind kind = Kind::kTerminate;
};

// Something that happened: one line of events.jsonl.
struct JobEvent {
  using Value = std::variant<int64_t, double, std::string>;
  absl::Time time;
  std::string kind;  // worker_lost, checkpoint_complete, ...
  std::vector<std::pair<std::string, Value>> fields;
  std::string cause;  // Why, in words; may be empty.
};

// Write checkpoints/VERSION/manifest.json, atomically. Repeated after a restart.
struct WriteManifest {
  int64_t version = 0;
  std::string contents;  // JSON.
};

// Write checkpoints/BEST, atomically: which of them is the job's model; for 0 there is to be no
// such file. Repeated after a restart.
struct WriteBest {
  int64_t version = 0;
};

// Remove checkpoints/VERSION, if it is there, but for what those that stay are built on. One that
// is newer than those was given up: its manifest goes, the rest is for the servers.
struct RemoveCheckpoint {
  int64_t version = 0;
  std::vector<int64_t> kept;
};

// Tell a worker which view of its group counts, and whether to let go of it.
struct SendOrder {
  WorkerId worker;
  std::string order;  // EncodeOrder.
};

// The job is over and nobody is left, or nobody whose exit could still be waited for (three
// times leave_grace after they were told to go, and killed): the master may exit.
struct JobFinished {
  JobState state = JobState::kDone;  // kDone, kFailed or kStopped.
  std::string error;                 // kFailed: why.
};

using Effect = std::variant<AppendJournal, LaunchProcess, SignalProcess, JobEvent, WriteManifest,
                            WriteBest, RemoveCheckpoint, SendOrder, JobFinished>;

}  // namespace rubato

#endif  // RUBATO_MASTER_EFFECT_H_
