// Answers about a column too large to keep: quantiles, how many distinct values, which ones are
// common. Bounded memory, mergeable, and the same for the same input: no chance is involved.
#ifndef RUBATO_FEATURES_SKETCHES_H_
#define RUBATO_FEATURES_SKETCHES_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/string_view.h"

namespace rubato {

// How values are spread: counts in bins that grow by 0.2 % from one to the next, as in DDSketch
// (Masson, Rim, Lee, 2019), and exact counts for the integers below 4,096. A quantile is off by
// at most 0.1 % of its value, and by 1 % beyond 1e18. The order of adding and merging makes no
// difference.
class QuantileSketch {
 public:
  struct Bin {
    double low = 0;  // No value in it is below, and none above `high`.
    double high = 0;
    double value = 0;  // Stands for all of it.
    int64_t count = 0;
  };

  void Add(double x);
  void Merge(const QuantileSketch& other);

  int64_t count() const { return count_; }
  // The smallest value that at least a share `q` of all are not above; 0 if there are none.
  double Quantile(double q) const;
  // From below; none empty.
  std::vector<Bin> Bins() const;
  // At most bins - 1 growing boundaries that cut the values into parts of like weight. A value so
  // common that it outweighs a part gets one to itself, and the others share the rest.
  std::vector<double> Boundaries(int bins) const;

 private:
  std::vector<int64_t> small_;       // Of the integers 0, 1, ...; empty until one comes.
  std::map<int, int64_t> positive_;  // Of (growth^(i - 1), growth^i].
  std::map<int, int64_t> negative_;  // The same, mirrored.
  int64_t count_ = 0;
};

// How many distinct values: HyperLogLog (Flajolet et al., 2007) with 4,096 registers, off by 1.6 %
// at one standard deviation; small numbers by linear counting. Order makes no difference.
class DistinctSketch {
 public:
  void Add(uint64_t hash);
  void Merge(const DistinctSketch& other);
  double Estimate() const;

 private:
  static constexpr int kBits = 12;
  std::vector<uint8_t> registers_ = std::vector<uint8_t>(1 << kBits);
};

// The most common texts: Misra and Gries (1982), in the mergeable form of Agarwal et al. (2012).
// Counts are too low by at most error(), which is at most the number added / `capacity`; a text
// that occurs more often is there for certain. Exact while error() is 0.
class CommonTexts {
 public:
  struct Item {
    std::string text;
    int64_t count = 0;
    friend bool operator==(const Item&, const Item&) = default;
  };

  explicit CommonTexts(size_t capacity) : capacity_(capacity) {}

  void Add(absl::string_view text);
  void Merge(const CommonTexts& other);

  int64_t error() const { return error_; }
  size_t size() const { return counts_.size(); }
  // The most common first, equal ones by their text.
  std::vector<Item> Items() const;

 private:
  // Takes as much from every count as leaves `capacity_` of them.
  void Prune();

  size_t capacity_;
  absl::flat_hash_map<std::string, int64_t> counts_;  // At most twice the capacity.
  int64_t error_ = 0;
};

}  // namespace rubato

#endif  // RUBATO_FEATURES_SKETCHES_H_
