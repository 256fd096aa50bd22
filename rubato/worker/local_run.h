// A whole job in one thread, the parameters beside it: no servers, no master, nothing in flight.
// What a user tests a model with, and the answer the distributed runs are compared to.
#ifndef RUBATO_WORKER_LOCAL_RUN_H_
#define RUBATO_WORKER_LOCAL_RUN_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "rubato/data/batch.h"
#include "rubato/job/job_spec.h"
#include "rubato/model/trainer.h"
#include "rubato/params/embedding_table.h"
#include "rubato/params/memory.h"
#include "rubato/params/optimizer.h"
#include "rubato/worker/unique.h"

namespace rubato {

// Holds dense weights and tables as a server would, and moves them by the same code.
class LocalRun {
 public:
  struct Options {
    OptimizerSpec optimizer;
    RowsSpec rows;
    int64_t id_columns = 0;  // Of every batch.
    uint64_t seed = 7;
  };
  // `trainer` is not owned; its own optimizer, if it has one, is used. An optimizer or a table that
  // cannot be is a bug of the caller.
  LocalRun(Trainer& trainer, const Options& options);

  // One step of one batch; returns its loss before the update.
  absl::StatusOr<double> Step(const Batch& batch);
  // Scores of a batch by the present weights. Makes no rows.
  absl::StatusOr<std::vector<float>> Predict(const Batch& batch);

  const std::vector<float>& dense() const { return dense_; }
  int64_t rows() const;  // In all tables.
  // The rows of ids [0, ids) of a table, as the next step would read them.
  std::vector<float> Rows(size_t table, uint64_t ids) const;

 private:
  struct Table {
    std::unique_ptr<EmbeddingTable> rows;
    UniqueIds unique;             // Of the batch.
    std::vector<float> gathered;  // Their weights.
  };
  StepInput Gather(const Batch& batch);
  OptimizerStep NextStep() const;

  Trainer& trainer_;
  const int64_t id_columns_;
  const uint64_t seed_;
  Optimizer optimizer_;
  SystemMemory memory_{/*huge_pages=*/false};
  uint32_t steps_ = 0;
  int64_t samples_ = 0;
  Unique unique_;
  std::vector<float> dense_, dense_state_;
  std::vector<Table> tables_;
  StepOutput out_;
};

}  // namespace rubato

#endif  // RUBATO_WORKER_LOCAL_RUN_H_
