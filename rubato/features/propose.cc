// From statistics to features: the rules of thumb in one place.
#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <set>

#include "absl/algorithm/container.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "rubato/base/status.h"
#include "rubato/data/ids.h"
#include "rubato/data/quote.h"
#include "rubato/features/analysis.h"
#include "rubato/features/column_use.h"
#include "rubato/features/propose_label.h"
#include "rubato/features/times.h"
#include "rubato/features/transforms.h"
#include "rubato/features/utf8.h"

namespace rubato {
namespace {

constexpr int64_t kTwice = 2;

constexpr absl::string_view kLabelNames[] = {"label", "click", "clicked", "target"};

// As often must a value occur before it gets an id of its own, where rare values matter at all.
int64_t OftenEnough(int64_t rows) {
  if (rows >= 1'000'000) return 50;
  return rows >= 50'000 ? 10 : rows >= 5'000 ? 3 : 2;
}

// The count from which on `stats` keeps a value, where `often` is wanted; nothing if too many went
// by uncounted. A count may be too low by the error: from there on rare and common cannot be told
// apart, and whatever has a count is more common than most.
std::optional<int64_t> KeptFrom(const ColumnStats& stats, int64_t often) {
  const int64_t error = stats.common().error();
  if (error < often) return often;
  if (error < 5 * often) return 1;
  return std::nullopt;
}

// The share of a text's values that occur less often than `often`; 1 if nobody knows.
double RareShare(const ColumnStats& stats, int64_t often) {
  const std::optional<int64_t> from = KeptFrom(stats, often);
  if (!from.has_value()) return 1;
  int64_t frequent = 0;
  for (const CommonTexts::Item& item : stats.common().Items()) {
    if (item.count >= *from) frequent += item.count;
  }
  return 1 - static_cast<double>(frequent) / static_cast<double>(stats.present());
}

// Bins of a number: fine enough to follow a curve, with enough rows in each. Integers of which
// there are few, each seen often, have one each: they may be codes, as of branches or departments,
// and neighbours have nothing in common then.
int BinsFor(const ColumnStats& stats) {
  constexpr int64_t kFew = 100, kOften = 20;
  const int64_t bins = std::clamp<int64_t>(stats.present() / 500, 8, 64);
  const bool are_few = stats.integers() == stats.numbers() && !IsTime(stats.style()) &&
                       stats.distinct() <= kFew && stats.present() >= kOften * stats.distinct();
  return static_cast<int>(are_few ? std::max(bins, stats.distinct()) : bins);
}

bool IsSkewed(const ColumnStats& stats) {
  const double high = stats.quantiles().Quantile(0.75);
  return stats.min() >= 0 && stats.max() > 20 * std::max(high, 1.0);
}

FeatureSpec Plain(const std::string& name, const char* transform, const std::string& column) {
  FeatureSpec f;
  f.name = name;
  f.transform = transform;
  f.columns = {column};
  return f;
}

// Puts `values`, those of a column that are common enough, into the feature's vocabulary. YAML
// holds no bytes that are not UTF-8: if many of a column's cells have such, all have ids by their
// hash. False if there is nothing to tell apart.
bool TakeVocabulary(const std::vector<CommonTexts::Item>& values, int64_t present, FeatureSpec* f,
                    ProposalNotes* notes) {
  constexpr int64_t kMany = 100;  // One cell in so many.
  GarbledColumn garbled = {.column = f->columns[0]};
  int64_t cells = 0;
  for (const CommonTexts::Item& item : values) {
    if (IsUtf8(item.text)) {
      f->vocabulary.push_back(item.text);
      continue;
    }
    if (cells == 0) garbled.text = item.text;
    cells += item.count;
  }
  garbled.is_hashed = kMany * cells > present;
  if (garbled.is_hashed) f->vocabulary.clear();
  if (cells > 0) notes->garbled.push_back(std::move(garbled));
  if (!f->vocabulary.empty()) f->transform = "merge_rare";
  return !f->vocabulary.empty() || (cells > 0 && kMany * cells > present);
}

bool IsOfNumbers(Use use) { return use == Use::kNumber || use == Use::kCode || use == Use::kTime; }

// The texts that mean "missing" in columns of numbers, where nothing else can be meant, or in a
// label of which only the yes is known.
std::vector<std::string> MissingTexts(const Analysis& analysis, const std::vector<ColumnUse>& uses,
                                      size_t label, const FeaturesSpec& spec) {
  std::set<std::string> missing;
  for (size_t i = 0; i < uses.size(); ++i) {
    const bool is_any_label = i == label && !spec.positive.empty() && spec.negative.empty();
    if (!IsOfNumbers(uses[i].use) && !is_any_label) continue;
    for (const auto& [text, count] : analysis.stats[i].missing_texts()) missing.insert(text);
  }
  return {missing.begin(), missing.end()};
}

// All that is counted, and what seems to be missing but is a name like others here.
std::vector<CommonTexts::Item> NamesOf(const std::string& column, const ColumnStats& stats,
                                       const FeaturesSpec& spec, ProposalNotes* notes) {
  std::vector<CommonTexts::Item> values = stats.common().Items();
  for (const auto& [text, count] : stats.missing_texts()) {
    if (std::find(spec.missing.begin(), spec.missing.end(), text) == spec.missing.end()) {
      values.push_back({text, count});
    } else if (!stats.is_number()) {
      notes->lost.push_back({.column = column, .text = text, .count = count});
    }
  }
  return values;
}

// What says in a column of numbers that there is none. Every feature of the column has the same.
std::vector<std::string> MarksOf(const ColumnStats& stats) {
  std::vector<std::string> marks;
  for (const auto& [text, count] : stats.taken_for_missing()) marks.push_back(text);
  return marks;
}

// Whether there is a feature: of values that are all rare nothing is learned but by heart. What
// cannot be counted or written down has its hash.
bool ProposeText(const std::string& column, const ColumnStats& stats, Use use, int64_t often,
                 FeaturesSpec* spec, ProposalNotes* notes) {
  std::vector<CommonTexts::Item> values = NamesOf(column, stats, *spec, notes);
  FeatureSpec f = Plain(column, "hash", column);
  if (IsOfNumbers(use)) {
    f.missing = MarksOf(stats);
  } else {
    for (const auto& [text, count] : stats.taken_for_missing()) values.push_back({text, count});
  }
  if (const std::optional<int64_t> from = KeptFrom(stats, often); from.has_value()) {
    bool is_known = stats.common().error() == 0;
    std::erase_if(values, [&](const CommonTexts::Item& item) {
      if (item.count < *from) return true;
      // Of a long text only the beginning is known, which is no cell of the column.
      const bool is_cut_short = ColumnStats::IsCutShort(item.text);
      is_known &= !is_cut_short;
      return is_cut_short;
    });
    if (!TakeVocabulary(values, stats.present(), &f, notes) && is_known) {
      if (!ComesAndGoes(stats)) return false;
      f.buckets = 1;  // That there is a value may say something all the same.
    }
  }
  spec->features.push_back(std::move(f));
  return true;
}

// Few values get a bin each, however near to each other they are.
std::vector<double> BoundariesOf(const ColumnStats& stats) {
  const int bins = BinsFor(stats);
  if (stats.common().error() > 0 || stats.distinct() > bins) {
    return stats.quantiles().Boundaries(bins);
  }
  std::set<double> values;
  for (const CommonTexts::Item& item : stats.common().Items()) {
    const std::optional<double> number = stats.NumberOf(item.text);
    if (number.has_value()) values.insert(*number);
  }
  if (values.empty()) return {};
  return std::vector<double>(++values.begin(), values.end());
}

void ProposeNumber(const std::string& column, const ColumnStats& stats, bool criteo,
                   FeaturesSpec* spec) {
  FeatureSpec dense = Plain(column, "log", column);
  dense.missing = MarksOf(stats);
  dense.malformed_is_missing = stats.strangers() > 0;
  dense.set_style(stats.style());
  if (!criteo && !IsSkewed(stats)) {
    dense.transform = "normalize";
    dense.mean = stats.mean();
    dense.deviation = stats.deviation();
    // Of tomorrow's times, and of a price with two zeros too many, nothing was learned but that
    // they are beyond; as they are they would decide alone.
    dense.min = stats.min();
    dense.max = stats.max();
  }
  // What is too large for a model's floats, or for the sum of squares, has bins, and no size; so
  // has what differs by too little.
  constexpr double kLargest = 1e30;
  const bool has_size =
      std::max(-stats.min(), stats.max())<kLargest&& static_cast<float>(stats.deviation())> 0;
  if (has_size) spec->features.push_back(std::move(dense));
  FeatureSpec ids = Plain(column, criteo ? "criteo" : "discretize", column);
  ids.missing = MarksOf(stats);
  ids.malformed_is_missing = stats.strangers() > 0;
  ids.set_style(stats.style());
  if (!criteo) ids.boundaries = BoundariesOf(stats);
  // What all but never changes is one bin, and no category.
  if (criteo || !ids.boundaries.empty()) spec->features.push_back(std::move(ids));
}

// Several entries in a cell, as "3 9:0.5": what a linear model makes of them is the sum.
void ProposeEntries(const std::string& column, const ColumnStats& stats, FeaturesSpec* spec,
                    ProposalNotes* notes) {
  FeatureSpec f = Plain(column, "hash", column);
  f.separator = std::string(" ");
  f.weight_separator = std::string(":");
  f.combiner = std::string("sum");
  spec->features.push_back(std::move(f));
  // Of the cells that are known; what was cut off behind the last blank may be half a number.
  constexpr double kLarge = 20;
  UnscaledColumn unscaled = {.column = column};
  for (const CommonTexts::Item& item : stats.common().Items()) {
    const absl::string_view cell = ColumnStats::WholeParts(item.text, ' ');
    SplitValues(cell, ' ', /*brackets=*/false, [&](absl::string_view part) {
      const double value = TakeWeight(&part, ':');
      if (std::abs(value) <= std::max(kLarge, std::abs(unscaled.value))) return true;
      unscaled.entry = std::string(part);
      unscaled.value = value;
      return true;
    });
  }
  if (!unscaled.entry.empty()) notes->unscaled.push_back(std::move(unscaled));
}

// What values with weights become: their sum, since their mean has forgotten how much they weigh,
// of a lone one altogether. Where a cell weighs more than a hundred values would, it would drown
// the others, and the mean is taken, which no weight can make large.
const char* CombinerOf(const std::vector<CommonTexts::Item>& lists, const ColumnUse& use) {
  constexpr double kHeavy = 100;
  for (const CommonTexts::Item& item : lists) {
    double sum = 0;
    SplitValues(ColumnStats::WholeParts(item.text, use.separator), use.separator, use.brackets,
                [&](absl::string_view value) {
                  sum += std::abs(TakeWeight(&value, ':'));
                  return true;
                });
    if (sum > kHeavy) return "mean";
  }
  return "sum";
}

// Values of a bag that occur often enough, and the rest as one.
void ProposeBag(const std::string& column, const ColumnStats& stats, const ColumnUse& use,
                int64_t often, FeaturesSpec* spec, ProposalNotes* notes) {
  FeatureSpec f = Plain(column, "hash", column);
  f.separator = std::string(1, use.separator);
  f.brackets = use.brackets;
  const std::vector<CommonTexts::Item> lists = NamesOf(column, stats, *spec, notes);
  if (use.has_weights) {
    f.weight_separator = std::string(":");
    f.combiner = CombinerOf(lists, use);
  }
  if (!use.numbered.empty()) {
    notes->weights.push_back({column, use.numbered, use.has_weights, f.combiner == "sum"});
  }
  // Of a long list only the beginning is known, and that may end within a value.
  const bool whole = std::none_of(lists.begin(), lists.end(), [](const CommonTexts::Item& item) {
    return ColumnStats::IsCutShort(item.text);
  });
  if (stats.common().error() == 0 && whole) {
    std::map<std::string, int64_t> counts;
    for (const CommonTexts::Item& item : lists) {
      SplitValues(item.text, use.separator, use.brackets, [&](absl::string_view value) {
        if (use.has_weights) TakeWeight(&value, ':');
        counts[std::string(value)] += item.count;
        return true;
      });
    }
    for (const std::string& nothing : spec->missing) counts.erase(nothing);
    std::vector<CommonTexts::Item> values;
    for (const auto& [value, count] : counts) {
      if (count >= often) values.push_back({value, count});
    }
    if (!TakeVocabulary(values, stats.present(), &f, notes)) return;
  }
  spec->features.push_back(std::move(f));
}

// Calls the last feature as its column with `more` behind it, as often as it takes: neither a
// column nor another feature has that name.
void Rename(absl::string_view more, const Analysis& analysis, FeaturesSpec* spec) {
  std::string& name = spec->features.back().name;
  do {
    absl::StrAppend(&name, more);
  } while (std::find(analysis.columns.begin(), analysis.columns.end(), name) !=
               analysis.columns.end() ||
           std::any_of(spec->features.begin(), spec->features.end() - 1,
                       [&](const FeatureSpec& other) { return other.name == name; }));
}

// A quantity or a name, nobody knows: it is given as both, under two names.
void ProposeCode(const std::string& column, const ColumnStats& stats, int64_t often,
                 const Analysis& analysis, FeaturesSpec* spec, ProposalNotes* notes) {
  ProposeNumber(column, stats, /*criteo=*/false, spec);
  if (ProposeText(column, stats, Use::kCode, often, spec, notes)) Rename("_value", analysis, spec);
}

// Whether times, which are numbers in `unit` if there is one, have several of this part.
bool HasParts(const ColumnStats& stats, std::optional<TimeUnit> unit, TimePart part) {
  if (!unit.has_value()) return stats.HasParts(part);
  // A few may be anything, as 0 where it is not known.
  const double spread = stats.quantiles().Quantile(0.98) - stats.quantiles().Quantile(0.02);
  if (part == TimePart::kMonth && spread <= YearIn(*unit)) return false;
  std::set<int64_t> parts;
  for (const CommonTexts::Item& item : stats.common().Items()) {
    const std::optional<double> seconds =
        ToTime(stats.NumberOf(item.text).value_or(INFINITY), *unit);
    if (seconds.has_value()) parts.insert(PartOf(*seconds, part));
    if (parts.size() > 1) return true;
  }
  return false;
}

// How long ago it was, and what comes back every day, week and year.
void ProposeTime(const std::string& column, const ColumnStats& stats, std::optional<TimeUnit> unit,
                 const Analysis& analysis, FeaturesSpec* spec) {
  ProposeNumber(column, stats, /*criteo=*/false, spec);
  for (const TimePart part : {TimePart::kHour, TimePart::kWeekday, TimePart::kMonth}) {
    if (!HasParts(stats, unit, part)) continue;
    FeatureSpec f = Plain(column, "time_part", column);
    f.part = TimePartNames()[static_cast<size_t>(part)];
    f.set_style(stats.style());
    f.read = FeatureSpec().read;  // It reads nothing but times.
    if (unit.has_value()) f.unit = TimeUnitNames()[static_cast<size_t>(*unit)];
    f.missing = MarksOf(stats);
    f.malformed_is_missing = stats.strangers() > 0;
    spec->features.push_back(f);
    Rename(absl::StrCat("_", f.part), analysis, spec);
  }
}

// From which count on a value gets an id of its own; docs/models.md argues why. What is seen a few
// times only is remembered rather than learned from, most of all by deep models. It is noise among
// many columns, most of which tell the same; in a table of a few columns it is all there is to know
// of a rare film or a new user.
int64_t OftenFor(const Analysis& analysis, const std::vector<ColumnUse>& uses) {
  constexpr int kManyColumns = 12;
  const int64_t often = OftenEnough(analysis.rows);
  double rare_values = 0;  // To be expected in a row.
  int columns = 0;
  for (size_t i = 0; i < analysis.columns.size(); ++i) {
    if (uses[i].use != Use::kText && uses[i].use != Use::kCode) continue;
    const ColumnStats& stats = analysis.stats[i];
    ++columns;
    rare_values += RareShare(stats, often) * static_cast<double>(stats.present()) /
                   static_cast<double>(analysis.rows);
  }
  const bool merge = columns >= kManyColumns && rare_values > 0.2;
  return merge ? often : std::min(often, kTwice);
}

// A model tells no more than so many fields apart. Numbers can do without bins, the last ones
// first.
absl::Status FitFields(FeaturesSpec* spec) {
  std::set<std::string> sizes;
  int fields = 0;
  for (const FeatureSpec& f : spec->features) {
    if (MakesNumber(f.transform)) sizes.insert(f.columns[0]);
    fields += MakesNumber(f.transform) ? 0 : 1;
  }
  for (size_t i = spec->features.size(); i-- > 0 && fields > kIdFieldsMax;) {
    const FeatureSpec& f = spec->features[i];
    if (f.transform != "discretize" || !sizes.contains(f.columns[0])) continue;
    spec->features.erase(spec->features.begin() + static_cast<int64_t>(i));
    --fields;
  }
  if (fields <= kIdFieldsMax) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("the table has ", fields, " columns of names, more than the ", kIdFieldsMax,
                   " that a model tells apart: keep those that matter, in a table or a query of "
                   "fewer columns"));
}

std::string WhyUnused(const ColumnStats& stats, Use use, int64_t often) {
  if (stats.present() == 0) return "is always empty";
  if (use == Use::kText || use == Use::kBag)
    return absl::StrCat("no value occurs ", often, " times");
  if (stats.distinct() < 2) return stats.missing() == 0 ? "never changes" : "hardly ever changes";
  if (use == Use::kNone) return "hardly ever repeats";
  if (use == Use::kRow) return "numbers the rows";
  return use == Use::kStamp
             ? "says when a row was, which would be learned by heart beside such names"
             : "differs by too little";
}

// The columns that neither a feature nor the label is made of.
std::vector<UnusedColumn> Unused(const Analysis& analysis, const std::vector<ColumnUse>& uses,
                                 int64_t often, const FeaturesSpec& spec) {
  std::set<std::string> used = {spec.label};
  for (const FeatureSpec& f : spec.features) used.insert(f.columns.begin(), f.columns.end());
  std::vector<UnusedColumn> unused;
  for (size_t i = 0; i < uses.size(); ++i) {
    if (used.contains(analysis.columns[i])) continue;
    unused.push_back({analysis.columns[i], WhyUnused(analysis.stats[i], uses[i].use, often)});
  }
  return unused;
}

bool IsNumberWithComma(absl::string_view text) {
  return text.find(',') != absl::string_view::npos && ToNumberWithComma(text).has_value();
}

// A number with a comma out of a column of them, or nothing: a few whole numbers may be among them,
// and lists of two numbers or more, which are no such column, have mostly other lengths, too.
std::optional<std::string> NumberWithComma(const ColumnStats& stats) {
  const bool is_decimal = stats.style() == NumberStyle::kComma;
  if (stats.is_number() && !is_decimal) return std::nullopt;
  int64_t seen = 0, with_comma = 0, numbers = 0;
  std::optional<std::string> example;
  for (const CommonTexts::Item& item : stats.common().Items()) {
    const bool has = IsNumberWithComma(item.text);
    if (has && !example.has_value()) example = item.text;
    seen += item.count;
    with_comma += has ? item.count : 0;
    numbers += has || ToNumber(item.text).has_value() ? item.count : 0;
  }
  const bool are_all = 50 * (seen - numbers) <= seen && 2 * with_comma > seen;
  return are_all || is_decimal ? example : std::nullopt;
}

// Whether integers have bins only, and not each of them its own: as ids they would say more.
bool IsQuantityOnly(const Analysis& analysis, size_t column, Use use) {
  const ColumnStats& stats = analysis.stats[column];
  return use == Use::kNumber && !HasCriteoColumns(analysis) &&
         stats.integers() == stats.numbers() && stats.distinct() > BinsFor(stats);
}

// Whether it is a date with the day or the month first, "18.11.2026" or "11/18/26": which of both
// it is depends on the country.
bool IsOtherDate(absl::string_view text) {
  const bool has_clock = absl::StrContains(text, ':');
  text = text.substr(0, text.find(' '));
  const size_t first = text.find_first_of("/.-");
  if (first == 0 || first > 2 || first + 1 >= text.size()) return false;
  const size_t second = text.find(text[first], first + 1);
  if (second == absl::string_view::npos || second - first < 2 || second - first > 3) return false;
  const size_t year = text.size() - second - 1;
  // 1.2.20 is a version.
  if (year != 4 && !(year == 2 && (text[first] == '/' || has_clock))) return false;
  const int64_t digits = std::count_if(text.begin(), text.end(), absl::ascii_isdigit);
  return digits == static_cast<int64_t>(text.size()) - 2;
}

// What a column of amounts or of times looks like, and one of dates that are names.
void NoteStyle(const std::string& column, const ColumnStats& stats, Use use, ProposalNotes* notes) {
  const bool is_styled = IsOfNumbers(use) && stats.style() != NumberStyle::kPlain &&
                         stats.style() != NumberStyle::kComma;
  int64_t seen = 0, dates = 0;
  std::string styled, date;
  for (const CommonTexts::Item& item : stats.common().Items()) {
    const bool is_it = is_styled && stats.NumberOf(item.text).has_value();
    if (is_it && styled.empty() && !ToNumber(item.text).has_value()) styled = item.text;
    if (IsOtherDate(item.text) && date.empty()) date = item.text;
    seen += item.count;
    dates += IsOtherDate(item.text) ? item.count : 0;
  }
  const bool is_sure = IsTime(stats.style()) || stats.is_surely_amounts();
  if (is_styled) notes->styled.push_back({column, styled, stats.style(), is_sure});
  if (!stats.is_number() && 10 * dates > 9 * seen) notes->dates.push_back({column, date});
}

// Which columns of names could not keep to `often`, which of numbers have others among them, which
// would be numbers but for a comma, and which of integers may be ids after all.
void NoteColumns(const Analysis& analysis, const std::vector<ColumnUse>& uses, size_t label,
                 int64_t often, ProposalNotes* notes) {
  for (size_t i = 0; i < uses.size(); ++i) {
    const ColumnStats& stats = analysis.stats[i];
    const Use use = uses[i].use;
    if (IsQuantityOnly(analysis, i, use)) notes->quantities.push_back(analysis.columns[i]);
    if (uses[i].by_range) notes->numbered.push_back(analysis.columns[i]);
    NoteStyle(analysis.columns[i], stats, use, notes);
    if (IsOfNumbers(use) && !stats.taken_for_missing().empty()) {
      notes->marked.push_back({analysis.columns[i], stats.taken_for_missing()});
    }
    if (IsOfNumbers(use) && stats.strangers() > 0) {
      StrangeColumn strange = {.column = analysis.columns[i], .count = stats.strangers()};
      for (const auto& [text, count] : stats.stranger_texts()) strange.texts.push_back(text);
      notes->strange.push_back(std::move(strange));
    }
    if (const auto text = i != label ? NumberWithComma(stats) : std::nullopt) {
      const bool is_decimal = use == Use::kNumber || use == Use::kCode;
      notes->commas.push_back({analysis.columns[i], *text, is_decimal});
    }
    const int64_t error = stats.common().error();
    if (error == 0 || (use != Use::kText && use != Use::kCode && use != Use::kBag)) continue;
    const bool is_hashed = use == Use::kBag || !KeptFrom(stats, often).has_value();
    notes->loose.push_back({.column = analysis.columns[i],
                            .kept = is_hashed       ? LooseColumn::kAll
                                    : error < often ? LooseColumn::kFrequent
                                                    : LooseColumn::kCounted,
                            .error = error});
  }
}

}  // namespace

