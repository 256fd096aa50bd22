// The workers of strategy allreduce as the master knows them.
//
// A *generation* is a group begun from one state: the new model's, or a checkpoint's. Newcomers
// copy the state from its members, so it lasts while one who holds the state lives, through any
// number of deaths and views; when the last is gone, the next generation begins from the newest
// checkpoint.
//
// Generation and founder are journaled. What members tell is not: it comes again with the next
// heartbeat, and until then nobody who might hold the state is taken not to.
#ifndef RUBATO_MASTER_GROUP_H_
#define RUBATO_MASTER_GROUP_H_

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "rubato/master/messages.h"

namespace rubato {

class Group {
 public:
  int64_t generation() const { return generation_; }  // 0: none yet.
  WorkerId founder() const { return founder_; }
  const std::string& restore() const { return restore_; }

  // ---- entries ----
  void Found(int64_t generation, WorkerId founder, std::string restore);

  // ---- what workers tell ----
  void Hear(WorkerId worker, const GroupReport& report);
  void Forget(WorkerId worker) { reports_.erase(worker), unheard_.erase(worker); }
  // A restarted master has yet to hear from these.
  void Expect(const std::vector<WorkerId>& workers) { unheard_ = {workers.begin(), workers.end()}; }

  // Whether one of `alive` holds the state, or is about to, or might.
  bool Lives(const std::vector<WorkerId>& alive) const;
  // Those of `alive` who hold the state of this generation.
  std::vector<WorkerId> Holders(const std::vector<WorkerId>& alive) const;
  // Null if it has not told anything of this generation.
  const GroupReport* ReportOf(WorkerId worker) const;
  // Whether there are holders, all at rest after `steps` steps.
  bool Resting(const std::vector<WorkerId>& alive, int64_t steps) const;
  int64_t bad_rows() const;  // In steps applied.

 private:
  int64_t generation_ = 0;
  WorkerId founder_;
  std::string restore_;
  std::map<WorkerId, GroupReport> reports_;
  std::set<WorkerId> unheard_;
};

}  // namespace rubato

#endif  // RUBATO_MASTER_GROUP_H_
