// Values that no vocabulary has, counted by column: whoever serves a model sees where the rows that
// come differ from those it was trained with, as ids with a 0 in front that a program has dropped.
#ifndef RUBATO_FEATURES_STRANGERS_H_
#define RUBATO_FEATURES_STRANGERS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "rubato/data/batch.h"
#include "rubato/features/features_spec.h"

namespace rubato {

// Immutable; one serves all threads.
class Strangers {
 public:
  Strangers() = default;
  // For batches of `shape`, which `features` make.
  Strangers(const FeaturesSpec& features, const BatchShape& shape);

  // The columns with a vocabulary.
  const std::vector<std::string>& columns() const { return columns_; }
  // Adds the strangers of `batch` to the counts, one a column.
  void Count(const Batch& batch, std::vector<int64_t>* counts) const;

 private:
  std::vector<std::string> columns_;
  absl::flat_hash_map<uint64_t, size_t> column_of_;  // By the ids that strangers get.
};

}  // namespace rubato

#endif  // RUBATO_FEATURES_STRANGERS_H_
