#include "rubato/features/raw_chunk.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "absl/strings/str_cat.h"
#include "rubato/base/status.h"
#include "rubato/data/quote.h"
#include "rubato/features/transforms.h"

namespace rubato {

RawChunk::RawChunk(std::shared_ptr<const ChunkPlan> plan)
    : plan_(std::move(plan)),
      texts_(static_cast<size_t>(plan_->texts)),
      numbers_(static_cast<size_t>(plan_->numbers)) {}

absl::Status RawChunk::Add(absl::Span<const absl::string_view> cells) {
  const size_t rows = labels_.size();
  absl::Status status;
  if (cells.size() != plan_->columns.size()) {
    return absl::InvalidArgumentError(
        absl::StrCat("has ", cells.size(), " columns, not ", plan_->columns.size()));
  }
  for (size_t i = 0; i < cells.size() && status.ok(); ++i) {
    status = AddCell(plan_->columns[i], cells[i]);
  }
  if (status.ok()) {
    status = AddLabel(plan_->label < 0 ? "0" : cells[static_cast<size_t>(plan_->label)]);
  }
  if (!status.ok()) Resize(rows);
  return status;
}

absl::Status RawChunk::AddCell(const ChunkPlan::Column& column, absl::string_view cell) {
  if (column.text < 0 && column.number < 0) return absl::OkStatus();
  const auto is_one_of = [](const auto& list, const auto& value) {
    return std::find(list.begin(), list.end(), value) != list.end();
  };
  bool is_missing = IsMissing(cell) || is_one_of(column.missing, cell);
  std::optional<double> number;
  if (column.number >= 0 && !is_missing) {
    number = column.style == NumberStyle::kPlain ? ToNumber(cell) : ToNumber(cell, column.style);
    is_missing = number.has_value() && is_one_of(column.missing_numbers, *number);
  }
  if (column.text >= 0) {
    texts_[static_cast<size_t>(column.text)].Add(is_missing ? absl::string_view() : cell);
  }
  if (column.number < 0) return absl::OkStatus();
  double value = std::numeric_limits<double>::quiet_NaN();
  if (!is_missing) {
    const bool is_too_large =
        column.is_float && number.has_value() && !std::isnan(*number) && !FitsFloat(*number);
    if (is_too_large) number.reset();
    if (!number.has_value() && !column.malformed_is_missing) {
      return absl::InvalidArgumentError(
          absl::StrCat("column ", Quote(column.name), ", ", Quote(cell),
                       is_too_large ? ", is larger than models' numbers of 32 bits can be, 3.4e38"
                       : IsTime(column.style) ? ", is no time, as 2026-11-18 or 2026-11-18 05:09:14"
                                              : ", is not a finite number"));
    }
    value = number.value_or(value);
  }
  numbers_[static_cast<size_t>(column.number)].push_back(value);
  return absl::OkStatus();
}

absl::Status RawChunk::AddLabel(absl::string_view cell) {
  const std::vector<std::string>&positive = plan_->positive, &negative = plan_->negative;
  const auto is_one_of = [](const auto& list, const auto& label) {
    return std::find(list.begin(), list.end(), label) != list.end();
  };
  if (plan_->label >= 0 && !positive.empty()) {
    const bool is_known = is_one_of(positive, cell) || is_one_of(negative, cell);
    const double number =
        is_known || plan_->positive_numbers.empty() ? NAN : ToNumber(cell).value_or(NAN);
    if (is_one_of(positive, cell) || is_one_of(plan_->positive_numbers, number)) {
      labels_.push_back(1);
    } else if (negative.empty() ? !IsMissing(cell)
                                : is_known || is_one_of(plan_->negative_numbers, number)) {
      labels_.push_back(0);
    } else {
      return NoLabel(cell, negative.empty() ? "it is missing"
                                            : "the features have it neither in `positive` nor in "
                                              "`negative`");
    }
    return absl::OkStatus();
  }
  const std::optional<double> label = ToNumber(cell);
  if (!label.has_value() || !FitsFloat(*label)) {
    return NoLabel(cell, "a number is expected, or `positive` in the label of the features");
  }
  const std::optional<double>& from = plan_->label >= 0 ? plan_->at_least : std::nullopt;
  labels_.push_back(from.has_value() ? (*label >= *from ? 1 : 0) : static_cast<float>(*label));
  return absl::OkStatus();
}

absl::Status RawChunk::NoLabel(absl::string_view cell, absl::string_view why) const {
  const std::string& name = plan_->columns[static_cast<size_t>(plan_->label)].name;
  return absl::InvalidArgumentError(
      absl::StrCat("column ", Quote(name), ", ", Quote(cell), ", is not a label; ", why));
}

bool RawChunk::IsMissing(absl::string_view cell) const {
  if (cell.empty()) return true;
  for (const std::string& text : plan_->missing) {
    if (cell == text) return true;
  }
  return false;
}

void RawChunk::Resize(size_t rows) {
  labels_.resize(std::min(rows, labels_.size()));
  for (TextColumn& column : texts_) column.Resize(rows);
  for (std::vector<double>& column : numbers_) column.resize(std::min(rows, column.size()));
}

}  // namespace rubato
