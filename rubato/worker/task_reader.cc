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
    : source_(source), parser_(parser), parsing_(parser.NewBlock()), options_(options) {}

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
  RUBATO_RETURN_IF_ERROR(DealUpTo(end, batch));
  return true;
}

absl::Status TaskReader::ReadPositions(const Task& task, Interval positions, Batch* batch) {
  batch->Clear();
  if (task.id != task_.id || task.kind != task_.kind) Start(task);
  at_ = positions.begin;
  return DealUpTo(positions.end, batch);
}

absl::Status TaskReader::DealUpTo(int64_t end, Batch* batch) {
  while (at_ < end) {
    if (at_ < block_.begin || at_ >= block_.end) RUBATO_RETURN_IF_ERROR(LoadBlock(at_));
    const int64_t upto = std::min(end, block_.end);
    Deal(at_, upto, batch);
    at_ = upto;
  }
  return absl::OkStatus();
}

absl::Status TaskReader::LoadBlock(int64_t position) {
  block_ = BlockAt(task_, position, options_.shuffle_buffer);
  // An unshuffled task is one block: take it a batch at a time.
  const bool shuffled = task_.kind == TaskKind::kTrain && options_.shuffle_buffer > 1;
  if (!shuffled) block_ = BatchAt(task_, position, options_.batch_size);
  parsing_->Finish(&rows_);  // Whatever an error left there.
  int64_t rows = 0;
  bad_.clear();
  row_of_.assign(static_cast<size_t>(block_.end - block_.begin), -1);
  absl::Status status = source_.Read(block_.begin, block_.end,
                                     [&](int64_t record, absl::string_view bytes) -> absl::Status {
                                       if (absl::Status parsed = parsing_->Add(bytes); !parsed.ok())
                                         return Skip(record, parsed);
                                       row_of_[static_cast<size_t>(record - block_.begin)] = rows++;
                                       return absl::OkStatus();
                                     });
  if (status.ok()) {
    parsing_->Finish(&rows_);
    status = CheckLabels();
  }
  if (!status.ok()) {
    block_ = {};
    return status;
  }
  order_ = BlockOrder(task_, block_, options_.seed, options_.shuffle_buffer);
  return absl::OkStatus();
}

absl::Status TaskReader::CheckLabels() {
  for (size_t i = 0; i < row_of_.size(); ++i) {
    if (row_of_[i] < 0) continue;
    const float label = rows_.labels[static_cast<size_t>(row_of_[i])];
    const absl::Status status = CheckLabel(label, options_.score_width);
    if (status.ok()) continue;
    row_of_[i] = -1;
    RUBATO_RETURN_IF_ERROR(Skip(block_.begin + static_cast<int64_t>(i), status));
  }
  return absl::OkStatus();
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
  const size_t bags = parser_.shape().bags.size();
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
    if (!rows_.groups.empty()) batch->groups.push_back(rows_.groups[r]);
    batch->dense.insert(batch->dense.end(), rows_.dense.begin() + r * dense,
                        rows_.dense.begin() + (r + 1) * dense);
    batch->ids.insert(batch->ids.end(), rows_.ids.begin() + r * ids,
                      rows_.ids.begin() + (r + 1) * ids);
    for (size_t cell = r * bags; cell < (r + 1) * bags; ++cell) {
      const uint64_t first = cell == 0 ? 0 : rows_.bag_ends[cell - 1];
      batch->bag_ids.insert(batch->bag_ids.end(), rows_.bag_ids.begin() + first,
                            rows_.bag_ids.begin() + rows_.bag_ends[cell]);
      if (!rows_.bag_weights.empty()) {
        batch->bag_weights.insert(batch->bag_weights.end(), rows_.bag_weights.begin() + first,
                                  rows_.bag_weights.begin() + rows_.bag_ends[cell]);
      }
      batch->bag_ends.push_back(batch->bag_ids.size());
    }
    ++batch->rows;
  }
}

}  // namespace rubato
