#include "rubato/features/analysis.h"

#include <algorithm>
#include <cmath>

#include "rubato/base/bytes.h"
#include "rubato/features/transforms.h"

namespace rubato {
namespace {

bool SeemsMissing(absl::string_view cell) {
  constexpr absl::string_view kTexts[] = {"?",    "NA",   "N/A", "na",  "n/a", "NULL",
                                          "null", "None", "NaN", "nan", "\\N"};
  return std::find(std::begin(kTexts), std::end(kTexts), cell) != std::end(kTexts);
}

}  // namespace

void ColumnStats::Add(absl::string_view cell) {
  ++cells_;
  const std::optional<double> number = ToNumber(cell);
  const bool is_nan = number.has_value() && std::isnan(*number);
  if (cell.empty() || is_nan || SeemsMissing(cell)) {
    ++missing_;
    if (!cell.empty()) ++missing_texts_[std::string(cell)];
    return;
  }
  distinct_.Add(HashText(cell, 0));
  common_.Add(cell.substr(0, kLongest));
  if (number.has_value()) {
    numbers_.Add(*number);
    points_ += cell.find('.') != absl::string_view::npos;
    return;
  }
  cell = cell.substr(0, kLongest);
  AddStranger(cell, 1, &stranger_texts_);
  if (const std::optional<double> with_comma = ToNumberWithComma(cell)) {
    commas_.Add(cell, *with_comma);
  } else {
    AddStranger(cell, 1, &still_strange_);
  }
}

// Whoever is first by the alphabet in the end was so all along: its count is exact, and the order
// of cells makes no difference.
void ColumnStats::AddStranger(absl::string_view text, int64_t count, Texts* texts) {
  if (texts->size() == kStrangers && texts->rbegin()->first < text) return;
  (*texts)[std::string(text)] += count;
  if (texts->size() > kStrangers) texts->erase(--texts->end());
}

void ColumnStats::Merge(const ColumnStats& other) {
  cells_ += other.cells_;
  missing_ += other.missing_;
  for (const auto& [text, count] : other.missing_texts_) missing_texts_[text] += count;
  for (const auto& [text, count] : other.stranger_texts_) {
    AddStranger(text, count, &stranger_texts_);
  }
  for (const auto& [text, count] : other.still_strange_) AddStranger(text, count, &still_strange_);
  distinct_.Merge(other.distinct_);
  common_.Merge(other.common_);
  numbers_.Merge(other.numbers_);
  commas_.Merge(other.commas_);
  points_ += other.points_;
}

bool ColumnStats::has_decimal_commas() const {
  const int64_t strange = strangers() - commas_.numbers.count;
  return points_ == 0 && commas_.are_decimals() && 50 * strange <= present();
}

void ColumnStats::ReadDecimalCommas() {
  if (reads_decimal_commas_) return;
  reads_decimal_commas_ = true;
  numbers_.Merge(commas_.numbers);
  stranger_texts_ = still_strange_;
}

std::optional<double> ColumnStats::NumberOf(absl::string_view text) const {
  return reads_decimal_commas_ ? ToNumberWithComma(text) : ToNumber(text);
}

int64_t ColumnStats::distinct() const {
  if (common_.error() == 0) return static_cast<int64_t>(common_.size());
  return std::min(present(), static_cast<int64_t>(std::llround(distinct_.Estimate())));
}

void Analysis::Add(absl::Span<const absl::string_view> cells) {
  ++rows;
  for (size_t i = 0; i < cells.size(); ++i) stats[i].Add(cells[i]);
}

void Analysis::Merge(const Analysis& other) {
  rows += other.rows;
  if (other.bad_rows > 0 && (bad_rows == 0 || other.first_bad_at < first_bad_at)) {
    first_bad = other.first_bad;
    first_bad_at = other.first_bad_at;
  }
  bad_rows += other.bad_rows;
  for (size_t i = 0; i < stats.size(); ++i) stats[i].Merge(other.stats[i]);
}

void Analysis::ReadDecimalCommas(absl::string_view label) {
  for (size_t i = 0; i < stats.size(); ++i) {
    if (columns[i] != label && stats[i].has_decimal_commas()) stats[i].ReadDecimalCommas();
  }
}

void Analysis::ReadDecimalCommasAs(const Analysis& other) {
  for (size_t i = 0; i < std::min(stats.size(), other.stats.size()); ++i) {
    if (other.stats[i].reads_decimal_commas()) stats[i].ReadDecimalCommas();
  }
}

}  // namespace rubato
