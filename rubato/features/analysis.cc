#include "rubato/features/analysis.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "rubato/base/bytes.h"
#include "rubato/features/transforms.h"
#include "rubato/features/utf8.h"

namespace rubato {
namespace {

constexpr NumberStyle kOtherStyles[] = {NumberStyle::kComma,       NumberStyle::kAmount,
                                        NumberStyle::kCommaAmount, NumberStyle::kTime,
                                        NumberStyle::kMonthFirst,  NumberStyle::kDayFirst};

// Cheap, and true of all that any of these styles reads: names are many.
bool MayHaveStyle(absl::string_view cell) {
  bool has_digit = false, has_mark = false;
  for (const char c : cell) {
    has_digit |= c >= '0' && c <= '9';
    has_mark |= c == ',' || c == '$' || c == '%' || c == '(' || c == '-' || c == '/' || c == '.' ||
                c == ':' || static_cast<unsigned char>(c) >= 0x80;
  }
  return has_digit && has_mark;
}

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
  const uint64_t hash = HashText(cell, 0);
  distinct_.Add(hash);
  if (IsCutShort(cell)) {
    // Pages of one site begin alike.
    common_.Add(absl::StrCat(BeginningOf(cell), absl::Hex(hash, absl::kZeroPad16)));
  } else {
    common_.Add(cell);
  }
  if (number.has_value()) {
    numbers_.Add(*number);
    points_ += cell.find('.') != absl::string_view::npos;
    return;
  }
  AddStyled(cell.substr(0, kLongest));
}

// A cell that is no plain number.
void ColumnStats::AddStyled(absl::string_view cell) {
  AddStranger(cell, 1, &stranger_texts_);
  if (!MayHaveStyle(cell)) return AddStranger(cell, 1, &names_);
  std::array<bool, kNumberStyles> is_number = {};
  bool is_any = false;
  for (const NumberStyle style : kOtherStyles) {
    const std::optional<double> number = ToNumber(cell, style);
    if (!number.has_value()) continue;
    is_number[static_cast<size_t>(style)] = is_any = true;
    Other& other = others_[static_cast<size_t>(style)];
    other.numbers.Add(*number);
    if (style == NumberStyle::kComma) commas_.Add(cell);
    if (!IsTime(style)) continue;
    other.hours |= 1u << PartOf(*number, TimePart::kHour);
    other.weekdays |= 1u << PartOf(*number, TimePart::kWeekday);
  }
  if (!is_any) return AddStranger(cell, 1, &names_);
  sure_amounts_ += IsSurelyAmount(cell);
  points_in_dates_ += is_number[static_cast<size_t>(NumberStyle::kDayFirst)] && cell.size() > 2 &&
                      (cell[1] == '.' || cell[2] == '.');
  for (const NumberStyle style : kOtherStyles) {
    const auto i = static_cast<size_t>(style);
    if (!is_number[i]) AddStranger(cell, 1, &others_[i].strange);
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
  const auto merge = [](const Texts& from, Texts* to) {
    for (const auto& [text, count] : from) AddStranger(text, count, to);
  };
  merge(other.names_, &names_);
  merge(other.stranger_texts_, &stranger_texts_);
  for (size_t i = 0; i < kNumberStyles; ++i) {
    merge(other.others_[i].strange, &others_[i].strange);
    others_[i].numbers.Merge(other.others_[i].numbers);
    others_[i].hours |= other.others_[i].hours;
    others_[i].weekdays |= other.others_[i].weekdays;
  }
  distinct_.Merge(other.distinct_);
  common_.Merge(other.common_);
  numbers_.Merge(other.numbers_);
  commas_.Merge(other.commas_);
  points_ += other.points_;
  sure_amounts_ += other.sure_amounts_;
  points_in_dates_ += other.points_in_dates_;
}

// Whether the column would be one of numbers, but for slips of the pen.
bool ColumnStats::IsMostly(NumberStyle style) const {
  const int64_t count = others_[static_cast<size_t>(style)].numbers.count;
  // A bare number is no time.
  const int64_t others = IsTime(style) ? present() : strangers();
  return count > 0 && 50 * (others - count) <= present();
}

// kPlain if the cells are no times, or if nobody can tell months from days. Where both may be
// months, points are a sign of the day coming first: nobody writes 11.18.2026.
NumberStyle ColumnStats::TimeStyle() const {
  if (IsMostly(NumberStyle::kTime)) return NumberStyle::kTime;
  const auto count = [&](NumberStyle style) {
    return IsMostly(style) ? others_[static_cast<size_t>(style)].numbers.count : 0;
  };
  const int64_t month = count(NumberStyle::kMonthFirst), day = count(NumberStyle::kDayFirst);
  if (month > day) return NumberStyle::kMonthFirst;
  const bool has_points = 2 * points_in_dates_ > present();
  return day > month || (day > 0 && has_points) ? NumberStyle::kDayFirst : NumberStyle::kPlain;
}

NumberStyle ColumnStats::BestStyle() const {
  if (style_ != NumberStyle::kPlain || is_number()) return style_;
  if (const NumberStyle style = TimeStyle(); style != NumberStyle::kPlain) return style;
  const bool has_points = points_ > 0;
  if (!has_points && commas_.are_decimals() && IsMostly(NumberStyle::kComma)) {
    return NumberStyle::kComma;
  }
  // Where all commas may part thousands they most likely do; were they decimal ones, the numbers
  // would be a thousand times as large, and in the same order.
  if (IsMostly(NumberStyle::kAmount)) return NumberStyle::kAmount;
  const bool is_amount = sure_amounts_ > 0 && !has_points;
  return is_amount && IsMostly(NumberStyle::kCommaAmount) ? NumberStyle::kCommaAmount
                                                          : NumberStyle::kPlain;
}

// Of names_, whose counts are exact; if there are many more of them, too many would be left.
ColumnStats::Texts ColumnStats::MarksOfNothing() const {
  constexpr size_t kMarks = 2;
  constexpr int64_t kFewNumbers = 30;
  int64_t styled = 0;
  for (const Other& other : others_) styled = std::max(styled, other.numbers.count);
  if (2 * (numbers() + styled) <= present()) return {};
  if (is_number() || BestStyle() != NumberStyle::kPlain) return {};
  std::vector<std::pair<int64_t, std::string>> by_count;
  for (const auto& [text, count] : names_) by_count.emplace_back(-count, text);
  std::sort(by_count.begin(), by_count.end());
  Texts marks;
  for (const auto& [minus_count, text] : by_count) {
    // Others cannot be written down.
    const bool is_word = text.size() < kLongest && IsUtf8(text);
    if (marks.size() < kMarks && is_word) marks[text] = -minus_count;
  }
  ColumnStats rest = *this;
  rest.TakeForMissing(marks);
  rest.ReadAs(rest.BestStyle());
  const bool are_most = rest.is_number() && 2 * rest.present() > present();
  const bool are_many = IsTime(rest.style()) || rest.distinct() > kFewNumbers;
  return are_most && are_many ? marks : Texts();
}

void ColumnStats::TakeForMissing(const Texts& marks) {
  for (const auto& [text, count] : marks) {
    const auto found = names_.find(text);
    if (found == names_.end()) continue;
    missing_ += found->second;
    taken_for_missing_[text] += found->second;
    names_.erase(found);
    stranger_texts_.erase(text);
    for (Other& other : others_) other.strange.erase(text);
    common_.Remove(text);
  }
}

void ColumnStats::ReadAs(NumberStyle style) {
  if (style == style_ || style_ != NumberStyle::kPlain) return;
  style_ = style;
  const Other& other = others_[static_cast<size_t>(style)];
  if (IsTime(style)) numbers_ = NumberStats();
  numbers_.Merge(other.numbers);
  stranger_texts_ = names_;
  for (const auto& [text, count] : other.strange) AddStranger(text, count, &stranger_texts_);
}

bool ColumnStats::HasParts(TimePart part) const {
  constexpr double kYear = 366 * 24 * 60 * 60;
  const Other& times = others_[static_cast<size_t>(style_)];
  const auto has_two = [](uint32_t bits) { return (bits & (bits - 1)) != 0; };
  if (part == TimePart::kHour) return has_two(times.hours);
  if (part == TimePart::kWeekday) return has_two(times.weekdays);
  return max() - min() > kYear;
}

std::optional<double> ColumnStats::NumberOf(absl::string_view text) const {
  return ToNumber(text, style_);
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

void Analysis::ChooseStyles(absl::string_view label) {
  for (size_t i = 0; i < stats.size(); ++i) {
    if (columns[i] == label) continue;
    stats[i].TakeForMissing(stats[i].MarksOfNothing());
    stats[i].ReadAs(stats[i].BestStyle());
  }
}

void Analysis::ReadAs(const Analysis& other) {
  for (size_t i = 0; i < stats.size(); ++i) {
    const auto found = std::find(other.columns.begin(), other.columns.end(), columns[i]);
    if (found == other.columns.end()) continue;
    const ColumnStats& theirs = other.stats[static_cast<size_t>(found - other.columns.begin())];
    stats[i].TakeForMissing(theirs.taken_for_missing());
    stats[i].ReadAs(theirs.style());
  }
}

}  // namespace rubato
