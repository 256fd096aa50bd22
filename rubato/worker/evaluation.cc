#include "rubato/worker/evaluation.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "rubato/base/status.h"
#include "rubato/job/suggest.h"

namespace rubato {

absl::StatusOr<GroupColumn> FindGroup(const BatchShape& shape, const std::string& name) {
  if (name.empty()) return GroupColumn();
  if (name == shape.group) return GroupColumn{.is_cell = true};
  const auto found = std::find(shape.ids.begin(), shape.ids.end(), name);
  if (found == shape.ids.end()) {
    const std::string nearest = DidYouMean(name, shape.ids);
    return absl::InvalidArgumentError(absl::StrCat(
        "evaluate.group: the data has no column '", name, "'", nearest,
        nearest.empty() ? "; without features it must be one that the format makes an id" : ""));
  }
  return GroupColumn{.column = static_cast<size_t>(found - shape.ids.begin()),
                     .columns = shape.ids.size()};
}

void Evaluation::Add(const Batch& batch, absl::Span<const float> scores,
                     const std::map<std::string, double>& user) {
  const size_t width = static_cast<size_t>(width_);
  RUBATO_CHECK(scores.size() == batch.labels.size() * width);
  for (size_t row = 0; row < batch.labels.size(); ++row) {
    if (width == 1) {
      std::optional<uint64_t> group;
      if (group_.is_cell) group = batch.groups[row];
      if (group_.columns > 0) group = batch.ids[row * group_.columns + group_.column];
      sums_.AddBinary(scores[row], batch.labels[row] > 0.5f, group);
    } else {
      AddLogits(batch.labels[row], scores.subspan(row * width, width));
    }
  }
  for (const auto& [name, sum] : user) sums_.user_sums[name] += sum;
}

// Cross-entropy of the softmax, shifted by the largest logit so that nothing overflows.
void Evaluation::AddLogits(float label, absl::Span<const float> logits) {
  const auto best = std::max_element(logits.begin(), logits.end());
  const size_t wanted = static_cast<size_t>(label);
  RUBATO_CHECK(wanted < logits.size());
  double sum = 0;
  for (const float logit : logits) sum += std::exp(static_cast<double>(logit) - *best);
  ++sums_.records;
  sums_.loss_sum += std::log(sum) + *best - logits[wanted];
  sums_.correct += wanted == static_cast<size_t>(best - logits.begin());
}

}  // namespace rubato
