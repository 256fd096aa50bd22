// Where `rubato predict` writes: a file, or a table of a database. Each record is written once, in
// order, however often the writer is killed.
#ifndef RUBATO_ROLES_PREDICTION_SINK_H_
#define RUBATO_ROLES_PREDICTION_SINK_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace rubato {

// Records one after the other.
struct Predictions {
  std::vector<std::string> ids;
  std::vector<bool> is_good;  // Whether the record could be read; if not, it has no scores.
  std::vector<float> scores;  // `width` for every good one.
  size_t width = 1;
};

class PredictionSink {
 public:
  virtual ~PredictionSink() = default;
  // Records that are there: the next to write.
  virtual int64_t records() const = 0;
  virtual absl::Status Append(const Predictions& predictions) = 0;
  // From now on a restart goes on from here.
  virtual absl::Status Keep() = 0;
  // All records are there.
  virtual absl::Status Finish() = 0;
};

// `out` is a file's path or a table's address. Goes on with what an earlier writer of the same
// `work` left, or begins anew. `width` is the number of scores a record.
absl::StatusOr<std::unique_ptr<PredictionSink>> OpenPredictions(const std::string& out,
                                                                const std::string& work,
                                                                size_t width);

}  // namespace rubato

#endif  // RUBATO_ROLES_PREDICTION_SINK_H_
