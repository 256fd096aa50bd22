// From statistics to features: the rules of thumb in one place.
#include <algorithm>
#include <map>
#include <optional>
#include <set>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "rubato/base/status.h"
#include "rubato/features/analysis.h"
#include "rubato/features/column_use.h"
#include "rubato/features/transforms.h"
#include "rubato/features/utf8.h"
#include "rubato/job/suggest.h"

namespace rubato {
namespace {

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

// Bins of a number: fine enough to follow a curve, with enough rows in each.
int BinsFor(int64_t present) { return static_cast<int>(std::clamp<int64_t>(present / 500, 8, 64)); }

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

void ProposeText(const std::string& column, const ColumnStats& stats, int64_t often,
                 FeaturesSpec* spec) {
  FeatureSpec f = Plain(column, "hash", column);
  if (const std::optional<int64_t> from = KeptFrom(stats, often); from.has_value()) {
    for (const CommonTexts::Item& item : stats.common().Items()) {
      // Of a long text only the beginning is known, which is no cell of the column.
      if (item.text.size() >= ColumnStats::kLongest) continue;
      if (item.count < *from || !IsUtf8(item.text)) continue;
      f.vocabulary.push_back(item.text);
    }
    if (!f.vocabulary.empty()) f.transform = "merge_rare";
  }
  spec->features.push_back(std::move(f));
}

// Few values get a bin each, however near to each other they are; a sketch would not tell apart
// what differs by less than 0.2 %.
std::vector<double> BoundariesOf(const ColumnStats& stats) {
  const int bins = BinsFor(stats.present());
  if (stats.common().error() > 0 || stats.distinct() > bins) {
    return stats.quantiles().Boundaries(bins);
  }
  std::set<double> values;
  for (const CommonTexts::Item& item : stats.common().Items()) {
    values.insert(ToNumber(item.text).value_or(0));
  }
  return std::vector<double>(++values.begin(), values.end());
}

void ProposeNumber(const std::string& column, const ColumnStats& stats, bool criteo,
                   FeaturesSpec* spec) {
  FeatureSpec dense = Plain(column, "log", column);
  if (!criteo && !IsSkewed(stats)) {
    dense.transform = "normalize";
    dense.mean = stats.mean();
    dense.deviation = stats.deviation();
  }
  // What is too large for a model's floats, or for the sum of squares, has bins, and no size; so
  // has what differs by too little.
  constexpr double kLargest = 1e30;
  const bool has_size =
      std::max(-stats.min(), stats.max())<kLargest&& static_cast<float>(stats.deviation())> 0;
  if (has_size) spec->features.push_back(std::move(dense));
  FeatureSpec ids = Plain(column, criteo ? "criteo" : "discretize", column);
  if (!criteo) ids.boundaries = BoundariesOf(stats);
  // All within a fifth of a percent are one bin, and no category.
  if (criteo || !ids.boundaries.empty()) spec->features.push_back(std::move(ids));
}

// Several entries in a cell, as "3 9:0.5": what a linear model makes of them is the sum.
void ProposeEntries(const std::string& column, FeaturesSpec* spec) {
  FeatureSpec f = Plain(column, "hash", column);
  f.separator = std::string(" ");
  f.weight_separator = std::string(":");
  f.combiner = std::string("sum");
  spec->features.push_back(std::move(f));
}

// Values of a bag that occur often enough, and the rest as one.
void ProposeBag(const std::string& column, const ColumnStats& stats, char separator, int64_t often,
                FeaturesSpec* spec) {
  FeatureSpec f = Plain(column, "hash", column);
  f.separator = std::string(1, separator);
  // Of a long list only the beginning is known, and that may end within a value.
  const std::vector<CommonTexts::Item> lists = stats.common().Items();
  const bool whole = std::none_of(lists.begin(), lists.end(), [](const CommonTexts::Item& item) {
    return item.text.size() >= ColumnStats::kLongest;
  });
  if (stats.common().error() == 0 && whole) {
    std::map<std::string, int64_t> counts;
    for (const CommonTexts::Item& item : lists) {
      SplitValues(item.text, separator, /*values_max=*/0,
                  [&](absl::string_view value) { counts[std::string(value)] += item.count; });
    }
    for (const auto& [value, count] : counts) {
      if (count >= often && IsUtf8(value)) f.vocabulary.push_back(value);
    }
    if (!f.vocabulary.empty()) f.transform = "merge_rare";
  }
  spec->features.push_back(std::move(f));
}

// A quantity or a name, nobody knows: it is given as both, under two names.
void ProposeCode(const std::string& column, const ColumnStats& stats, int64_t often,
                 const Analysis& analysis, FeaturesSpec* spec) {
  ProposeNumber(column, stats, /*criteo=*/false, spec);
  ProposeText(column, stats, often, spec);
  std::string& name = spec->features.back().name;
  do {
    absl::StrAppend(&name, "_value");
  } while (std::find(analysis.columns.begin(), analysis.columns.end(), name) !=
               analysis.columns.end() ||
           std::any_of(spec->features.begin(), spec->features.end() - 1,
                       [&](const FeatureSpec& other) { return other.name == name; }));
}

// All values of the label that are no yes: what is neither was not there, and is a slip of the pen.
// Of a column with very many values somebody knows only which are a yes.
void TakeNegative(const ColumnStats& stats, FeaturesSpec* spec) {
  constexpr int64_t kManyValues = 100;
  if (stats.distinct() > kManyValues) return;
  for (const CommonTexts::Item& item : stats.common().Items()) {
    const auto& yes = spec->positive;
    if (std::find(yes.begin(), yes.end(), item.text) == yes.end()) {
      spec->negative.push_back(item.text);
    }
  }
  std::sort(spec->negative.begin(), spec->negative.end());
}

// As the user says. A value that is not there is a slip of the pen; neither may all be a yes.
absl::Status TakePositive(const ColumnStats& stats, const std::vector<std::string>& positive,
                          FeaturesSpec* spec) {
  std::vector<std::string> values;
  for (const CommonTexts::Item& item : stats.common().Items()) values.push_back(item.text);
  for (const std::string& text : positive) {
    if (std::find(values.begin(), values.end(), text) != values.end()) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("label '", spec->label, "': never is '", text, "'", DidYouMean(text, values)));
  }
  const std::set<std::string> yes(positive.begin(), positive.end());
  if (static_cast<int64_t>(yes.size()) >= stats.distinct()) {
    return absl::InvalidArgumentError(
        absl::StrCat("label '", spec->label, "': all of its values are a yes"));
  }
  spec->positive.assign(yes.begin(), yes.end());
  TakeNegative(stats, spec);
  return absl::OkStatus();
}

absl::Status NoLabel(const std::string& label, const ColumnStats& stats) {
  return absl::InvalidArgumentError(absl::StrCat(
      "label '", label, "': has ", stats.distinct(),
      " different values; a label of two classes is ",
      "expected, or marks out of a few; which values are a yes is said by --positive VALUE... of ",
      "rubato init, or in features.yaml, as label: {column: ", label, ", positive: [...]}"));
}

absl::Status ProposeLabel(const ColumnStats& stats, const std::string& label,
                          const std::vector<std::string>& positive, FeaturesSpec* spec) {
  constexpr int64_t kMarksMax = 11;  // From 0 to 10, or from half a star to five.
  spec->label = label;
  if (!positive.empty()) return TakePositive(stats, positive, spec);
  if (stats.is_number() && stats.min() == 0 && stats.max() == 1) return absl::OkStatus();
  const std::vector<CommonTexts::Item> values = stats.common().Items();
  if (stats.distinct() == 2) {
    // Of numbers the larger one is a yes; of texts, the rarer one.
    const bool first = stats.is_number() && *ToNumber(values[0].text) > *ToNumber(values[1].text);
    spec->positive = {values[first ? 0 : 1].text};
    TakeNegative(stats, spec);
    return absl::OkStatus();
  }
  if (stats.distinct() < 2 || !stats.is_number() || stats.distinct() > kMarksMax) {
    return NoLabel(label, stats);
  }
  // Marks: what is better than usual.
  for (const CommonTexts::Item& item : values) {
    if (*ToNumber(item.text) > stats.mean()) spec->positive.push_back(item.text);
  }
  if (spec->positive.empty()) return NoLabel(label, stats);  // One number, in several spellings.
  std::sort(spec->positive.begin(), spec->positive.end());
  TakeNegative(stats, spec);
  return absl::OkStatus();
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
  return merge ? often : std::min<int64_t>(often, 2);
}

// The columns that neither a feature nor the label is made of.
std::vector<UnusedColumn> Unused(const Analysis& analysis, const std::vector<ColumnUse>& uses,
                                 const FeaturesSpec& spec) {
  std::set<std::string> used = {spec.label};
  for (const FeatureSpec& f : spec.features) used.insert(f.columns.begin(), f.columns.end());
  std::vector<UnusedColumn> unused;
  for (size_t i = 0; i < uses.size(); ++i) {
    if (used.contains(analysis.columns[i])) continue;
    unused.push_back({.column = analysis.columns[i],
                      .why = analysis.stats[i].present() == 0   ? "is always empty"
                             : analysis.stats[i].distinct() < 2 ? "never changes"
                             : uses[i].use == Use::kNone        ? "hardly ever repeats"
                                                                : "differs by too little"});
  }
  return unused;
}

// Which columns of names could not keep to `often`.
ProposalNotes NotesOf(const Analysis& analysis, const std::vector<ColumnUse>& uses, int64_t often) {
  ProposalNotes notes = {.min_count = often};
  for (size_t i = 0; i < uses.size(); ++i) {
    const Use use = uses[i].use;
    const int64_t error = analysis.stats[i].common().error();
    if (error == 0 || (use != Use::kText && use != Use::kCode && use != Use::kBag)) continue;
    const bool is_hashed = use == Use::kBag || !KeptFrom(analysis.stats[i], often).has_value();
    notes.loose.push_back({.column = analysis.columns[i],
                           .kept = is_hashed       ? LooseColumn::kAll
                                   : error < often ? LooseColumn::kFrequent
                                                   : LooseColumn::kCounted,
                           .error = error});
  }
  return notes;
}

}  // namespace

