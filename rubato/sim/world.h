// A whole job in a world that obeys a seed: the real Master, simulated workers and servers that
// speak its messages, a supervisor, a network, disks, and the faults that befall them.
//
// After every event the world checks what must always hold (see checker.h); the first thing that
// does not is kept in violation(). The same options give the same history, event by event.
#ifndef RUBATO_SIM_WORLD_H_
#define RUBATO_SIM_WORLD_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "rubato/base/rng.h"
#include "rubato/data/batch.h"
#include "rubato/master/master.h"
#include "rubato/sim/checker.h"
#include "rubato/sim/event_queue.h"
#include "rubato/sim/network.h"
#include "rubato/sim/sim_disk.h"

namespace rubato {

class SimServer;
class SimWorker;

// Mistakes a simulated process can be told to make, to see that the checker notices.
enum class PlantedBug {
  kNone,
  kServerAppliesTwice,     // No set of applied positions: a repeated push counts again.
  kServerForgetsItsLog,    // After a crash only the checkpoint is left.
  kServerIgnoresFencing,   // Reports the newest view, and takes pushes of the evicted.
  kWorkerCommitsTooEarly,  // Before every server has acknowledged.
  kWorkerForgetsItsLease,  // Commits what was pushed by a lease that has ended.
  kDiskLosesJournal,       // A crash takes journal records whose effects were seen.
  // With real shards:
  kReceiverDoesNotLog,              // Says that partitions arrived, and has them in memory.
  kServerPushesOnWhileItHandsOver,  // Takes pushes after it sent what was left.
};

struct WorldOptions {
  uint64_t seed = 0;
  MasterOptions master;
  Weather weather;     // Until the faults end.
  int64_t faults = 0;  // Kills, pauses, partitions, crashes, scalings.
  absl::Duration faults_for = absl::Seconds(2);
  double master_dies_in_call = 0;               // The chance, a call, of dying in its midst.
  bool shards = false;                          // Servers have real parameters, and hand them on.
  int64_t servers_max = 0;                      // With shards: how many there may come to be.
  int64_t scalings = 0;                         // How often their number changes.
  double dies_midway = 0;                       // The chance, a step of a move or a checkpoint.
  double damages_file = 0;                      // The chance, a checkpoint to which all go back.
  bool stop_and_resume = false;                 // Ctrl-C on the way, then `--resume`.
  double loses_log = 0;                         // The chance that a dying server's log is cut.
  absl::Duration give_up = absl::Seconds(300);  // Not finished by then: stuck.
  PlantedBug bug = PlantedBug::kNone;
  bool narrate = false;  // Keep story().
};

// A small job with everything about it chosen by the seed.
WorldOptions RandomSchedule(uint64_t seed);
// Another, in which servers have real shards, come and go, and hand partitions to each other.
WorldOptions RandomMoves(uint64_t seed);
// Either, in which servers that die lose what they logged last, or all since their checkpoint.
WorldOptions RandomLosses(uint64_t seed);
// The same in modes sync and hybrid, where all go back to a checkpoint together.
WorldOptions RandomReturns(uint64_t seed);

class World {
 public:
  explicit World(WorldOptions options);
  ~World();

  // Runs until the job is over, something is violated, or nothing more will come of it.
  void Run();
  // Empty if all went as it must.
  const std::string& violation() const { return violation_; }
  const Snapshot& result() const { return result_; }
  int64_t events() const { return queue_.steps(); }
  // What happened, a line each: the master's events and the faults.
  const std::vector<std::string>& story() const { return story_; }
  // Servers that died, by what they were in the midst of; and the master, in a move or not.
  const std::map<std::string, int64_t>& deaths() const { return deaths_; }
  int64_t moves() const { return moves_; }
  int64_t busy_moves() const { return busy_moves_; }
  int64_t logs_cut() const { return logs_cut_; }
  int64_t files_damaged() const { return files_damaged_; }

