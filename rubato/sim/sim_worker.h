// A worker without a model: it leases tasks, computes for a while, pushes every batch to every
// server, commits, and does all of that again until it is answered.
#ifndef RUBATO_SIM_SIM_WORKER_H_
#define RUBATO_SIM_SIM_WORKER_H_

#include <cstdint>
#include <deque>
#include <map>
#include <set>

#include "rubato/master/messages.h"
#include "rubato/sim/network.h"
#include "rubato/sim/sim_server.h"

namespace rubato {

class World;

class SimWorker : public SimProcess {
 public:
  SimWorker(World& world, WorkerId id);

  WorkerId id() const { return id_; }
  void Start();
  void Leave();    // SIGTERM, or told by the master: finish the batch, hand back, exit.
  void Stumble();  // The task in hand proves impossible, this once.

 private:
  struct InHand {
    Task task;
    int64_t next = 0;   // The first position not yet pushed.
    int64_t acked = 0;  // Everything before is on all servers.
    int64_t told = 0;   // Everything before is committed, as the master said.
    std::map<int64_t, std::set<int64_t>> waiting;  // Batch -> servers that have not answered.
    bool computing = false;
    bool evaluated = false;
    bool failed = false;  // Given up, and the master is yet to hear of it.
  };

  void Register();
  void Beat();
  void Work();  // Looks for something to do, and comes back in a while.
  void Lease();
  void Compute();
  void PushBatch(int64_t begin);
  void Answer(TaskId task, int64_t begin, int64_t server, PushVerdict verdict);
  void Commit(const InHand& hand, bool release);
  void Fail(const Task& task);
  void Drop(TaskId task, int64_t lease);
  void GoHome();
  void Exit(int code);
  InHand* Find(TaskId task);

  World& world_;
  WorkerId id_;
  int64_t window_;  // Batches pushed and not answered.
  bool ahead_;      // Whether it leases the next task before the last is finished.
  bool registered_ = false;
  bool leaving_ = false;
  bool stumbling_ = false;
  int64_t lease_asked_ = 0, lease_answered_ = 0;
  View view_;
  std::deque<InHand> hands_;  // The first is the one in work.
};

}  // namespace rubato

#endif  // RUBATO_SIM_SIM_WORKER_H_