const std::string& LabelOf(const Analysis& analysis) {
  for (const char* name : {"label", "click", "clicked", "target"}) {
    for (const std::string& column : analysis.columns) {
      if (absl::AsciiStrToLower(column) == name) return column;
    }
  }
  return analysis.columns[0];
}

absl::StatusOr<FeaturesSpec> ProposeFeatures(const Analysis& analysis, const std::string& label,
                                             const ProposalOptions& options, ProposalNotes* notes) {
  FeaturesSpec spec;
  std::set<std::string> missing;
  const auto found = std::find(analysis.columns.begin(), analysis.columns.end(), label);
  if (found == analysis.columns.end()) {
    return absl::InvalidArgumentError(absl::StrCat("label: the data has no column '", label, "'",
                                                   DidYouMean(label, analysis.columns)));
  }
  const size_t label_column = static_cast<size_t>(found - analysis.columns.begin());
  RUBATO_RETURN_IF_ERROR(
      ProposeLabel(analysis.stats[label_column], label, options.positive, &spec));
  const std::vector<ColumnUse> uses = UsesOf(analysis, label_column);
  const int64_t often = options.min_count > 0 ? options.min_count : OftenFor(analysis, uses);
  for (size_t i = 0; i < analysis.columns.size(); ++i) {
    const ColumnStats& stats = analysis.stats[i];
    const std::string& column = analysis.columns[i];
    const Use use = uses[i].use;
    if (i == label_column || stats.distinct() < 2) continue;
    for (const auto& [text, count] : stats.missing_texts()) missing.insert(text);
    if (use == Use::kNumber) ProposeNumber(column, stats, analysis.format == "criteo", &spec);
    if (use == Use::kText) ProposeText(column, stats, often, &spec);
    if (use == Use::kCode) ProposeCode(column, stats, often, analysis, &spec);
    if (use == Use::kBag) ProposeBag(column, stats, uses[i].separator, often, &spec);
    if (use == Use::kEntries) ProposeEntries(column, &spec);
  }
  if (spec.features.empty()) {
    return absl::InvalidArgumentError("no column changes, or all never repeat: nothing to learn");
  }
  spec.missing.assign(missing.begin(), missing.end());
  if (notes != nullptr) {
    *notes = NotesOf(analysis, uses, often);
    notes->unused = Unused(analysis, uses, spec);
  }
  return spec;
}

}  // namespace rubato
