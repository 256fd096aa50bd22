// One parameter server: a shard behind a socket, with its push log and its checkpoints on disk.
//
//     Start ── lock the directory, restore the newest checkpoint, replay the log, listen
//       │
//     first SetView ── only now are clients greeted, so nobody fenced can slip in after a restart
//       │
//     pull: read the rows   push: check, log, apply, acknowledge   ...until Stop or SIGKILL
//
// Partitions come and go by the master's word (SetMap): they are copied to the other server beside
// serving; for the last bit requests are held (params/move.h).
//
// An acknowledged push is in the log, so a SIGKILL at any moment loses none; with replicas it is in
// the copy of another server too (params/log_replica.h). A checkpoint is a cut
// at one instant, written beside serving. Each connection belongs to one of `threads` (see
// params_server_lane.h): pulls go side by side, pushes one after the other. Methods may be called
// from any other thread.
#ifndef RUBATO_ADAPTERS_POSIX_PARAMS_SERVER_H_
#define RUBATO_ADAPTERS_POSIX_PARAMS_SERVER_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "rubato/base/ids.h"
#include "rubato/base/interval_set.h"
#include "rubato/params/history.h"
#include "rubato/params/inspection.h"
#include "rubato/params/partition.h"

namespace rubato {

// How far a server is that comes back from its files: any thread may look.
struct RecoveryProgress {
  std::atomic<int64_t> done = 0, all = 0;  // Bytes.
};

struct ParamsServerOptions {
  std::string address;      // "unix:/path", or "host:port"; port 0 takes a free one.
  std::string directory;    // This server's own: lock and push log. Made if missing.
  std::string checkpoints;  // The job's: VERSION/server-S.ckpt below it. Made if missing.
  std::string job;          // Clients of another job are turned away.
  // Beyond this machine only those who know it are heard, and everything is encrypted
  // (frame_links.h). Empty: neither this nor any other server may be beyond this machine.
  std::string secret;
  ServerId server{0};
  // How many shared everything evenly when the job began. One beyond them begins with nothing.
  int64_t servers = 1;
  uint64_t rows_max = uint64_t{1} << 30;  // A table's, if there is address space.
  bool sync_log = false;  // fsync before each acknowledgement: survives a power cut, but slow.
  // Of segments of the log that checkpoints made needless, so many bytes at most are kept to be
  // written over: memory that the system has at hand is cheaper than fresh one. 0: none.
  int64_t spare_log_bytes = int64_t{1} << 30;
  bool huge_pages = true;
  int64_t threads = 2;      // That answer requests, each for its share of the connections.
  int64_t replicas = 0;     // 1: acknowledge only what a follower has on its disk too.
  int64_t incarnation = 1;  // Larger in every life; followers listen to the last.
  // A log that is damaged or lacks a segment ends there: what is sound before it is what the server
  // comes back with, and the rest is set aside (mend_log.h). Otherwise it is DATA_LOSS.
  bool mend_log = false;
  // Who connects and says nothing, not one whole frame, is hung up on after this or twice this; of
  // such only so many are kept by each thread, the newest: they must not keep workers out.
  absl::Duration greeting_time = absl::Seconds(2);
  int64_t silent_max = 128;
  RecoveryProgress* progress = nullptr;  // Outlives Start; null: nobody looks.

