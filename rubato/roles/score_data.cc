#include "rubato/roles/score_data.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/clock.h"
#include "rubato/adapters/files/files.h"
#include "rubato/adapters/files/idx_source.h"
#include "rubato/base/bytes.h"
#include "rubato/base/rng.h"
#include "rubato/base/status.h"
#include "rubato/data/cell_reader.h"
#include "rubato/data/holdout.h"
#include "rubato/job/suggest.h"
#include "rubato/roles/open_data.h"
#include "rubato/roles/prediction_sink.h"

namespace rubato {
namespace {

// Enough for the model to work at full speed, little enough to lose at a kill.
constexpr int64_t kBatchRecords = 1024;

// Records [begin, end) as a batch, and what shall be said of them, but for the scores.
struct ReadRows {
  Batch batch;
  Predictions predictions;
};

// Reads what predictions are made of.
class PredictionReader {
 public:
  static absl::StatusOr<PredictionReader> Make(const ScoredData& data,
                                               const std::string& id_column) {
    PredictionReader reader(data);
    if (id_column.empty()) return reader;
    RUBATO_ASSIGN_OR_RETURN(reader.cells_,
                            CellReader::Make(data.named().data, data.named().schema));
    const std::vector<std::string>& columns = reader.cells_->columns();
    const auto found = std::find(columns.begin(), columns.end(), id_column);
    if (found == columns.end()) {
      return absl::InvalidArgumentError(absl::StrCat("--id: the data has no column '", id_column,
                                                     "'", DidYouMean(id_column, columns)));
    }
    reader.id_ = static_cast<size_t>(found - columns.begin());
    return reader;
  }

  absl::StatusOr<ReadRows> Read(int64_t begin, int64_t end) {
    ReadRows rows;
    const auto block = data_.parser().NewBlock();
    RUBATO_RETURN_IF_ERROR(
        data_.source().Read(begin, end, [&](int64_t record, absl::string_view bytes) {
          rows.predictions.ids.push_back(IdOf(record, bytes));
          const absl::Status status = block->Add(bytes);
          rows.predictions.is_good.push_back(status.ok());
          return status.ok() ? status : CountBad(record, status);
        }));
    block->Finish(&rows.batch);
    return rows;
  }

  int64_t bad_rows() const { return bad_rows_; }
  const std::string& first_bad() const { return first_bad_; }

 private:
  explicit PredictionReader(const ScoredData& data) : spec_(data.spec()), data_(data) {}

  std::string IdOf(int64_t record, absl::string_view bytes) {
    if (!cells_.has_value()) return absl::StrCat(record);
    if (!cells_->Read(bytes, &scratch_).ok()) return "";
    return std::string(scratch_.views[id_]);
  }

  absl::Status CountBad(int64_t record, const absl::Status& why) {
    const absl::Status located = Annotate(why, data_.source().Locate(record));
    if (first_bad_.empty()) first_bad_ = std::string(located.message());
    // Every row has its answer, so there is no limit to them as there is for training.
    if (spec_.bad_rows != "skip") return located;
    ++bad_rows_;
    return absl::OkStatus();
  }

