#include "rubato/adapters/torch/embedding.h"

#include "rubato/base/rng.h"
#include "rubato/base/status.h"
#include "rubato/params/initializer.h"

namespace rubato {

EmbeddingImpl::EmbeddingImpl(std::string name, int64_t dim, std::vector<int64_t> fields,
                             InitializerSpec initializer) {
  spec_.name = std::move(name);
  spec_.dim = dim;
  spec_.initializer = std::move(initializer);
  spec_.fields = std::move(fields);
}

PulledRows EmbeddingImpl::Pull(const ModelInput& in) {
  if (!weights_.defined() && !in.tables.empty()) return in.tables[index_];
  for (const int64_t field : spec_.fields) {
    TORCH_CHECK(field < in.ids.size(1), "without servers, bags cannot be looked up");
  }
  return weights_.defined() ? PullWeights(in) : PullAlone(in);
}

void EmbeddingImpl::KeepAsWeights(int64_t buckets) {
  const uint64_t seed = static_cast<uint64_t>(torch::randint(INT64_MAX, {1}).item<int64_t>());
  const absl::StatusOr<RowInitializer> initializer = RowInitializer::Make(spec_, seed);
  TORCH_CHECK(initializer.ok(), initializer.status().ToString());
  torch::Tensor rows = torch::empty({buckets, spec_.dim});
  for (int64_t i = 0; i < buckets; ++i) {
    initializer->Fill(static_cast<uint64_t>(i), rows.data_ptr<float>() + i * spec_.dim);
  }
  weights_ = register_parameter("rows", rows);
}

PulledRows EmbeddingImpl::PullWeights(const ModelInput& in) const {
  const int64_t fields = static_cast<int64_t>(spec_.fields.size());
  const uint64_t buckets = static_cast<uint64_t>(weights_.size(0));
  torch::Tensor position = torch::empty({in.rows, fields}, torch::kInt32);
  const auto ids = in.ids.accessor<int64_t, 2>();
  int32_t* at = position.data_ptr<int32_t>();
  for (int64_t row = 0; row < in.rows; ++row) {
    for (const int64_t field : spec_.fields) {
      *at++ = static_cast<int32_t>(Mix(static_cast<uint64_t>(ids[row][field])) % buckets);
    }
  }
  return {weights_, position, torch::Tensor()};
}

PulledRows EmbeddingImpl::PullAlone(const ModelInput& in) {
  const absl::StatusOr<RowInitializer> initializer = RowInitializer::Make(spec_, /*seed=*/0);
  TORCH_CHECK(initializer.ok(), initializer.status().ToString());
  const int64_t fields = static_cast<int64_t>(spec_.fields.size());
  torch::Tensor position = torch::empty({in.rows, fields}, torch::kInt32);
  const auto ids = in.ids.accessor<int64_t, 2>();
  auto at = position.accessor<int32_t, 2>();
  std::unordered_map<uint64_t, int32_t> seen;
  alone_ids_.clear();
  for (int64_t row = 0; row < in.rows; ++row) {
    for (int64_t f = 0; f < fields; ++f) {
      const uint64_t id = static_cast<uint64_t>(ids[row][spec_.fields[f]]);
      const auto [it, is_new] = seen.try_emplace(id, static_cast<int32_t>(alone_ids_.size()));
      if (is_new) alone_ids_.push_back(id);
      at[row][f] = it->second;
    }
  }
  if (fields == 0) alone_ids_.push_back(0);
  alone_rows_ = torch::empty({static_cast<int64_t>(alone_ids_.size()), spec_.dim});
  float* to = alone_rows_.data_ptr<float>();
  for (const uint64_t id : alone_ids_) {
    const auto [it, is_new] = alone_.try_emplace(id, spec_.dim, 0.0f);
    if (is_new) initializer->Fill(id, it->second.data());
    to = std::copy(it->second.begin(), it->second.end(), to);
  }
  alone_rows_.set_requires_grad(true);
  return {alone_rows_, position, torch::Tensor()};
}

void EmbeddingImpl::UpdateAlone(double learning_rate) {
  if (!alone_rows_.defined() || !alone_rows_.grad().defined()) return;
  const torch::Tensor moved =
      (alone_rows_.detach() - learning_rate * alone_rows_.grad()).contiguous();
  const float* from = moved.data_ptr<float>();
  for (const uint64_t id : alone_ids_) {
    std::copy(from, from + spec_.dim, alone_[id].begin());
    from += spec_.dim;
  }
}

}  // namespace rubato
