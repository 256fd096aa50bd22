// A parameter server. Most worlds have servers without parameters, which keep, through crashes,
// which batches they applied; in those of RandomMoves each has a real shard, and hands partitions
// to others as the master says.
#ifndef RUBATO_SIM_SIM_SERVER_H_
#define RUBATO_SIM_SIM_SERVER_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "rubato/data/batch.h"
#include "rubato/master/messages.h"
#include "rubato/sim/network.h"
#include "rubato/sim/sim_disk.h"
#include "rubato/sim/sim_shard.h"

namespace rubato {

class World;

enum class PushVerdict { kApplied, kDuplicate, kFenced, kElsewhere };

struct SimPush {
  WorkerId worker;
  int64_t view = 0;
  int64_t lease = 0;   // By which it was computed,
  int64_t rounds = 0;  // and how many rounds were whole then.
  BatchKey batch;
  int64_t map = 0;                          // By whose map it was split.
  std::shared_ptr<const std::string> body;  // For a real shard.
};

struct SimPushReply {
  PushVerdict verdict = PushVerdict::kApplied;
  PartitionMap map;  // kElsewhere: the server's.
};

class SimServer : public SimProcess {
 public:
  SimServer(World& world, int64_t id, int64_t incarnation);

  void Start();
  // Nothing is answered before the master has sent a view.
  void Push(const SimPush& push, std::function<void(const SimPushReply&)> reply);
  void Leave();  // SIGTERM.

  const SimShard* shard() const { return shard_.get(); }
  // What it is in the midst of, or nothing.
  std::string Doing() const;

 private:
  using Answer = std::function<void(const absl::Status&)>;

  void Register();
  void BeginFrom(int64_t version);
  void Whole(int64_t rounds);
  void CutAt(int64_t version, int64_t rounds);
  void Beat();
  void TellMaster();
  void Hear(const HeartbeatReply& reply);
  void Adopt(const View& view);
  PushVerdict Apply(const SimPush& push);
  SimPushReply PushToShard(const SimPush& push);
  void Checkpoint(int64_t version, int64_t base);
  void WriteOn();

  // ---- moves (sim_server_moves.cc) ----
  void SetPeer();
  void Connect();
  void Greet(std::function<void()> admit);
  void LineLost(int64_t number);
  void Pump();
  void Send(const MoveRecord& record);
  void Arrive(const MoveRecord& record, const Answer& answer);
  void Answered(const absl::Status& status);
  void MoveChanged();
  void Tidy();

  World& world_;
  int64_t id_;
  int64_t incarnation_;
  bool serving_ = false;
  View view_;
  std::map<int64_t, IntervalSet> applied_;
  int64_t pushes_ = 0, duplicates_ = 0, fenced_ = 0;
  int64_t began_from_ = 0;  // As the master told.
  int64_t whole_ = 0;       // So many rounds moved the weights, as somebody said.
  // The newest, on disk or not yet.
  int64_t cut_version_ = 0;
  SimDisk::Cut cut_;

  std::unique_ptr<SimShard> shard_;
  std::vector<std::function<void()>> held_;    // Requests, while what is left is handed over,
  std::vector<std::function<void()>> greets_;  // and greetings, until there is a view.
  bool tidying_ = false;
  struct Line {
    int64_t number = 0;  // Of the connection.
    int64_t to = -1, life = 0, order = 0;
    std::shared_ptr<absl::Time> there, back;
  } line_;
};

}  // namespace rubato

#endif  // RUBATO_SIM_SIM_SERVER_H_
