// A whole data set through a model that stands still: `rubato evaluate` and `rubato predict`.
#ifndef RUBATO_ROLES_SCORE_DATA_H_
#define RUBATO_ROLES_SCORE_DATA_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "rubato/data/source.h"
#include "rubato/roles/servable.h"

namespace rubato {

// Hears of how much is done, now and then; an error from it stops the work.
using ShowProgress = std::function<absl::Status(int64_t done, int64_t total)>;

// Data with the model's columns, indexed and opened.
class ScoredData {
 public:
  // Read as `spec` says, whose files do not matter: the job's own, or of another format. Keeps its
  // index at `index_path`. Without `has_labels` the files need not have any. With `holdout_every`
  // only what training held back is scored. `servable` outlives it.
  static absl::StatusOr<ScoredData> Open(Servable& servable, const DataSpec& spec,
                                         const std::vector<std::string>& patterns,
                                         const std::string& index_path, bool has_labels,
                                         const ShowProgress& indexing);

  int64_t records() const { return source_->records(); }
  RecordSource& source() const { return *source_; }
  const RecordParser& parser() const;
  const DataSpec& spec() const { return spec_; }
  // Its records by the columns that the model knows.
  const NamedData& named() const { return named_; }
  // One more source of the same records, for one more thread.
  absl::StatusOr<std::unique_ptr<RecordSource>> OpenSource() const;
  // Of files and index: the same data reads as the same number.
  uint64_t checksum() const { return checksum_; }

 private:
  std::unique_ptr<RecordSource> PartOf(std::unique_ptr<RecordSource> source) const;

  const Servable* servable_ = nullptr;
  DataSpec spec_;
  std::unique_ptr<RecordSource> source_;
  std::unique_ptr<const RecordParser> owned_;
  NamedData named_;
  std::string index_path_;
  uint64_t checksum_ = 0;
};

struct EvaluatedData {
  int64_t records = 0;
  int64_t bad_rows = 0;  // Left out, as data.bad_rows of the job allows.
  std::map<std::string, double> metrics;
};
// With `workers` threads, each with a model of its own over the same weights. The data is cut into
// the same parts whatever their number, and the parts' sums are added in order: the metrics are the
// same to the last digit. `show` is called by this thread alone. INVALID_ARGUMENT if more rows are
// bad than the job allows, or all of them.
absl::StatusOr<EvaluatedData> EvaluateData(Servable& servable, const ScoredData& data, int workers,
                                           const ShowProgress& show);

struct PredictOptions {
  // A file of id and score, for classes one score each; or a table, sqlite://... or
  // postgresql://..., with the record's number before them.
  std::string out;
  std::string id_column;  // Empty: the record's number, from 0.
  bool replace = false;   // A file that is there, or the rows of another prediction.
};
struct PredictedData {
  int64_t records = 0;
  int64_t resumed_from = 0;  // Records that an earlier try had written.
  int64_t bad_rows = 0;      // Of all of them, with the score nan.
  std::string first_bad;     // Where the first of these is, and what is wrong with it.
};
// Writes exactly one line or row a record, in their order; the same command goes on where a killed
// one was. With another model or other data it begins anew. A file is there as a whole or not at
// all (prediction_file.h), a table grows, or is replaced when all is there
// (adapters/sql/table_writer.h). ALREADY_EXISTS rather than to replace what was not asked to be.
absl::StatusOr<PredictedData> PredictData(Servable& servable, const ScoredData& data,
                                          const PredictOptions& options, const ShowProgress& show);

}  // namespace rubato

#endif  // RUBATO_ROLES_SCORE_DATA_H_
