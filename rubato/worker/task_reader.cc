#include "rubato/worker/task_reader.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "rubato/base/status.h"
#include "rubato/tasks/order.h"

namespace rubato {
namespace {

absl::Status CheckLabel(float label, int64_t score_width) {
  const int64_t classes = score_width == 1 ? 2 : score_width;
  const bool fits = label >= 0 && label < static_cast<float>(classes) && label == std::floor(label);
  if (score_width == 0 || fits) return absl::OkStatus();
  return absl::InvalidArgumentError(
      score_width == 1
          ? absl::StrCat("the label is ", label, ", but the model's answer is yes or no: 0 or 1")
          : absl::StrCat("the label is ", label, ", but the model has ", classes, " classes: 0 to ",
                         classes - 1));
}

}  // namespace

TaskReader::TaskReader(RecordSource& source, const RecordParser& parser, Options options)
    : source_(source), parser_(parser), options_(options) {}

void TaskReader::Start(const Task& task) {
  task_ = task;
  at_ = task.committed;
  block_ = {};
}

absl::StatusOr<bool> TaskReader::Next(BatchKey* key, Batch* batch) {
  batch->Clear();
  skipped_ = {};
  if (at_ >= task_.end) return false;
  // A task goes on from a commit, which is where a batch ends.
  const int64_t end = BatchAt(task_, at_, options_.batch_size).end;
  *key = {.epoch = task_.epoch, .task = task_.id.value(), .begin = at_, .end = end};
  while (at_ < end) {
    if (at_ < block_.begin || at_ >= block_.end) RUBATO_RETURN_IF_ERROR(LoadBlock(at_));
    const int64_t upto = std::min(end, block_.end);
    Deal(at_, upto, batch);
    at_ = upto;
  }
  return true;
}

absl::Status TaskReader::LoadBlock(int64_t position) {
  block_ = BlockAt(task_, position, options_.shuffle_buffer);
  // An unshuffled task is one block: take it a batch at a time.
  const bool shuffled = task_.kind == TaskKind::kTrain && options_.shuffle_buffer > 1;
  if (!shuffled) block_ = BatchAt(task_, position, options_.batch_size);
  rows_.Clear();
  bad_.clear();
  row_of_.assign(static_cast<size_t>(block_.end - block_.begin), -1);
  absl::Status status = source_.Read(block_.begin, block_.end,
                                     [&](int64_t record, absl::string_view bytes) -> absl::Status {
                                       const int64_t row = rows_.rows;
                                       if (absl::Status parsed = ParseRow(bytes); !parsed.ok())
                                         return Skip(record, parsed);
                                       row_of_[static_cast<size_t>(record - block_.begin)] = row;
                                       return absl::OkStatus();
                                     });
  if (!status.ok()) {
    block_ = {};
    return status;
  }
  order_ = BlockOrder(task_, block_, options_.seed, options_.shuffle_buffer);
  return absl::OkStatus();
}

absl::Status TaskReader::ParseRow(absl::string_view bytes) {
  RUBATO_RETURN_IF_ERROR(parser_.Parse(bytes, &rows_));
  absl::Status status = CheckLabel(rows_.labels.back(), options_.score_width);
  if (status.ok()) return status;
  --rows_.rows;  // As if it had not parsed.
  rows_.labels.pop_back();
  rows_.dense.resize(rows_.dense.size() - parser_.shape().dense.size());
  rows_.ids.resize(rows_.ids.size() - parser_.shape().ids.size());
  return status;
}

absl::Status TaskReader::Skip(int64_t record, const absl::Status& why) {
  const std::string place = source_.Locate(record);
  if (options_.skip_bad_rows) {
    bad_[record] = absl::StrCat(place, ": ", why.message());
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      absl::StrCat(place, ": ", why.message(),
                   "; mend the row, or leave such rows out with data.bad_rows: skip"));
}

void TaskReader::Deal(int64_t begin, int64_t end, Batch* batch) {
  const size_t dense = parser_.shape().dense.size();
  const size_t ids = parser_.shape().ids.size();
  for (int64_t position = begin; position < end; ++position) {
    const int64_t record = order_[static_cast<size_t>(position - block_.begin)];
    const int64_t row = row_of_[static_cast<size_t>(record - block_.begin)];
    if (row < 0) {
      ++skipped_.count;
      if (skipped_.named.size() < SkippedRows::kNamedMax) skipped_.named.push_back(bad_[record]);
      continue;
    }
    const auto r = static_cast<size_t>(row);
    batch->labels.push_back(rows_.labels[r]);
    batch->dense.insert(batch->dense.end(), rows_.dense.begin() + r * dense,
                        rows_.dense.begin() + (r + 1) * dense);
    batch->ids.insert(batch->ids.end(), rows_.ids.begin() + r * ids,
                      rows_.ids.begin() + (r + 1) * ids);
    ++batch->rows;
  }
}

}  // namespace rubato
