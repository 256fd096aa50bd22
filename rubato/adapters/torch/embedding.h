// A table of rows by 64-bit id, as a libtorch module. While Rubato trains, the rows live on the
// parameter servers and the batch brings those it needs; in a job without servers they are a
// bounded number of dense weights; alone, in a test, they live here.
#ifndef RUBATO_ADAPTERS_TORCH_EMBEDDING_H_
#define RUBATO_ADAPTERS_TORCH_EMBEDDING_H_

#include <torch/torch.h>

#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

#include "rubato/adapters/torch/gather.h"
#include "rubato/model/trainer.h"

namespace rubato {

// A batch as a model sees it.
struct ModelInput {
  int64_t rows = 0;
  torch::Tensor labels;  // rows, float
  torch::Tensor dense;   // rows x dense columns, float
  torch::Tensor ids;     // rows x id columns, int64 (the bits of the unsigned id)
  // The rows each table needs, in the order of the signature; empty when the model runs alone.
  std::vector<PulledRows> tables;
};

// How rows start; see InitializerSpec.
inline InitializerSpec Zeros() { return {"zeros", 0}; }
inline InitializerSpec Constant(double value) { return {"constant", value}; }
inline InitializerSpec Uniform(double half_width) { return {"uniform", half_width}; }
inline InitializerSpec Normal(double deviation) { return {"normal", deviation}; }
inline InitializerSpec TruncatedNormal(double deviation) { return {"truncated_normal", deviation}; }
inline InitializerSpec XavierUniform(double gain = 1) { return {"xavier_uniform", gain}; }
inline InitializerSpec XavierNormal(double gain = 1) { return {"xavier_normal", gain}; }
inline InitializerSpec HeUniform(double gain = 1) { return {"he_uniform", gain}; }
inline InitializerSpec HeNormal(double gain = 1) { return {"he_normal", gain}; }

// The module behind `Embedding`. Its rows are no parameters(), unless there are no servers.
class EmbeddingImpl : public torch::nn::Module {
 public:
  // A table `name` with rows of `dim` floats, in which the id columns `fields` are looked up. Two
  // tables of one model must not share a name.
  EmbeddingImpl(std::string name, int64_t dim, std::vector<int64_t> fields,
                InitializerSpec initializer = Uniform(0.01));

  // batch rows x fields x dim.
  torch::Tensor forward(const ModelInput& in) { return Gather(Pull(in)); }

  // The rows themselves and where each cell finds its own, for models that fuse the lookup with
  // what follows it (models/fm_lookup.h).
  PulledRows Pull(const ModelInput& in);

  const TableSpec& spec() const { return spec_; }
  // For the model's constructor: an optimizer of its own, groups of columns, rules for rows.
  //     table_->spec().groups = {{1, Zeros(), ftrl}, {dim, Uniform(0.01)}};
  TableSpec& spec() { return spec_; }

  // Alone: moves the rows of the last forward() against their gradients, after backward().
  void UpdateAlone(double learning_rate);

  // Rubato's: which element of ModelInput::tables is this table's.
  void set_index(size_t index) { index_ = index; }
  // Rubato's, for jobs without servers: from now on `buckets` rows are a parameter of this module,
  // and ids share them by hash. Rows start as libtorch's generator says.
  void KeepAsWeights(int64_t buckets);

 private:
  PulledRows PullAlone(const ModelInput& in);
  PulledRows PullWeights(const ModelInput& in) const;

  TableSpec spec_;
  size_t index_ = 0;
  torch::Tensor weights_;  // Defined once kept as weights: buckets x dim.
  std::unordered_map<uint64_t, std::vector<float>> alone_;  // Rows by id.
  std::vector<uint64_t> alone_ids_;                         // Of the last forward().
  torch::Tensor alone_rows_;
};
TORCH_MODULE(Embedding);

}  // namespace rubato

#endif  // RUBATO_ADAPTERS_TORCH_EMBEDDING_H_
