// Cells with several values, made to look like cells with one: a bag's vectors are combined into a
// row of their own behind the pulled ones, and models never know the difference.
#ifndef RUBATO_ADAPTERS_TORCH_BAGS_H_
#define RUBATO_ADAPTERS_TORCH_BAGS_H_

#include <cstddef>
#include <string>
#include <vector>

#include "absl/types/span.h"
#include "rubato/adapters/torch/gather.h"
#include "rubato/data/batch.h"
#include "rubato/model/trainer.h"

namespace rubato {

// A combiner that no user names: a model may put it into its ModelSetup's shape for "sum". The sum,
// whose first column, a weight, also has the products of all pairs of the bag's vectors, the other
// columns. Several values in a cell are then as many features to a factorization machine.
inline constexpr char kSumAndPairs[] = "sum and pairs";

struct BagField {
  size_t field = 0;  // Among the table's.
  size_t bag = 0;    // Among the batch's.
  std::string combiner;
};
std::vector<BagField> BagsOf(const TableSpec& table, const BatchShape& shape);

// Adds the combined rows to `pulled`, whose gradient then comes to the same buffer by way of
// autograd. `values` are the positions of the bags' values (TableRows::position behind the
// cells). An empty bag is a row of zeros.
void CombineBags(const Batch& batch, const std::vector<BagField>& bags,
                 absl::Span<const uint32_t> values, PulledRows* pulled);

}  // namespace rubato

#endif  // RUBATO_ADAPTERS_TORCH_BAGS_H_
