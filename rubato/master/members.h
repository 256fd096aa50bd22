// The processes of a job: who was launched, who is alive, what they last said, and the view.
//
//     starting ──Register──▶ running ──▶ leaving ──exit──▶ gone      A worker's life; servers
//                               └──silent──▶ evicted ──exit──▶ gone  only start, run and go.
//
// Part of the master's state: changed by its entries alone, except for what heartbeats tell,
// which a restarted master hears again within a heartbeat.
#ifndef RUBATO_MASTER_MEMBERS_H_
#define RUBATO_MASTER_MEMBERS_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "rubato/master/messages.h"

namespace rubato {

struct Member {
  enum class State { kGone, kStarting, kRunning, kLeaving, kEvicted };
  State state = State::kGone;
  int64_t incarnation = 0;
  bool registered = false;
  int64_t pid = 0;
  std::string address;  // A server's; or a worker's in its group, since a view has had it.
  absl::Time heard;     // The last word of it, or when the wait for its first began.
  absl::Time asked_to_leave = absl::InfiniteFuture();
  bool killed = false;   // By us, for not leaving, not starting or not answering,
  absl::Duration grace;  // after so long a silence.
};

struct WorkerMember : Member {
  int64_t slot = 0;          // Which of the places 0 to max-1 it fills: back-off is by place.
  int64_t commits = 0;       // Of this life.
  int64_t evicted_view = 0;  // The first view without it.
  TimeSpent spent;
  int64_t records_redone = 0;  // Allreduce: computed again, in all its lives in the group.
  double spent_noted = 0;      // What of `spent` the journal knows, in seconds.
  std::optional<DataAway> away;
};

struct ServerMember : Member {
  ServerHeartbeat last;         // Counters of this life; `view` 0 until it says what it has.
  int64_t steps_at_launch = 0;  // Committed by the job at its launch.
  int64_t checkpointed = 0;     // The newest version on its disk, and how many rounds had moved
  int64_t checkpointed_rounds = -1;  // the weights at its cut (-1: unknown): outlive its process.
  bool left = false;                 // Gone, as it was told.
};

// What is left of the processes that are gone.
struct MemberTotals {
  TimeSpent spent;
  int64_t records_redone = 0;
  int64_t fenced = 0;
  int64_t workers_started = 0, workers_lost = 0, workers_joined = 0, workers_max = 0;
  int64_t servers_started = 0, servers_lost = 0;
};

class Members {
 public:
  explicit Members(int64_t servers);

  // Null if it never was or is gone.
  WorkerMember* FindWorker(WorkerId id);
  const WorkerMember* FindWorker(WorkerId id) const;
  std::map<WorkerId, WorkerMember>& workers() { return workers_; }
  const std::map<WorkerId, WorkerMember>& workers() const { return workers_; }
  std::vector<ServerMember>& servers() { return servers_; }
  const std::vector<ServerMember>& servers() const { return servers_; }
  const View& view() const { return view_; }
  const MemberTotals& totals() const { return totals_; }

  WorkerId NextWorker() const { return WorkerId(next_worker_); }
  // Workers that count towards the target: starting and running.
  std::vector<WorkerId> Staying() const;
  std::vector<WorkerId> Running() const;
  bool AnyWaitsForData() const;
  bool WorkersGone() const;  // But for the evicted, who may be frozen for ever.
  bool EveryoneGone() const;
  // Whether no server that is up still takes pushes of a worker evicted at view `number`.
  bool FencedEverywhere(int64_t number) const;
  std::vector<ProcessStatus> Processes() const;

  // ---- changes, each one entry ----
  void LaunchWorker(WorkerId id, int64_t slot, absl::Time now);
  void LaunchServer(int64_t id, int64_t incarnation, int64_t steps, absl::Time now);
  void RegisterWorker(WorkerId id, int64_t pid, bool newcomer, absl::Time now);
  void RegisterServer(int64_t id, int64_t pid, std::string address, absl::Time now);
  void Leave(WorkerId id, absl::Time now);
  void LeaveServer(int64_t id, absl::Time now);
  void GrowServers(int64_t servers);  // To so many; there never are fewer places.
  void SetMove(const MoveOrder& move);
  void Moved();  // The map says so.
  void NoteSpent(WorkerId id, const std::vector<double>& numbers);
  // `numbers` as for RemoveWorker: an evicted one says no more, and its exit may never be seen.
  void Evict(WorkerId id, const std::vector<double>& numbers);
  void RemoveWorker(WorkerId id, bool lost, const std::vector<double>& numbers);
  void RemoveServer(int64_t id, bool lost, const std::vector<double>& numbers);
  // A resumed job: nobody of its past is alive. `lost`: those who ran ended
  // before the job did; whether one that was to start ever did is not known.
  void RemoveAll(bool lost);

  int64_t records_redone() const;  // By all workers, of all lives.

  // What a leaver's entry keeps: its totals, for Evict, RemoveWorker and RemoveServer.
  static std::vector<double> Numbers(const WorkerMember& worker);
  static std::vector<double> Numbers(const ServerMember& server);

  // Nobody was silent while nobody could be heard: everyone's lease starts at `now`.
  void FreshLeases(absl::Time now);

 private:
  void ChangeView();
  void Bury(Role role, int64_t id, const Member& member, std::string state);

  std::map<WorkerId, WorkerMember> workers_;
  std::vector<ServerMember> servers_;
  std::vector<ProcessStatus> past_;  // The last that went, for those who look.
  int64_t next_worker_ = 0;
  View view_;
  MemberTotals totals_;
};

}  // namespace rubato

#endif  // RUBATO_MASTER_MEMBERS_H_
