#include "rubato/roles/prediction_sink.h"

#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_replace.h"
#include "rubato/adapters/sql/sql_uri.h"
#include "rubato/adapters/sql/table_writer.h"
#include "rubato/base/status.h"
#include "rubato/roles/prediction_file.h"

namespace rubato {
namespace {

std::string LinesOf(const Predictions& predictions) {
  std::string lines;
  size_t next = 0;
  for (size_t i = 0; i < predictions.ids.size(); ++i) {
    // A tab or a line's end within an id would make two of one line.
    absl::StrAppend(
        &lines, absl::StrReplaceAll(predictions.ids[i],
                                    {{"\\", "\\\\"}, {"\t", "\\t"}, {"\n", "\\n"}, {"\r", "\\r"}}));
    for (size_t w = 0; w < predictions.width; ++w) {
      if (predictions.is_good[i]) {
        absl::StrAppendFormat(&lines, "\t%.9g", predictions.scores[next++]);
      } else {
        lines.append("\tnan");
      }
    }
    lines.push_back('\n');
  }
  return lines;
}

class FileSink : public PredictionSink {
 public:
  explicit FileSink(std::unique_ptr<PredictionFile> file) : file_(std::move(file)) {}
  int64_t records() const override { return file_->records(); }
  absl::Status Append(const Predictions& predictions) override {
    return file_->Append(LinesOf(predictions), static_cast<int64_t>(predictions.ids.size()));
  }
  absl::Status Keep() override { return file_->Keep(); }
  absl::Status Finish() override { return file_->Finish(); }

 private:
  const std::unique_ptr<PredictionFile> file_;
};

class TableSink : public PredictionSink {
 public:
  explicit TableSink(std::unique_ptr<TableWriter> table) : table_(std::move(table)) {}
  int64_t records() const override { return table_->records(); }
  absl::Status Append(const Predictions& predictions) override {
    std::vector<std::optional<float>> scores(predictions.width);
    size_t next = 0;
    for (size_t i = 0; i < predictions.ids.size(); ++i) {
      for (std::optional<float>& score : scores) {
        score.reset();
        if (predictions.is_good[i]) score = predictions.scores[next++];
      }
      RUBATO_RETURN_IF_ERROR(table_->Append(predictions.ids[i], scores));
    }
    return absl::OkStatus();
  }
  absl::Status Keep() override { return table_->Keep(); }
  absl::Status Finish() override { return table_->Finish(); }

 private:
  const std::unique_ptr<TableWriter> table_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<PredictionSink>> OpenPredictions(const PredictionTarget& target) {
  RUBATO_RETURN_IF_ERROR(CheckSlashes(target.out));
  if (!IsSqlUri(target.out)) {
    RUBATO_ASSIGN_OR_RETURN(auto file,
                            PredictionFile::Open(target.out, target.work, target.replace));
    return std::make_unique<FileSink>(std::move(file));
  }
  std::vector<std::string> columns = {"score"};
  if (target.width > 1) {
    columns.clear();
    for (size_t w = 0; w < target.width; ++w) columns.push_back(absl::StrCat("score_", w));
  }
  RUBATO_ASSIGN_OR_RETURN(auto table, TableWriter::Open({.uri = target.out,
                                                         .work = target.work,
                                                         .numbers = std::move(columns),
                                                         .replace = target.replace}));
  return std::make_unique<TableSink>(std::move(table));
}

}  // namespace rubato
