// The model API: write a single-machine model on libtorch, and Rubato trains it elastically.
//
//     class Mine : public rubato::TorchModel {
//      public:
//       explicit Mine(rubato::ModelSetup& setup) {
//         const int64_t dim = setup.options.Int("dim", 8);
//         table_ = register_module("ads", rubato::Embedding("ads", dim, std::vector<int64_t>{0, 1,
//         2})); out_ = register_module("out", torch::nn::Linear(3 * dim, 1));
//       }
//       torch::Tensor Forward(const rubato::ModelInput& in) override {
//         return out_->forward(table_->forward(in).flatten(1));
//       }
//      private:
//       rubato::Embedding table_{nullptr};
//       torch::nn::Linear out_{nullptr};
//     };
//     RUBATO_MODEL(Mine)
//
// Modules registered as in libtorch become the dense weights, embeddings become tables on the
// parameter servers, and `model: path/to/libmine.so` in the job file runs it. examples/plugin has
// the CMake file.
#ifndef RUBATO_ADAPTERS_TORCH_MODEL_H_
#define RUBATO_ADAPTERS_TORCH_MODEL_H_

#include <torch/torch.h>

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "rubato/adapters/torch/abi.h"
#include "rubato/adapters/torch/embedding.h"
#include "rubato/data/batch.h"
#include "rubato/job/job_spec.h"
#include "rubato/model/options.h"

namespace rubato {

// What a model is told when it is made. It asks `options` for what it can be told in the job file
// (model_options), and says options.Refuse("...") if it cannot be made for these columns.
struct ModelSetup {
  ModelOptions options;
  BatchShape shape;  // The columns its batches will have.
  // Whether the job has servers to hold embeddings. Without (strategy: allreduce), Rubato turns
  // every table into dense weights with as many rows as the option `buckets` says.
  bool servers = true;
  OptimizerSpec optimizer;  // The job's, for tables that want it with a difference.
};

// Every id column and bag, for tables that all fields share.
std::vector<int64_t> AllFields(const BatchShape& shape);

// A model, its loss, its parser and its optimizer: only Forward must be written. The constructor
// makes the starting weights from libtorch's generator, which Rubato seeds. Weights are there
// during Forward and Loss only; buffers are refused, for no server holds them (batch_norm.h is a
// BatchNorm without).
class TorchModel : public torch::nn::Module {
 public:
  // One row of `score_width()` logits for each row of the batch: rows, rows x 1 or rows x width.
  virtual torch::Tensor Forward(const ModelInput& in) = 0;

  // How many logits a row: 1 for yes or no, otherwise one a class.
  virtual int64_t score_width() const { return 1; }

  // A scalar, the mean over the rows: binary cross-entropy for width 1, else cross-entropy with
  // the labels as classes.
  virtual torch::Tensor Loss(const torch::Tensor& output, const ModelInput& in);

  // The job file's, unless the model insists on its own.
  virtual OptimizerSpec Optimizer(const OptimizerSpec& job) const { return job; }

  // A model with its own data format names its columns here and reads a record in Parse, which
  // appends one row or says what is wrong with the record and leaves `batch` as it was.
  virtual std::optional<BatchShape> Columns() const { return std::nullopt; }
  virtual absl::Status Parse(absl::string_view record, Batch* batch) const;

  // Metrics of its own, each summed over the rows; reported divided by the number of records.
  // `scores` are probabilities (rows) for width 1, else logits (rows x width).
  virtual std::map<std::string, double> Metrics(const ModelInput& in, const torch::Tensor& scores) {
    return {};
  }

  // Called on the worker's thread, outside of steps.
  virtual void OnTaskBegin(int64_t epoch) {}
  virtual void OnTrainEnd() {}
};

}  // namespace rubato

// Makes `Model` the model of this plug-in. Once a library, outside of namespaces.
#define RUBATO_MODEL(Model)                                                                  \
  extern "C" __attribute__((visibility("default"), used)) const char rubato_model_stamp[] =  \
      RUBATO_MODEL_STAMP;                                                                    \
  extern "C" __attribute__((visibility("default"))) ::rubato::TorchModel* rubato_make_model( \
      ::rubato::ModelSetup& setup) {                                                         \
    return new Model(setup);                                                                 \
  }

#endif  // RUBATO_ADAPTERS_TORCH_MODEL_H_