  // ---- for the processes ----
  const WorldOptions& options() const { return options_; }
  Rng& rng() { return rng_; }
  EventQueue& queue() { return queue_; }
  Network& network() { return network_; }
  Checker& checker() { return checker_; }
  SimDisk& disk(int64_t server) { return disks_[static_cast<size_t>(server)]; }
  SimServer* FindServer(int64_t id, int64_t incarnation);
  void Violate(const std::string& what);
  // Whether server `process`, which is at a step of a move or a checkpoint, dies there, as it does
  // now and then.
  // The master may die instead.
  bool DiesMidway(SimProcess& process, int64_t id, int64_t incarnation);
  // Whether the file of `version` is found to be damaged by a server that has others.
  bool DamagesFile(const std::string& server, int64_t version);
  // `process` is over, as the supervisor will see.
  void Exit(SimProcess& process, Role role, int64_t id, int64_t incarnation, int code, int signal);

  // Sends `ask`, a call of the master, over the network; its reply, if it ever comes, goes to
  // `then` in `from`.
  template <typename Reply>
  void CallMaster(SimProcess& from, std::function<Reply(Master&, absl::Time)> ask,
                  std::function<void(const Reply&)> then) {
    network_.Send(from.name(), "master", [this, &from, ask, then] {
      Reply reply;
      const bool answered = InMaster([&](Master& master) { reply = ask(master, queue_.now()); });
      if (!answered) return;
      network_.Send("master", from.name(),
                    [&from, reply, then] { from.Run([reply, then] { then(reply); }); });
    });
  }

 private:
  using ProcessKey = std::tuple<Role, int64_t, int64_t>;

  // ---- the supervisor and the master's host (supervisor.cc) ----
  // False if the master is down, or died before its effects were out.
  bool InMaster(const std::function<void(Master&)>& call);
  bool Perform(const std::vector<Effect>& effects, std::optional<size_t> die_at);
  void PerformOne(const Effect& effect);
  void Write(const WriteManifest& manifest);
  void Remove(const RemoveCheckpoint& removed);
  void StartMaster(bool resume);
  void KillMaster();
  void TickMaster();
  void Launch(const LaunchProcess& launch);
  void Signal(const SignalProcess& signal);
  void ReportExits();
  void Finish(const JobFinished& finished);
  // What all disks hold, and what the last checkpoint does, against a serial replay of the
  // acknowledged pushes. What is wrong, or nothing.
  std::string CheckShards() const;
  std::string CommittedIsInShards() const;

  void Tell(const JobEvent& event);
  void Tell(const std::string& what);

  // ---- faults (faults.cc) ----
  void ScheduleFaults();
  void OneFault();
  void ScaleServers();
  void KillOne(bool server, int code, int signal);
  void PauseOne(bool server);
  void CutOne();
  void EndFaults();
  // What server `id`, which is dead, has on its disk ends sooner than what it acknowledged.
  void CutLog(int64_t id);

  WorldOptions options_;
  Rng rng_;
  EventQueue queue_;
  Network network_;
  Checker checker_;
  std::vector<SimDisk> disks_;
  std::string journal_;
  std::map<int64_t, std::string> manifests_;  // By version.
  std::unique_ptr<Master> master_;
  bool master_paused_ = false;
  int64_t master_life_ = 0;
  bool faults_over_ = false;
  bool resume_next_ = false;
  std::map<ProcessKey, SimProcess*> processes_;
  std::map<ProcessKey, ExitNotice> exits_;
  std::vector<ProcessKey> unreported_;
  std::vector<std::unique_ptr<SimProcess>> all_;  // Kept to the end: messages may point at them.
  bool over_ = false;
  Snapshot result_;
  std::string violation_;
  std::vector<std::string> story_;
  std::map<std::string, int64_t> deaths_;
  int64_t moves_ = 0, busy_moves_ = 0, logs_cut_ = 0, files_damaged_ = 0;
};

}  // namespace rubato

#endif  // RUBATO_SIM_WORLD_H_
