// Answers about a column too large to keep: quantiles, how many distinct values, which ones are
// common. Bounded memory, mergeable, and the same for the same input: no chance is involved.
#ifndef RUBATO_FEATURES_SKETCHES_H_
#define RUBATO_FEATURES_SKETCHES_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/container/btree_map.h"
#include "absl/container/flat_hash_map.h"
#include "absl/strings/string_view.h"

namespace rubato {

// How values are spread: counts of those that share their leading bits, as many bits as leave few
// thousand bins. So dates, or places in a town, which differ by little beside their size, are told
// apart as well as what spans many sizes: of that a quantile is off by at most 0.1 % of its value,
// as in DDSketch (Masson, Rim, Lee, 2019), unless there are more than 65,536 such bins. The
// integers below 4,096 are counted one by one. The order of adding and merging makes no difference.
class QuantileSketch {
 public:
  struct Bin {
    double low = 0;  // No value in it is below, and all are below `high`.
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
  using Counts = absl::btree_map<uint64_t, int64_t>;

  // Merges bins until they are few enough.
  void Coarsen();

  std::vector<int64_t> small_;  // Of the integers 0, 1, ...; empty until one comes.
  // By exponent and the first `bits_` bits behind the leading one, which grow with the value.
  Counts positive_;
  Counts negative_;  // The same, without the sign.
  int bits_ = 52;
  int64_t count_ = 0;
  double least_ = 0;
  double most_ = 0;
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
  void Remove(const std::string& text) { counts_.erase(text); }

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