  absl::Status Validate() const;
};

// Everything a heartbeat wants to know, as of one instant.
struct ParamsServerStats {
  int64_t view = 0;                        // Number of the newest view set; 0 before the first.
  std::map<int64_t, IntervalSet> applied;  // By epoch, in positions, to all it owns.
  int64_t uneven = 0;                      // Positions applied to some of that only.
  std::vector<History> histories;          // Of what it owns, and of what has wholly arrived.
  int64_t map = 0;                         // Number of the newest map.
  int64_t moved = 0;      // The move whose partitions the other server has wholly on disk; 0: none.
  int64_t move_rows = 0;  // Sent in the move under way, or in the last.
  std::string move_refused;  // Why the other server would not have what is to move; or empty.
  int64_t rows = 0;
  int64_t bytes = 0;       // Tables and dense weights in memory.
  int64_t pushes = 0;      // Applied since the process started; so are the next three.
  int64_t duplicates = 0;  // Recognised as already applied.
  int64_t fenced = 0;      // Refused for their view.
  int64_t not_finite = 0;  // Refused for a NaN or an infinity.
  // Connections closed because they sent what is no frame, or did not know the secret.
  int64_t strangers = 0;
  std::string last_stranger;  // The newest of them: from where, and what was wrong.
  std::string last_error;  // The newest refusal or failed write, with table and worker; or empty.
  int64_t pulls = 0;
  int64_t clients = 0;       // Connections open now.
  int64_t log_bytes = 0;     // On disk, all segments but spare ones.
  int64_t replay_bytes = 0;  // Of them, since the cut of the newest checkpoint.
  int64_t replayed = 0;      // Pushes replayed from the log at the start.
  int64_t checkpointed = 0;  // The newest checkpoint version wholly on disk here.
  int64_t cut = 0;           // The newest that was cut, on disk or not yet,
  int64_t cut_rounds = 0;    // and how many rounds had moved the weights then.
  int64_t follower = -1;     // Who has all that was acknowledged; -1: nobody, for now.
  int64_t outrun = -1;       // Whose copy has more than the log here: begin anew from it; -1: none.
  bool declared = false;     // It knows of a model.
  std::vector<std::string> damage;  // What was wrong with the files it came back from, by name.
};

// Which checkpoint to write.
struct CheckpointOrder {
  int64_t version = 0;
  // The newest complete one, on which it may build; 0: it is to be a full one. A server that does
  // not know what changed since writes a full one all the same.
  int64_t base = 0;
};

class ParamsServer {
 public:
  // Recovers what is on disk and listens. UNAVAILABLE if the address is in use,
  // INVALID_ARGUMENT if it leaves the machine and there is no secret, FAILED_PRECONDITION if
  // another process holds the directory, DATA_LOSS naming file and offset if a checkpoint or the
  // log is damaged.
  static absl::StatusOr<std::unique_ptr<ParamsServer>> Start(ParamsServerOptions options);
  virtual ~ParamsServer() = default;  // Stops.

  // Where it listens, the port filled in.
  virtual const std::string& address() const = 0;

  // Which partitions are whose, what to hand over to whom, and where servers are, as of view
  // `view`; ignored if that is older than the last. Before SetView.
  virtual void SetMap(int64_t view, const PartitionMap& map, const MoveOrder& move,
                      std::vector<std::string> addresses) = 0;
  // With replicas: who is to keep a copy of the push log, and where servers are (empty: down).
  // Until the first word of it nothing is acknowledged.
  virtual void SetFollower(int64_t follower, std::vector<std::string> addresses) = 0;
  // As in the stats, without waiting.
  virtual int64_t moved() const = 0;

  // Who may push from now on. Ignored unless `number` is the newest. The first one opens the door.
  virtual void SetView(int64_t number, std::vector<WorkerId> workers) = 0;

  // Modes sync and hybrid: so many rounds are whole on every server, and shall move the weights.
  virtual void SetRounds(int64_t rounds) = 0;

  // Writes CHECKPOINTS/VERSION/server-S.ckpt as of now and calls `done` on a thread of its own when
  // it is wholly there. One at a time: a second one meanwhile is refused with FAILED_PRECONDITION,
  // as is one in the midst of a move. A version already written here is done at once.
  virtual void StartCheckpoint(CheckpointOrder order, std::function<void(absl::Status)> done) = 0;
  // Checkpoint `version` is complete on every server: the log before it may go.
  virtual void DropLogBefore(int64_t version) = 0;

  // Waits for its turn, a millisecond or so.
  virtual ParamsServerStats Stats() = 0;

  // About how many keys of each partition were pulled and pushed since the last time.
  virtual std::vector<int64_t> TakeLoad() = 0;

  // What it holds and how busy it is. InspectServer() asks for the same over the socket.
  virtual ServerInspection Inspect() = 0;

  // Closes the socket and every connection, abandons a checkpoint under way, joins the threads.
  // Nothing acknowledged is lost. Idempotent.
  virtual void Stop() = 0;
  // The same for good: what was kept for speed alone, segments to be written over, goes.
  virtual void Leave() = 0;
};

}  // namespace rubato

#endif  // RUBATO_ADAPTERS_POSIX_PARAMS_SERVER_H_
