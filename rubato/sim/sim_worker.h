// A worker without a model: it leases tasks, computes for a while, pushes every batch to every
// server that owns something, commits, and does all of that again until it is answered. If a server
// owns something else by now, the batch is split anew and goes to all of them again.
#ifndef RUBATO_SIM_SIM_WORKER_H_
#define RUBATO_SIM_SIM_WORKER_H_

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

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
  struct Unanswered {
    PartitionMap map;                                        // By which it was split.
    std::set<int64_t> servers;                               // That have not answered.
    std::vector<std::shared_ptr<const std::string>> bodies;  // By server, for real shards.
  };
  struct InHand {
    Task task;
    int64_t next = 0;                       // The first position not yet pushed.
    int64_t acked = 0;                      // Everything before is on all servers.
    int64_t told = 0;                       // Everything before is committed, as the master said.
    std::map<int64_t, Unanswered> waiting;  // By batch.
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
  void Split(const BatchKey& batch, Unanswered* out) const;
  void PushTo(int64_t server, const SimPush& push);
  void Answer(const SimPush& push, int64_t server, const SimPushReply& reply);
  void Adopt(const View& view);
  void Commit(const InHand& hand, bool release);
  void Fail(const Task& task);
  void Drop(TaskId task, int64_t lease);
  void GoHome();
  void Exit(int code);
  InHand* Find(TaskId task);
  BatchKey BatchOf(const Task& task, int64_t begin) const;

  World& world_;
  WorkerId id_;
  int64_t window_;  // Batches pushed and not answered.
  bool ahead_;      // Whether it leases the next task before the last is finished.
  bool registered_ = false;
  bool leaving_ = false;
  bool stumbling_ = false;
  int64_t lease_asked_ = 0, lease_answered_ = 0;
  View view_;
  PartitionMap map_;          // The newest it heard of, from the master or a server.
  std::deque<InHand> hands_;  // The first is the one in work.
};

}  // namespace rubato

#endif  // RUBATO_SIM_SIM_WORKER_H_
