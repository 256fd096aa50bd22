// Which checkpoint the servers should write, which are complete, which may go.
#ifndef RUBATO_MASTER_CHECKPOINTS_H_
#define RUBATO_MASTER_CHECKPOINTS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "rubato/base/ids.h"
#include "rubato/job/job_spec.h"

namespace rubato {

// What a checkpoint holds.
struct SavedState {
  // Strategy allreduce, and who wrote it.
  WorkerId writer;
  int64_t steps = 0;
  int64_t records = 0;
  // Modes sync and hybrid: each server's part of it is as of so many rounds, so that all can go
  // back to it; -1: they are not as of the same.
  int64_t rounds = -1;
};

class Checkpoints {
 public:
  explicit Checkpoints(const CheckpointSpec& spec);

  // One is written at a time: every `every_steps`, when a server would have to replay more than
  // `log_bytes`, and a last one, after which nothing changes.
  bool DueInTraining(int64_t steps) const;
  bool DueByLog(int64_t bytes) const;
  bool running() const { return wanted_ > settled_; }
  bool LastBegun() const { return last_begun_; }
  bool LastDone() const { return last_begun_ && !running(); }
  int64_t wanted() const { return wanted_; }  // The newest version asked for.
  // What a server is to write if it has not; 0 for nothing. A complete version is not asked for
  // again: a server that came later would write over what another had there.
  int64_t asked() const { return running() || last_begun_ ? wanted_ : 0; }
  int64_t step() const { return step_; }               // Committed when it was,
  bool current() const { return current_; }            // and nothing was taken back since.
  const std::string& cause() const { return cause_; }  // Why it was.
  // The version on which that may build, which all servers have; 0: it is to be a full one.
  int64_t base() const;
  // The newest version all servers have; 0 for none.
  int64_t complete() const { return kept_.empty() ? 0 : kept_.back().first; }
  // The oldest of those that are kept to begin from, which the best need not be; 0 for none.
  int64_t oldest() const;
  int64_t best() const { return best_; }  // 0 for none.
  SavedState newest() const { return kept_.empty() ? SavedState() : kept_.back().second; }
  std::vector<int64_t> kept() const;  // Complete versions, oldest first.
  // Modes sync and hybrid: the newest of one round, which is not beyond `rounds`, and older than
  // version `before` unless that is 0; nothing if there is none.
  std::optional<int64_t> OfOneRound(int64_t rounds, int64_t before) const;
  // Of a complete version.
  std::optional<SavedState> Find(int64_t version) const;
  // The version that was dropped last for having more than `keep`, or for being newer than one to
  // which all went back; 0 for none.
  int64_t dropped() const { return dropped_; }

  void Begin(int64_t version, int64_t step, bool last, std::string cause = "");
  // Returns whether an old version is to be removed: dropped().
  bool Complete(int64_t version, const SavedState& saved = {});
  // `version` was complete and cannot be read: it is none to begin from, nor the best.
  void Discard(int64_t version);
  // `version` is complete, and the one to keep whatever comes after it.
  void SetBest(int64_t version) { best_ = version; }
  // The job goes on after all: what was the last is just one more.
  void Resume() { last_begun_ = false; }
  // A server lost part of the weights, and `steps` are left: there will be another last, and what
  // the newest one holds is not what is there, whatever the step.
  void TakeBack(int64_t steps);
  // All servers are as `version`, a complete one, has them, after `steps` steps. Newer ones are
  // given up; if the best is among them, there is none.
  void GoBack(int64_t version, int64_t steps);
  // Partitions live elsewhere than in the files there are: nobody can go back to those.
  void Moved();

 private:
  CheckpointSpec spec_;
  int64_t wanted_ = 0;
  int64_t settled_ = 0;  // The newest that was complete, though it may have been discarded.
  int64_t step_ = 0;
  bool current_ = false;
  std::string cause_;
  int64_t next_at_ = 0;  // The step at which the next is due.
  bool last_begun_ = false;
  std::vector<std::pair<int64_t, SavedState>> kept_;  // Complete, oldest first.
  int64_t dropped_ = 0;
  int64_t best_ = 0;
};

}  // namespace rubato

#endif  // RUBATO_MASTER_CHECKPOINTS_H_
