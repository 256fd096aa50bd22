// What befell some partitions that have the same past: which batches were applied to them, and
// what follows from that. Every partition of a server has a history, and most of the time one
// and the same; a partition that comes from another server brings its own, in which a push that
// was under way meanwhile may be missing or ahead. Once both have seen the same pushes they are
// one again.
#ifndef RUBATO_PARAMS_HISTORY_H_
#define RUBATO_PARAMS_HISTORY_H_

#include <cstdint>
#include <map>
#include <vector>

#include "absl/status/statusor.h"
#include "rubato/base/bytes.h"
#include "rubato/base/interval_set.h"
#include "rubato/data/batch.h"

namespace rubato {

// Positions that were applied, by epoch. Epochs may be many, where data is small, and every push
// asks how many positions there are in all.
class AppliedPositions {
 public:
  void Add(int64_t epoch, int64_t begin, int64_t end) {
    count_ += by_epoch_[epoch].Add(begin, end);
  }
  const std::map<int64_t, IntervalSet>& by_epoch() const { return by_epoch_; }
  int64_t count() const { return count_; }
  friend bool operator==(const AppliedPositions& a, const AppliedPositions& b) {
    return a.count_ == b.count_ && a.by_epoch_ == b.by_epoch_;
  }

 private:
  std::map<int64_t, IntervalSet> by_epoch_;
  int64_t count_ = 0;
};

struct History {
  IntervalSet partitions;
  AppliedPositions applied;
  int64_t steps = 0;  // Pushes applied.
  double rate = 1;    // What the last of them multiplied learning rates with.
  // Modes sync and hybrid: rounds that moved the weights, and the records of them. In sync a step
  // is a round; the gradients of later rounds are applied only to be staged (staged_rounds.h).
  int64_t rounds = 0;
  int64_t round_samples = 0;

  // How much of a batch was applied: a batch is applied whole, so a part is an error.
  enum class Held { kNothing, kAll, kPart };
  Held HeldOf(const BatchKey& key) const;
  int64_t samples() const { return applied.count(); }
  bool SamePast(const History& other) const {
    return steps == other.steps && rate == other.rate && rounds == other.rounds &&
           applied == other.applied;
  }
};

// Joins those with the same past.
void JoinHistories(std::vector<History>& histories);
// What remains of them for `partitions`.
std::vector<History> HistoriesOf(const std::vector<History>& histories,
                                 const IntervalSet& partitions);
IntervalSet PartitionsOf(const std::vector<History>& histories);

void PutHistories(ByteWriter& writer, const std::vector<History>& histories);
// DATA_LOSS if they make no sense.
absl::StatusOr<std::vector<History>> GetHistories(ByteReader& reader);

}  // namespace rubato

#endif  // RUBATO_PARAMS_HISTORY_H_
