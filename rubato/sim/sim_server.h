// A parameter server without parameters: it keeps, through crashes, which batches it applied.
#ifndef RUBATO_SIM_SIM_SERVER_H_
#define RUBATO_SIM_SIM_SERVER_H_

#include <cstdint>
#include <functional>
#include <map>

#include "rubato/data/batch.h"
#include "rubato/master/messages.h"
#include "rubato/sim/network.h"

namespace rubato {

class World;

enum class PushVerdict { kApplied, kDuplicate, kFenced };

struct SimPush {
  WorkerId worker;
  int64_t view = 0;
  BatchKey batch;
};

class SimServer : public SimProcess {
 public:
  SimServer(World& world, int64_t id, int64_t incarnation);

  void Start();
  // Nothing is answered before the master has sent a view.
  void Push(const SimPush& push, std::function<void(PushVerdict)> reply);
  void Leave();  // SIGTERM.

 private:
  void Register();
  void Beat();
  void Adopt(const View& view);
  PushVerdict Apply(const SimPush& push);

  World& world_;
  int64_t id_;
  int64_t incarnation_;
  bool serving_ = false;
  View view_;
  std::map<int64_t, IntervalSet> applied_;
  int64_t pushes_ = 0, duplicates_ = 0, fenced_ = 0;
};

}  // namespace rubato

#endif  // RUBATO_SIM_SIM_SERVER_H_
