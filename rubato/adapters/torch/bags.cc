#include "rubato/adapters/torch/bags.h"

#include <torch/torch.h>

#include <cmath>

#include "rubato/base/status.h"

namespace rubato {
namespace {

// What a bag's weighted sum is divided by. Weights that cancel out, but for what rounding leaves of
// them, leave nothing to divide by: the vectors would be that many times larger.
double DivisorOf(const std::string& combiner, absl::Span<const float> weights) {
  if (combiner == "sum" || combiner == kSumAndPairs) return 1;
  constexpr double kRounding = 1e-6;
  double sum = 0, sizes = 0, squares = 0;
  for (const double w : weights) {
    sum += w;
    sizes += std::abs(w);
    squares += w * w;
  }
  const double divisor = combiner == "sqrtn" ? std::sqrt(squares) : sum;
  return std::abs(divisor) <= kRounding * sizes ? 1 : divisor;
}

// Adds to the first column of `sums` the products of all pairs of a bag's parts, which are the rest
// of a row: ((sum of v)^2 - sum of v^2) / 2, where `wanted` is 1 and not 0.
torch::Tensor WithPairs(const torch::Tensor& sums, const torch::Tensor& squares,
                        const std::vector<float>& wanted) {
  const int64_t dim = sums.size(1) - 1;
  const torch::Tensor pairs = (sums.square() - squares).narrow(1, 1, dim).sum(1, true) * 0.5;
  return torch::cat(
      {sums.narrow(1, 0, 1) + pairs * torch::tensor(wanted).unsqueeze(1), sums.narrow(1, 1, dim)},
      1);
}

}  // namespace

std::vector<BagField> BagsOf(const TableSpec& table, const BatchShape& shape) {
  std::vector<BagField> bags;
  for (size_t f = 0; f < table.fields.size(); ++f) {
    const int64_t bag = table.fields[f] - static_cast<int64_t>(shape.ids.size());
    if (bag < 0) continue;
    bags.push_back({f, static_cast<size_t>(bag), shape.bags[static_cast<size_t>(bag)].combiner});
  }
  return bags;
}

void CombineBags(const Batch& batch, const std::vector<BagField>& bags,
                 absl::Span<const uint32_t> values, PulledRows* pulled) {
  const int64_t distinct = pulled->rows.size(0), fields = pulled->position.size(1);
  const size_t per_row = batch.rows == 0 ? 0 : batch.bag_ends.size() / batch.rows;
  torch::Tensor position = pulled->position.clone();
  std::vector<int64_t> from, to;
  std::vector<float> weights, with_pairs;
  bool any_pairs = false;
  int64_t combined = 0;
  for (int64_t row = 0; row < batch.rows; ++row) {
    for (const BagField& bag : bags) {
      const size_t cell = static_cast<size_t>(row) * per_row + bag.bag;
      const size_t first = cell == 0 ? 0 : batch.bag_ends[cell - 1];
      const size_t count = batch.bag_ends[cell] - first;
      RUBATO_CHECK(from.size() + count <= values.size());
      const size_t begin = weights.size();
      for (size_t v = 0; v < count; ++v) {
        from.push_back(values[from.size()]);
        to.push_back(combined);
        weights.push_back(batch.bag_weights.empty() ? 1 : batch.bag_weights[first + v]);
      }
      const double divisor =
          DivisorOf(bag.combiner, absl::MakeConstSpan(weights).subspan(begin, count));
      for (size_t i = begin; i < weights.size(); ++i) {
        weights[i] = static_cast<float>(weights[i] / divisor);
      }
      with_pairs.push_back(bag.combiner == kSumAndPairs ? 1 : 0);
      any_pairs |= with_pairs.back() > 0;
      position.data_ptr<int32_t>()[row * fields + static_cast<int64_t>(bag.field)] =
          static_cast<int32_t>(distinct + combined++);
    }
  }
  // What was a leaf stays one: its gradient is added to where the worker wants it.
  const torch::Tensor rows = pulled->rows;
  if (pulled->gradient.defined()) rows.mutable_grad() = pulled->gradient;
  const torch::Tensor taken = rows.index_select(0, torch::tensor(from, torch::kInt64)) *
                              torch::tensor(weights).unsqueeze(1);
  const torch::Tensor at = torch::tensor(to, torch::kInt64);
  torch::Tensor sums = torch::zeros({combined, rows.size(1)}).index_add(0, at, taken);
  if (any_pairs) {
    const torch::Tensor squares = torch::zeros_like(sums).index_add(0, at, taken.square());
    sums = WithPairs(sums, squares, with_pairs);
  }
  pulled->rows = torch::cat({rows, sums});
  pulled->position = position;
  pulled->gradient = torch::Tensor();
}

}  // namespace rubato
