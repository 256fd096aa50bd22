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

struct PredictionTarget {
  std::string out;       // A file's path or a table's address.
  std::string work;      // What is predicted, and by what.
  size_t width = 1;      // The number of scores a record.
  bool replace = false;  // What is there: a file, or another prediction's rows.
};

// Goes on with what an earlier writer of the same work left, or begins anew. ALREADY_EXISTS if
// something else is there, unless it may be replaced; a table that somebody else wrote never may.
absl::StatusOr<std::unique_ptr<PredictionSink>> OpenPredictions(const PredictionTarget& target);

}  // namespace rubato

#endif  // RUBATO_ROLES_PREDICTION_SINK_H_
