// What the master, its workers, its servers and its supervisor say to each other. Plain structs:
// adapters/grpc carries them between processes, sim/ between simulated ones.
#ifndef RUBATO_MASTER_MESSAGES_H_
#define RUBATO_MASTER_MESSAGES_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "rubato/base/ids.h"
#include "rubato/base/interval_set.h"
#include "rubato/data/data_away.h"
#include "rubato/metrics/evaluation.h"
#include "rubato/params/partition.h"
#include "rubato/tasks/task.h"

namespace rubato {

enum class Role { kMaster, kServer, kWorker };
absl::string_view RoleName(Role role);  // "master", "server", "worker".

// Where a server's shard can be reached. `incarnation` counts the lives of its process.
struct ServerPlace {
  ServerId id;
  int64_t incarnation = 0;
  std::string address;  // "unix:/path" or "host:port"; empty while the server is down.
  friend bool operator==(const ServerPlace&, const ServerPlace&) = default;
};

// The members alive, numbered. A push carries its worker and the number of the view it knew; a
// server that has a view from which that worker is missing refuses it.
struct View {
  int64_t number = 0;
  std::vector<WorkerId> workers;     // Ordered by id.
  std::vector<ServerPlace> servers;  // One a server, ordered by id.
  PartitionMap map;                  // Which server owns which partitions,
  MoveOrder move;                    // and which are to change hands.
  friend bool operator==(const View&, const View&) = default;
};

// Whether a server whose newest view is `newest` takes a push of `worker`, which knew view
// `number`: it does while the worker is in its view, or joined by one the server has yet to hear
// of. Rests on a worker never adopting a view from which it is missing.
bool Admits(const View& newest, WorkerId worker, int64_t number);

// ---- workers to master -------------------------------------------------------------------------

// Where a worker's seconds went, in all since it started.
struct TimeSpent {
  double useful = 0;      // Computing batches that were then applied.
  double read = 0;        // Waiting for records.
  double wait = 0;        // Waiting for a task, for pulled rows or for room to push.
  double detect = 0;      // In a group: waiting for one that was gone, until that was noticed.
  double rebuild = 0;     // Starting up; waiting for a server, a master or the next view.
  double redo = 0;        // Computing batches that turned out to be applied already.
  double checkpoint = 0;  // Waiting for one: nothing with servers, who write beside serving.
  double other = 0;
  double total() const {
    return useful + read + wait + detect + rebuild + redo + checkpoint + other;
  }
  void Add(const TimeSpent& more);
};

// Partitions that a server holds, with what was applied to them.
struct PartitionsHeld {
  IntervalSet partitions;
  std::map<int64_t, IntervalSet> applied;  // By epoch.
};

// The first word of a process, repeated when a new master answers with UNKNOWN. Idempotent.
struct RegisterRequest {
  Role role = Role::kWorker;
  int64_t id = -1;          // WorkerId or ServerId, as given on its command line.
  int64_t incarnation = 0;  // Servers: life count, as given on the command line.
  int64_t pid = 0;
  std::string version;  // Must equal the master's.
  std::string address;  // Servers: where the data plane listens.
  // Servers: what is already applied (recovered), by epoch.
  std::map<int64_t, IntervalSet> applied;
  // The same by partition, with those that came from another server and await the master's word.
  // Empty: everything it owns by the map, to all of which `applied` was.
  std::vector<PartitionsHeld> held;
  // Servers: what was wrong with the files it came back from, by name; empty if nothing was.
  std::string damage;
  bool blank = false;  // Servers: it knows of no model, for nothing is on its disk.
  // Servers: it set its log aside and began from this checkpoint, as RegisterReply told it; or 0.
  int64_t began_from = 0;
};
struct RegisterReply {
  bool accepted = false;
  std::string reason;  // Why not: evicted, another version, unknown id.
  View view;
  int64_t follower = -1;  // As in HeartbeatReply.
  // Servers that are not accepted: set the log aside, begin from this checkpoint and register
  // again;
  int64_t begin_from = 0;
  bool wait = false;  // or they only have to ask again in a moment.
};

enum class Directive {
  kContinue,
  kLeave,  // Finish the batch in hand, give back leases, exit 0. Servers: exit.
};

// What a change of the group's view took at one survivor.
struct GroupChange {
  uint64_t view = 0;         // The new one.
  int64_t noticed_us = 0;    // When the step stopped, in microseconds since 1970.
  int64_t agree_us = 0;      // Until the new view was there,
  int64_t reconnect_us = 0;  // until its connections were,
  int64_t redo_us = 0;       // until the next step was applied.
  // Of each who fell out since the step before, by its id in the group: when the last sign of its
  // life came to this survivor, a packet or a step that all took, in microseconds since 1970.
  std::map<int64_t, int64_t> heard_us;
  friend bool operator==(const GroupChange&, const GroupChange&) = default;
};

// Strategy allreduce: what a worker tells of the group in which it trains.
struct GroupReport {
  int64_t generation = 0;  // 0: in none yet.
  std::string address;     // Where the others reach it.
  bool holds = false;      // It has the weights; a newcomer is still copying them.
  int64_t steps = 0;       // Applied by all, never to be undone,
  int64_t records = 0;     // with so many records.
  uint64_t checksum = 0;   // Of weights and optimizer after `steps` while training rests; else 0.
  int64_t records_wrong = 0;       // Of applied steps: missing or doubled. Must be 0.
  int64_t bad_rows = 0;            // Of applied steps: skipped.
  int64_t records_redone = 0;      // Computed by this worker for steps that had to begin again.
  int64_t checkpointed = 0;        // The newest version that it has wholly on disk, after so many
  int64_t checkpoint_steps = 0;    // steps
  int64_t checkpoint_records = 0;  // and records.
  GroupChange change;              // The last one.
  double lagging = 0;  // Slow beside the others: its speed over the group's median; 0: it is not.
  friend bool operator==(const GroupReport&, const GroupReport&) = default;
};
// And what it is told.
struct GroupOrders {
  int64_t generation = 0;         // The group to be in; 0: wait.
  bool found = false;             // Begin it ...
  std::string restore;            // ... with this file of checkpoints/; empty: a new model.
  std::vector<std::string> join;  // Without a master, and not `found`: those who are in it.
  int64_t evaluated = 0;          // The weights after this step are evaluated: train on,
  int64_t lowered = 0;            // with a learning rate that was lowered so often.
  bool rest = false;              // Train no further: the job is to stop.
  bool over = false;              // It has: go, nobody waits for a farewell.
  // The plan's, as the job began, whatever the job file says by now; 0: without a master.
  int64_t batches_per_task = 0;
  friend bool operator==(const GroupOrders&, const GroupOrders&) = default;
};

// A member's word to the issuer of its group's views, and what it is to do. As bytes of
// membership/wire.h; see membership/issued_views.h.
struct ConferRequest {
  WorkerId worker;
  int64_t generation = 0;
  std::string report;   // Empty: only listening.
  int64_t known = 0;    // The number of the last order that came.
  int64_t wait_ms = 0;  // How long to wait for another.
};
struct ConferReply {
  std::string order;  // The newest for this worker; empty if there never was one.
  int64_t number = 0;
};

struct WorkerHeartbeat {
  WorkerId worker;
  int64_t view = 0;  // The newest view it knows.
  double loss = 0;   // Mean loss of the batches since the last heartbeat.
  int64_t loss_batches = 0;
  TimeSpent spent;
  std::optional<GroupReport> group;
  std::optional<DataAway> away;  // It cannot read on: what it waits for.
};
struct ServerHeartbeat {
  ServerId server;
  int64_t incarnation = 0;
  int64_t view = 0;
  std::map<int64_t, IntervalSet> applied;  // By epoch.
  int64_t rows = 0;
  int64_t bytes = 0;
  int64_t pushes = 0;
  int64_t duplicates = 0;    // Pushes recognised as already applied.
  int64_t fenced = 0;        // Pushes refused for their view.
  int64_t checkpointed = 0;  // The newest checkpoint version wholly on disk here.
  int64_t log_bytes = 0;     // Logged since the cut of that: what its next life would replay.
  int64_t cut = 0;           // The newest version that was cut here, on disk or not yet,
  int64_t cut_rounds = 0;    // and how many rounds had moved the weights then.
  int64_t moved = 0;         // The move whose partitions the receiver has wholly on disk; or 0.
  int64_t move_rows = 0;     // Sent in it.
  std::string move_refused;  // Why the receiver will not have what this one is to give; or empty.
  int64_t uneven = 0;        // Positions applied to some partitions here, and not to all.
  int64_t follower = -1;     // Who has a copy of all that was acknowledged; -1: nobody, for now.
  // About once a second, else empty: keys pulled and pushed, by partition, in the last
  // `load_period`. Sampled; nobody misses one that is lost.
  std::vector<int64_t> load;
  absl::Duration load_period;
  // Before it registers: so many bytes of its checkpoint and log are read, of so many.
  int64_t recovered = 0;
  int64_t to_recover = 0;
};
struct HeartbeatReply {
  bool known = false;  // False: register again (a new master), or leave if that is refused.
  Directive directive = Directive::kContinue;
  View view;
  // Servers, and the first of a group: write checkpoint `checkpoint_wanted` if newer than your
  // last. `checkpoint_oldest` is the oldest complete one that is kept: the push log before it may
  // go. `checkpoint_base` is the newest complete one, on which the one wanted may build; 0: it is
  // to be a full one.
  int64_t checkpoint_wanted = 0;
  int64_t checkpoint_oldest = 0;
  int64_t checkpoint_base = 0;
  int64_t rounds = 0;                // Servers, modes sync and hybrid: that many are whole.
  int64_t follower = -1;             // Servers: who shall keep the copy of your log; or -1.
  std::optional<GroupOrders> group;  // Workers of strategy allreduce.
};

struct LeaseRequest {
  WorkerId worker;
  // What it has in hand. A task the master leased to it and that is missing here was lost with
  // its reply, and is given again: so a lease asked twice is granted once.
  std::vector<TaskId> holding;
};
struct LeaseReply {
  enum class Verdict { kTask, kWait, kDone, kUnknown };  // kUnknown: not registered here.
  Verdict verdict = Verdict::kWait;
  Task task;
};

// Everything of `task` before `upto` is applied on every server.
struct CommitRequest {
  WorkerId worker;
  TaskId task;
  int64_t lease = 0;  // Task::lease: what was done by an earlier one does not count. 0: any.
  int64_t upto = 0;
  bool release = false;                // Hand the rest back: the worker is leaving.
  std::optional<EvaluationSums> sums;  // Evaluation tasks, with upto == end.
  // Rows left out of what this commit adds, in the first pass over the data (FirstPass), so that
  // each bad row is counted once. The first few by name: file, line and what is wrong.
  int64_t bad_rows = 0;
  std::vector<std::string> bad_rows_named;
};
struct CommitReply {
  bool held = false;     // False: the worker no longer holds the task; drop it, keep nothing.
  bool unknown = false;  // The worker is not registered with this master: register, then resend.
};

struct FailRequest {
  WorkerId worker;
  TaskId task;              // Not valid: its part of the group's next step, or
  std::string checkpoint;   // this file of checkpoints/, a server's also: not written, or not read.
  int64_t lease = 0;        // Task::lease: a late word about an earlier lease is ignored. 0: any.
  std::string error;        // "train.tsv:1204: column 3, 'abc', is not an integer"
  bool not_finite = false;  // A loss or a gradient was a NaN or an infinity.
  int64_t attempt = -1;     // At the group's next step: the same for all who fail at it together.
  bool unfit = false;       // The checkpoint is sound, but not of this model: nor will another be.
};

// ---- users to master ---------------------------------------------------------------------------

enum class JobState { kStarting, kTraining, kEvaluating, kStopping, kDone, kFailed, kStopped };
absl::string_view JobStateName(JobState state);

struct EvaluationResult {
  int64_t number = 0;
  int64_t step = 0;  // Committed steps when it began.
  int64_t records = 0;
  std::map<std::string, double> metrics;  // auc, logloss, accuracy, loss and the user's own.
};

struct ProcessStatus {
  Role role = Role::kWorker;
  int64_t id = 0;
  int64_t incarnation = 0;
  int64_t pid = 0;
  std::string address;
  std::string state;   // starting, running, leaving, evicted, lost, exited.
  double lagging = 0;  // See GroupReport::lagging.
  // A server that starts: "reading its log, 40 %"; a worker that cannot read on: "waiting for the
  // database at db.example, 12 s". Or empty.
  std::string doing;
};

// The last change of the number of servers.
struct ServersScaled {
  int64_t from = 0, to = 0;  // `to` 0: there was none.
  double seconds = 0;        // 0 while it is under way.
  int64_t moves = 0, partitions = 0;
  double rate_before = 0;  // Records committed a second, before it,
  double rate_lowest = 0;  // and in the slowest second of it; 0 while it is under way.
};

// The whole job at a glance, for progress bars, `rubato show` and summary.json.
struct Snapshot {
  JobState state = JobState::kStarting;
  std::string error;  // Why it failed.
  int64_t view = 0;
  int64_t epoch = 0;
  int64_t steps = 0;
  int64_t records_committed = 0;
  int64_t records_expected = 0;
  int64_t records_repeated = 0;    // Applied twice on some server: must be 0.
  int64_t records_recomputed = 0;  // Under way at a worker when it was lost: computed again.
  int64_t records_taken_back = 0;  // Committed, and lost by a server: trained again.
  int64_t workers_target = 0, workers_started = 0, workers_lost = 0, workers_joined = 0,
          workers_max = 0, workers_alive = 0;
  int64_t servers_started = 0, servers_lost = 0, servers_alive = 0, servers_target = 0;
  ServersScaled servers_scaled;
  int64_t master_restarts = 0;
  int64_t fenced_pushes = 0;
  int64_t bad_rows = 0;
  int64_t reports_unreadable = 0;  // Of the group, by this master.
  int64_t rows = 0, bytes = 0;     // On all servers.
  int64_t checkpoint = 0;          // The newest complete one; 0 for none.
  int64_t best_checkpoint = 0;     // The one with the best weights evaluated; 0: not kept.
  int64_t best_evaluation = 0;     // The number of the best evaluation; 0 for none.
  double loss = 0;                 // A moving mean.
  bool loss_known = false;         // Whether this master has heard of any.
  bool bad_input = false;      // It failed for what starting it again cannot mend: a damaged file.
  absl::Time run_began;        // When it was begun or last resumed,
  int64_t records_before = 0;  // and what was committed by then.
  TimeSpent spent;
  std::vector<EvaluationResult> evaluations;
  std::vector<ProcessStatus> processes;
};

// 0: as many as there are.
struct ScaleRequest {
  int64_t workers = 0;
  int64_t servers = 0;
};
struct ScaleReply {
  bool accepted = false;
  std::string reason;
  int64_t workers_target = 0;
  int64_t servers_target = 0;
};

// ---- supervisor to master ----------------------------------------------------------------------

// A process is gone, as its parent saw it.
struct ExitNotice {
  Role role = Role::kWorker;
  int64_t id = 0;
  int64_t incarnation = 0;
  int exit_code = 0;       // If it exited.
  int signal = 0;          // If it was killed: SIGKILL is a loss, other signals are crashes.
  std::string last_words;  // The end of its log, for the first cause.
  int64_t pid = 0;         // Of the process, and
  std::string host;        // the machine it was on: it may never have told.
};

}  // namespace rubato

#endif  // RUBATO_MASTER_MESSAGES_H_