bool IsCalledALabel(const std::string& column) {
  return absl::c_linear_search(kLabelNames, absl::AsciiStrToLower(column));
}

const std::string& LabelOf(const Analysis& analysis) {
  for (const absl::string_view name : kLabelNames) {
    for (const std::string& column : analysis.columns) {
      if (absl::AsciiStrToLower(column) == name) return column;
    }
  }
  return analysis.columns[0];
}

absl::StatusOr<FeaturesSpec> ProposeFeatures(const Analysis& analysis, const std::string& label,
                                             const ProposalOptions& options, ProposalNotes* notes) {
  ProposalNotes unwanted;
  if (notes == nullptr) notes = &unwanted;
  *notes = {};
  FeaturesSpec spec;
  const auto found = std::find(analysis.columns.begin(), analysis.columns.end(), label);
  if (found == analysis.columns.end()) return NoSuchLabel(label, analysis.columns);
  const size_t label_column = static_cast<size_t>(found - analysis.columns.begin());
  RUBATO_RETURN_IF_ERROR(
      ProposeLabel(analysis.stats[label_column], label, options.positive, &spec));
  const std::vector<ColumnUse> uses = UsesOf(analysis, label_column);
  const int64_t often = options.min_count > 0 ? options.min_count : OftenFor(analysis, uses);
  spec.missing = MissingTexts(analysis, uses, label_column, spec);
  const bool has_counts = HasCriteoColumns(analysis);
  for (size_t i = 0; i < analysis.columns.size(); ++i) {
    const ColumnStats& stats = analysis.stats[i];
    const std::string& column = analysis.columns[i];
    const Use use = uses[i].use;
    if (use == Use::kNumber) ProposeNumber(column, stats, has_counts, &spec);
    if (use == Use::kText) ProposeText(column, stats, use, often, &spec, notes);
    if (use == Use::kTime) ProposeTime(column, stats, uses[i].unit, analysis, &spec);
    if (use == Use::kCode) ProposeCode(column, stats, often, analysis, &spec, notes);
    if (use == Use::kBag) ProposeBag(column, stats, uses[i], often, &spec, notes);
    if (use == Use::kEntries) ProposeEntries(column, stats, &spec, notes);
  }
  if (spec.features.empty() && options.min_count == 0 && often > kTwice) {
    // Rare values are merged where others say the same; here they are all there is.
    return ProposeFeatures(analysis, label, {.min_count = kTwice, .positive = options.positive},
                           notes);
  }
  if (spec.features.empty()) {
    std::string others;
    for (const UnusedColumn& unused : Unused(analysis, uses, often, spec)) {
      absl::StrAppend(&others, others.empty() ? "" : ", ", Quote(unused.column), " ", unused.why);
    }
    return absl::InvalidArgumentError(
        absl::StrCat("besides the label '", label, "' there is nothing to learn from: ",
                     others.empty() ? "the table has no other column" : others));
  }
  RUBATO_RETURN_IF_ERROR(FitFields(&spec));
  notes->min_count = often;
  NoteColumns(analysis, uses, label_column, often, notes);
  notes->unused = Unused(analysis, uses, often, spec);
  return spec;
}

}  // namespace rubato
