// A model as the worker sees it: plain memory in, plain memory out. The worker never meets a
// tensor; adapters/torch implements this over libtorch, and the user's model never meets a server.
#ifndef RUBATO_MODEL_TRAINER_H_
#define RUBATO_MODEL_TRAINER_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "rubato/data/batch.h"
#include "rubato/data/source.h"
#include "rubato/job/job_spec.h"

namespace rubato {

struct DenseParameter {
  std::string name;
  std::vector<int64_t> shape;
  int64_t size = 0;    // Product of the shape.
  int64_t offset = 0;  // Into the flat vector of all dense weights.
};

// How a new row starts: a function of (seed, table, id) alone.
struct InitializerSpec {
  // zeros, constant, uniform, normal, truncated_normal (at two deviations), xavier_uniform,
  // xavier_normal, he_uniform, he_normal.
  std::string name = "uniform";
  // Half-width, deviation or the constant itself. For xavier_ and he_, whose width follows from
  // the dim of the row, a factor: 1 for the textbook's.
  double scale = 0.01;
  friend bool operator==(const InitializerSpec&, const InitializerSpec&) = default;
};

// Neighbouring columns of a table that start and move by rules of their own.
struct ColumnGroup {
  int64_t dim = 0;
  InitializerSpec initializer;
  std::optional<OptimizerSpec> optimizer;  // The job's, if none.
  friend bool operator==(const ColumnGroup&, const ColumnGroup&) = default;
};

// A table on the servers: rows of `dim` floats by 64-bit id, made when first seen.
struct TableSpec {
  std::string name;
  int64_t dim = 0;
  InitializerSpec initializer;
  // Which id columns of the batch look it up, in order; its bags are counted on after them. None:
  // every batch takes the one row of id 0.
  std::vector<int64_t> fields;
  std::optional<OptimizerSpec> optimizer;  // The job's, if none.
  // If not empty: their dims add up to `dim`, and they stand for initializer and optimizer.
  std::vector<ColumnGroup> groups;
  std::optional<RowsSpec> rows;  // The job's, if none.
};

// Everything a server must know of a model before the first step.
struct ModelSignature {
  std::vector<DenseParameter> dense;
  int64_t dense_size = 0;  // Floats in all.
  std::vector<TableSpec> tables;
};

// A table's part of one batch: each distinct id once, and where each cell of the batch finds it.
struct TableRows {
  absl::Span<const float> rows;  // distinct ids x dim
  // batch rows x fields: index of the distinct id. 0 in the cells of bags, whose values' indexes
  // follow, bag after bag of row after row.
  absl::Span<const uint32_t> position;
};

// Someone who wants gradients while backward still computes others, to send them meanwhile.
struct GradientWatch {
  // Called on the thread of Step(), with [begin, end) of StepOutput::dense_gradient final and
  // finite. The ranges cover all of it once, from the back to the front; they depend on the model
  // and bucket_floats only, so that every worker announces the same ones in the same order. If
  // Step() fails, ranges at the front may not have been announced. Must not throw.
  std::function<void(int64_t begin, int64_t end)> ready;
  // Whole parameters are merged until a range is this long; 256 Ki floats are 1 MB. Shorter ranges
  // start earlier, longer ones cost fewer rounds.
  int64_t bucket_floats = 256 << 10;
};

struct StepInput {
  const Batch* batch = nullptr;
  absl::Span<const float> dense;  // All dense weights, flat.
  std::vector<TableRows> tables;  // As in the signature.
  uint64_t seed = 0;              // Belongs to the batch: dropout is the same whoever computes it.
  const GradientWatch* watch = nullptr;
};

struct StepOutput {
  double loss = 0;                                  // Mean over the batch.
  std::vector<float> dense_gradient;                // As `dense`.
  std::vector<std::vector<float>> table_gradients;  // As each table's `rows`.
};

// One model with its loss, optimizer and parser: the user's four functions. One thread uses it.
class Trainer {
 public:
  virtual ~Trainer() = default;

  virtual const ModelSignature& signature() const = 0;
  // What computes: library, BLAS and its measured speed. For the log.
  virtual std::string engine() const { return "unknown"; }
  // The model's own optimizer, if it insists on one; otherwise the job's.
  virtual OptimizerSpec optimizer(const OptimizerSpec& job) const { return job; }
  // The model's own parser, or null to use the format's.
  virtual const RecordParser* parser() const { return nullptr; }

  // The starting weights: the same for the same seed, in every process.
  virtual std::vector<float> InitialDense(uint64_t seed) = 0;
  // Forward, loss and backward. Buffers of `out` are reused. OUT_OF_RANGE if the loss or a
  // gradient is not finite, with the first culprit named.
  virtual absl::Status Step(const StepInput& in, StepOutput* out) = 0;
  // Scores, rows x score_width: a probability when the width is 1, else logits of the classes.
  virtual absl::Status Predict(const StepInput& in, std::vector<float>* scores) = 0;
  virtual int64_t score_width() const = 0;

  // Writes the model with these dense weights as TorchScript, which scores without Rubato.
  // FAILED_PRECONDITION says why this model cannot be written so.
  virtual absl::Status SaveScript(absl::Span<const float> dense, const std::string& path) {
    return absl::UnimplementedError("this engine writes no TorchScript");
  }
  // From now on Predict() asks the script at `path` and not the model.
  virtual absl::Status UseScript(const std::string& path) {
    return absl::UnimplementedError("this engine reads no TorchScript");
  }
  // The user's own metrics for a batch and its scores: name -> sum over the rows. Reported as
  // the sum over all records divided by their number.
  virtual std::map<std::string, double> Metrics(const Batch& batch,
                                                absl::Span<const float> scores) {
    return {};
  }
  // Hooks of the user, called on the worker's thread.
  virtual void OnTaskBegin(int64_t epoch) {}
  virtual void OnTrainEnd() {}
};

}  // namespace rubato

#endif  // RUBATO_MODEL_TRAINER_H_
