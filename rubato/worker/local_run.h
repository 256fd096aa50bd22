// A whole job in one thread, the parameters beside it: no servers, no master, nothing in flight.
// What a user tests a model with, and the answer the distributed runs are compared to.
#ifndef RUBATO_WORKER_LOCAL_RUN_H_
#define RUBATO_WORKER_LOCAL_RUN_H_

#include <cstdint>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "rubato/data/batch.h"
#include "rubato/job/job_spec.h"
#include "rubato/model/trainer.h"
#include "rubato/params/initializer.h"
#include "rubato/worker/unique.h"

namespace rubato {

// Holds dense weights and rows in plain memory, updated by SGD or Adagrad as a server would.
class LocalRun {
 public:
  struct Options {
    OptimizerSpec optimizer;
    int64_t id_columns = 0;  // Of every batch.
    uint64_t seed = 7;
  };
  // `trainer` is not owned; its own optimizer, if it has one, is used.
  LocalRun(Trainer& trainer, const Options& options);

  // One step of one batch; returns its loss before the update.
  absl::StatusOr<double> Step(const Batch& batch);
  // Scores of a batch by the present weights.
  absl::StatusOr<std::vector<float>> Predict(const Batch& batch);

  const std::vector<float>& dense() const { return dense_; }
  int64_t rows() const;  // In all tables.

 private:
  // A table: the row of an id, and beside it Adagrad's accumulators.
  struct Table {
    Initializer initializer;
    absl::flat_hash_map<uint64_t, int64_t> row_of;  // Looked up by id only, never iterated.
    std::vector<float> weights, squares;
    UniqueIds unique;
    std::vector<int64_t> row_index;  // Of each distinct id of the batch.
    std::vector<float> gathered;
  };
  StepInput Gather(const Batch& batch);
  void Update(float* weights, float* squares, const float* gradient, int64_t n) const;

  Trainer& trainer_;
  const OptimizerSpec optimizer_;
  const int64_t id_columns_;
  const uint64_t seed_;
  int64_t steps_ = 0;
  Unique unique_;
  std::vector<float> dense_, dense_squares_;
  std::vector<Table> tables_;
  StepOutput out_;
};

}  // namespace rubato

#endif  // RUBATO_WORKER_LOCAL_RUN_H_
