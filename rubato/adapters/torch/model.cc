#include "rubato/adapters/torch/model.h"

#include <numeric>

namespace rubato {

std::vector<int64_t> AllFields(const BatchShape& shape) {
  std::vector<int64_t> fields(shape.ids.size() + shape.bags.size());
  std::iota(fields.begin(), fields.end(), 0);
  return fields;
}

torch::Tensor TorchModel::Loss(const torch::Tensor& output, const ModelInput& in) {
  if (score_width() == 1) {
    return torch::binary_cross_entropy_with_logits(output.reshape({in.rows}), in.labels);
  }
  return torch::nn::functional::cross_entropy(output, in.labels.to(torch::kLong));
}

absl::Status TorchModel::Parse(absl::string_view record, Batch* batch) const {
  return absl::UnimplementedError("a model that names its Columns() must write Parse()");
}

}  // namespace rubato
