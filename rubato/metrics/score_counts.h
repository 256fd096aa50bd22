// Scores counted by their exact value, so that counts of parts add up to the counts of the whole
// and AUC comes out as if all scores had been sorted in one place.
#ifndef RUBATO_METRICS_SCORE_COUNTS_H_
#define RUBATO_METRICS_SCORE_COUNTS_H_

#include <cstdint>
#include <map>

#include "rubato/base/bytes.h"

namespace rubato {

// Exact for up to kDistinctMax different scores. Beyond, the last bits of scores are dropped until
// they fit again: scores that differ in these only become ties. A million scores keep at least 16
// bits behind the leading one, far more than a sample of any size tells apart.
class ScoreCounts {
 public:
  struct Count {
    int64_t negatives = 0, positives = 0;
    friend bool operator==(const Count&, const Count&) = default;
  };
  static constexpr size_t kDistinctMax = size_t{1} << 20;

  ScoreCounts() = default;
  explicit ScoreCounts(size_t distinct_max) : distinct_max_(distinct_max) {}

  // A score that is not a number counts as the lowest.
  void Add(float score, bool positive);
  void Add(const ScoreCounts& other);

  bool empty() const { return counts_.empty(); }
  int64_t records() const;
  bool exact() const { return dropped_bits_ == 0; }
  // The chance that a random positive scores above a random negative, ties counting half; 0.5 if
  // there are no positives or no negatives.
  double Auc() const;
  bool has_both() const;  // Positives and negatives.

  // A few bytes a score.
  void Encode(ByteWriter& out) const;
  static ScoreCounts Decode(ByteReader& in);
  friend bool operator==(const ScoreCounts& a, const ScoreCounts& b) {
    return a.counts_ == b.counts_ && a.dropped_bits_ == b.dropped_bits_;
  }

 private:
  void Coarsen(int dropped_bits);
  void Fit();

  size_t distinct_max_ = kDistinctMax;
  int dropped_bits_ = 0;             // Of every key.
  std::map<int32_t, Count> counts_;  // By the bits of the score, in the order of scores.
};

}  // namespace rubato

#endif  // RUBATO_METRICS_SCORE_COUNTS_H_
