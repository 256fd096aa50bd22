// A leased task turned into batches. Which records a batch holds, and in which order, depends on
// (seed, epoch, position) only: two workers that compute a batch compute the same one.
#ifndef RUBATO_WORKER_TASK_READER_H_
#define RUBATO_WORKER_TASK_READER_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "rubato/base/interval_set.h"
#include "rubato/data/batch.h"
#include "rubato/data/source.h"
#include "rubato/tasks/task.h"

namespace rubato {

// Reads a task block by block: a block is read from the source in one go, parsed, and dealt out in
// its shuffled order. A record that does not parse and is skipped keeps its position, so a batch
// may have fewer rows than positions, down to none. One thread uses it.
class TaskReader {
 public:
  struct Options {
    uint64_t seed = 0;              // The job's.
    int64_t batch_size = 512;       // Positions a batch; the last of a task may have fewer.
    int64_t shuffle_buffer = 8192;  // Records a block; 0 keeps the source's order.
    bool skip_bad_rows = false;     // Otherwise the first bad row ends the task.
    int64_t bad_rows_max = 1000;    // How many this worker may skip in all.
  };

  // Neither `source` nor `parser` is owned.
  TaskReader(RecordSource& source, const RecordParser& parser, Options options);

  // Goes on from task.committed. Evaluation tasks are read in the source's order.
  void Start(const Task& task);

  // The next batch, or false when the task has no more. INVALID_ARGUMENT names the bad record
  // ("train.tsv:1204: column 3, ..."); errors of the source pass through.
  absl::StatusOr<bool> Next(BatchKey* key, Batch* batch);

  // Any positions of a training task: a microbatch. Blocks already read are not read again.
  absl::Status ReadPositions(const Task& task, Interval positions, Batch* batch);

  // Rows skipped since the reader was made.
  int64_t bad_rows() const { return bad_rows_; }

 private:
  absl::Status LoadBlock(int64_t position);
  absl::Status DealUpTo(int64_t end, Batch* batch);
  absl::Status Skip(int64_t record, const absl::Status& why);
  void Deal(int64_t begin, int64_t end, Batch* batch) const;

  RecordSource& source_;
  const RecordParser& parser_;
  const std::unique_ptr<RecordParser::Block> parsing_;
  const Options options_;
  Task task_;
  int64_t at_ = 0;               // The next position to hand out.
  Interval block_;               // Positions parsed and waiting in rows_.
  Batch rows_;                   // The block's records, in the source's order.
  std::vector<int64_t> row_of_;  // Per record of the block: its row in rows_, or -1 if skipped.
  std::vector<int64_t> order_;   // Per position of the block: its record.
  int64_t bad_rows_ = 0;
};

}  // namespace rubato

#endif  // RUBATO_WORKER_TASK_READER_H_
