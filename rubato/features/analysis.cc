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
    AddNumber(*number);
  } else {
    AddStranger(cell.substr(0, kLongest), 1);
  }
}

// Whoever is first by the alphabet in the end was so all along: its count is exact, and the order
// of cells makes no difference.
void ColumnStats::AddStranger(absl::string_view text, int64_t count) {
  if (stranger_texts_.size() == kStrangers && stranger_texts_.rbegin()->first < text) return;
  stranger_texts_[std::string(text)] += count;
  if (stranger_texts_.size() > kStrangers) stranger_texts_.erase(--stranger_texts_.end());
}

void ColumnStats::AddNumber(double x) {
  min_ = numbers_ == 0 ? x : std::min(min_, x);
  max_ = numbers_ == 0 ? x : std::max(max_, x);
  ++numbers_;
  integers_ += x == std::floor(x);
  const double before = x - mean_;
  mean_ += before / static_cast<double>(numbers_);
  squares_ += before * (x - mean_);
  quantiles_.Add(x);
}

void ColumnStats::Merge(const ColumnStats& other) {
  cells_ += other.cells_;
  missing_ += other.missing_;
  for (const auto& [text, count] : other.missing_texts_) missing_texts_[text] += count;
  for (const auto& [text, count] : other.stranger_texts_) AddStranger(text, count);
  distinct_.Merge(other.distinct_);
  common_.Merge(other.common_);
  quantiles_.Merge(other.quantiles_);
  if (other.numbers_ == 0) return;
  const double a = static_cast<double>(numbers_), b = static_cast<double>(other.numbers_);
  const double apart = other.mean_ - mean_;
  mean_ += apart * b / (a + b);
  squares_ += other.squares_ + apart * apart * a * b / (a + b);
  min_ = numbers_ == 0 ? other.min_ : std::min(min_, other.min_);
  max_ = numbers_ == 0 ? other.max_ : std::max(max_, other.max_);
  numbers_ += other.numbers_;
  integers_ += other.integers_;
}

double ColumnStats::deviation() const {
  return numbers_ < 2 ? 0 : std::sqrt(squares_ / static_cast<double>(numbers_));
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

}  // namespace rubato