  const DataSpec& spec_;
  const ScoredData& data_;
  std::optional<CellReader> cells_;
  size_t id_ = 0;
  Cells scratch_;
  int64_t bad_rows_ = 0;
  std::string first_bad_;
};

}  // namespace

absl::StatusOr<ScoredData> ScoredData::Open(Servable& servable, const DataSpec& spec,
                                            const std::vector<std::string>& patterns,
                                            const std::string& index_path, bool has_labels,
                                            const ShowProgress& indexing) {
  absl::StatusOr<std::vector<std::string>> files = patterns;
  if (spec.format == "idx") files = FindIdxFiles(patterns, "t10k");
  RUBATO_RETURN_IF_ERROR(files.status());
  // Columns are the features' matter, if there are some; without, the parser's.
  const FileSourceOptions options = {.check = [&](const std::string& schema) {
    return servable.MakeParser(spec, schema, has_labels).status();
  }};
  RUBATO_RETURN_IF_ERROR(IndexAnyData(spec, *files, index_path, indexing, options).status());
  RUBATO_ASSIGN_OR_RETURN(OpenedData opened, OpenAnyData(spec, index_path, options));
  ScoredData data;
  data.servable_ = &servable;
  data.spec_ = spec;
  data.source_ = data.PartOf(std::move(opened.source));
  RUBATO_ASSIGN_OR_RETURN(data.named_, servable.Named(spec, opened.schema, has_labels));
  RUBATO_ASSIGN_OR_RETURN(data.owned_, servable.MakeParser(spec, opened.schema, has_labels));
  RUBATO_ASSIGN_OR_RETURN(const std::string index, ReadWholeFile(index_path));
  data.checksum_ = Checksum(index);
  data.index_path_ = index_path;
  return data;
}

absl::StatusOr<std::unique_ptr<RecordSource>> ScoredData::OpenSource() const {
  const FileSourceOptions checked = {.check = [](const std::string&) { return absl::OkStatus(); }};
  RUBATO_ASSIGN_OR_RETURN(OpenedData opened, OpenAnyData(spec_, index_path_, checked));
  return PartOf(std::move(opened.source));
}

std::unique_ptr<RecordSource> ScoredData::PartOf(std::unique_ptr<RecordSource> source) const {
  if (spec_.holdout_every == 0) return source;
  return TakePart(std::move(source), Holdout(spec_.holdout_every), /*held=*/true);
}

const RecordParser& ScoredData::parser() const {
  return owned_ != nullptr ? *owned_ : *servable_->trainer->parser();
}

absl::StatusOr<PredictedData> PredictData(Servable& servable, const ScoredData& data,
                                          const PredictOptions& options, const ShowProgress& show) {
  const int64_t width = servable.trainer->score_width();
  RUBATO_ASSIGN_OR_RETURN(PredictionReader reader, PredictionReader::Make(data, options.id_column));
  const uint64_t work = Mix(Mix(servable.weights->checksum(), data.checksum()),
                            HashText(options.id_column, /*seed=*/2));
  RUBATO_ASSIGN_OR_RETURN(const auto sink, OpenPredictions({.out = options.out,
                                                            .work = absl::StrFormat("%016x", work),
                                                            .width = static_cast<size_t>(width),
                                                            .replace = options.replace}));
  PredictedData result = {.records = data.records(), .resumed_from = sink->records()};
  // Bad rows that an earlier try has met count as well, and the first may be one of them.
  if (data.spec().bad_rows == "skip") {
    for (int64_t begin = 0; begin < result.resumed_from; begin += kBatchRecords) {
      const int64_t end = std::min(begin + kBatchRecords, result.resumed_from);
      RUBATO_RETURN_IF_ERROR(reader.Read(begin, end).status());
    }
  }
  absl::Time kept = absl::Now();
  while (sink->records() < data.records()) {
    const int64_t begin = sink->records(), end = std::min(begin + kBatchRecords, data.records());
    RUBATO_ASSIGN_OR_RETURN(ReadRows rows, reader.Read(begin, end));
    RUBATO_ASSIGN_OR_RETURN(const absl::Span<const float> scores,
                            servable.model->Predict(rows.batch));
    rows.predictions.width = static_cast<size_t>(width);
    rows.predictions.scores.assign(scores.begin(), scores.end());
    ToProbabilities(width, &rows.predictions.scores);
    RUBATO_RETURN_IF_ERROR(sink->Append(rows.predictions));
    if (const absl::Time now = absl::Now(); now - kept > absl::Milliseconds(200)) {
      kept = now;
      RUBATO_RETURN_IF_ERROR(sink->Keep());
    }
    if (absl::Status stop = show(end, data.records()); !stop.ok()) {
      RUBATO_RETURN_IF_ERROR(sink->Keep());
      return stop;
    }
  }
  result.bad_rows = reader.bad_rows();
  result.first_bad = reader.first_bad();
  RUBATO_RETURN_IF_ERROR(sink->Finish());
  return result;
}

}  // namespace rubato
