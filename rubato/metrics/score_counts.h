// Scores counted by their exact value, so that counts of parts add up to the counts of the whole
// and AUC comes out as if all scores had been sorted in one place.
#ifndef RUBATO_METRICS_SCORE_COUNTS_H_
#define RUBATO_METRICS_SCORE_COUNTS_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "rubato/base/bytes.h"

namespace rubato {

// Exact for any number of records with up to kDistinctMax different scores, at twelve bytes each
// (and as many again while more are added); there are 2^30 floats between 0 and 1. Beyond, the last
// bits of scores are dropped until they fit again: scores that differ in these only become ties,
// and AucError() says what that may cost.
class ScoreCounts {
 public:
  struct Count {
    int64_t negatives = 0, positives = 0;
    friend bool operator==(const Count&, const Count&) = default;
  };
  static constexpr size_t kDistinctMax = size_t{1} << 26;

  ScoreCounts() = default;
  explicit ScoreCounts(size_t distinct_max) : distinct_max_(distinct_max) {}

  // A score that is not a number counts as the lowest.
  void Add(float score, bool positive);
  void Add(const ScoreCounts& other);

  bool empty() const { return entries_.empty() && pending_.empty(); }
  int64_t records() const;
  bool exact() const;
  // The chance that a random positive scores above a random negative, ties counting half; 0.5 if
  // there are no positives or no negatives.
  double Auc() const;
  // How far Auc() may be from that of the scores with all their bits: half of the pairs that are
  // ties, as a share. 0 if exact.
  double AucError() const;
  bool has_both() const;  // Positives and negatives.

  // A few bytes a score.
  void Encode(ByteWriter& out) const;
  static ScoreCounts Decode(ByteReader& in);
  friend bool operator==(const ScoreCounts& a, const ScoreCounts& b);

 private:
  // Counts past 32 bits go on in a further entry of the same score; all but the last of them are
  // full, so that equal counts are equal entries.
  struct Entry {
    int32_t key = 0;  // The bits of the score, in the order of scores.
    uint32_t negatives = 0, positives = 0;
    friend bool operator==(const Entry&, const Entry&) = default;
  };

  // Sorts in what was added, if that is so much that doing it each time costs little a score.
  void SettleNowAndThen();
  // Sorts it in. What is counted stays the same, so whoever only looks may do it.
  void Settle() const;
  static void Append(int32_t key, Count count, std::vector<Entry>* entries);
  // Calls `f(key, count)` for every score, the lowest first.
  template <typename F>
  void ForEach(F f) const;
  void Merge(int dropped_bits) const;

  size_t distinct_max_ = kDistinctMax;
  mutable int dropped_bits_ = 0;        // Of every key.
  mutable std::vector<Entry> entries_;  // Sorted.
  mutable std::vector<Entry> pending_;  // Not yet.
};

}  // namespace rubato

#endif  // RUBATO_METRICS_SCORE_COUNTS_H_
