// From statistics to features: the rules of thumb in one place.
#include <algorithm>
#include <cmath>
#include <set>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "rubato/base/status.h"
#include "rubato/features/analysis.h"
#include "rubato/features/utf8.h"
#include "rubato/job/suggest.h"

namespace rubato {
namespace {

// As often must a value occur before it gets an id of its own, where rare values matter at all.
int64_t OftenEnough(int64_t rows) {
  if (rows >= 1'000'000) return 50;
  return rows >= 50'000 ? 10 : rows >= 5'000 ? 3 : 2;
}

// The share of a text's values that occur less often than `often`; 1 if nobody knows.
double RareShare(const ColumnStats& stats, int64_t often) {
  if (stats.common().error() >= often) return 1;
  int64_t frequent = 0;
  for (const CommonTexts::Item& item : stats.common().Items()) {
    if (item.count >= often) frequent += item.count;
  }
  return 1 - static_cast<double>(frequent) / static_cast<double>(stats.present());
}

// Bins of a number: fine enough to follow a curve, with enough rows in each.
int BinsFor(int64_t present) { return static_cast<int>(std::clamp<int64_t>(present / 500, 8, 64)); }

// Integers that only name something: a postcode is no quantity.
bool IsNamedLikeAnId(absl::string_view column) {
  const std::string name = absl::AsciiStrToLower(column);
  for (const char* end : {"id", "code", "zip", "zipcode"}) {
    if (name == end || absl::EndsWith(name, absl::StrCat("_", end)) ||
        absl::EndsWith(name, absl::StrCat("-", end)) ||
        absl::EndsWith(name, absl::StrCat(" ", end))) {
      return true;
    }
  }
  return name == "userid" || name == "itemid" || name == "movieid";
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

void ProposeText(const std::string& column, const ColumnStats& stats, int64_t often,
                 FeaturesSpec* spec) {
  FeatureSpec f = Plain(column, "hash", column);
  // A count may be too low by the error; then rare and common cannot be told apart.
  if (stats.common().error() < often) {
    for (const CommonTexts::Item& item : stats.common().Items()) {
      if (item.count < often || !IsUtf8(item.text)) continue;
      f.vocabulary.push_back(item.text);
    }
    if (!f.vocabulary.empty()) f.transform = "merge_rare";
  }
  spec->features.push_back(std::move(f));
}

void ProposeNumber(const std::string& column, const ColumnStats& stats, bool criteo,
                   FeaturesSpec* spec) {
  FeatureSpec dense = Plain(column, "log", column);
  if (!criteo && !IsSkewed(stats)) {
    dense.transform = "normalize";
    dense.mean = stats.mean();
    dense.deviation = stats.deviation();
  }
  spec->features.push_back(std::move(dense));
  FeatureSpec ids = Plain(column, criteo ? "criteo" : "discretize", column);
  if (!criteo) ids.boundaries = stats.quantiles().Boundaries(BinsFor(stats.present()));
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

absl::Status ProposeLabel(const ColumnStats& stats, const std::string& label, FeaturesSpec* spec) {
  spec->label = label;
  const std::vector<CommonTexts::Item> values = stats.common().Items();
  if (stats.is_number() && stats.min() == 0 && stats.max() == 1) return absl::OkStatus();
  if (stats.distinct() != 2) {
    return absl::InvalidArgumentError(
        absl::StrCat("label '", label, "': has ", stats.distinct(),
                     " different values; a label of two classes is expected"));
  }
  // Of numbers the larger one is a yes; of texts, the rarer one.
  const bool first = stats.is_number() && std::stod(values[0].text) > std::stod(values[1].text);
  spec->positive = {values[first ? 0 : 1].text};
  return absl::OkStatus();
}

enum class Use { kNone, kNumber, kText, kEntries };

// Whether cells hold more than the index of one entry: several, or one with a value.
bool HoldEntries(const ColumnStats& stats) {
  for (const CommonTexts::Item& item : stats.common().Items()) {
    if (item.text.find_first_of(" :") != std::string::npos) return true;
  }
  return false;
}

Use UseOf(const Analysis& analysis, size_t column) {
  const ColumnStats& stats = analysis.stats[column];
  if (stats.distinct() < 2) return Use::kNone;
  // An entry's index names something, though it looks like a number.
  const bool ids_only =
      analysis.format == "libfm" || analysis.format == "libsvm" || analysis.format == "libffm";
  if (analysis.format == "libsvm" || (ids_only && HoldEntries(stats))) return Use::kEntries;
  const bool is_id =
      stats.integers() == stats.numbers() && IsNamedLikeAnId(analysis.columns[column]);
  if (stats.is_number() && stats.deviation() > 0 && !ids_only && !is_id) return Use::kNumber;
  const bool never_repeats =
      stats.present() >= 100 &&
      static_cast<double>(stats.distinct()) > 0.95 * static_cast<double>(stats.present());
  return never_repeats ? Use::kNone : Use::kText;
}

// From which count on a value gets an id of its own. What is seen a few times only is remembered
// rather than learned from, most of all by deep models. It is the more harm the more of it there is
// in a row: among 26 columns with a rare value now and then it is noise, while the rare films of a
// catalogue, in a table of three columns, cost little and tell much.
int64_t OftenFor(const Analysis& analysis, size_t label_column) {
  const int64_t often = OftenEnough(analysis.rows);
  double rare_values = 0;  // To be expected in a row.
  for (size_t i = 0; i < analysis.columns.size(); ++i) {
    if (i == label_column || UseOf(analysis, i) != Use::kText) continue;
    const ColumnStats& stats = analysis.stats[i];
    rare_values += RareShare(stats, often) * static_cast<double>(stats.present()) /
                   static_cast<double>(analysis.rows);
  }
  return rare_values > 0.2 ? often : std::min<int64_t>(often, 2);
}

}  // namespace

absl::StatusOr<FeaturesSpec> ProposeFeatures(const Analysis& analysis, const std::string& label) {
  FeaturesSpec spec;
  std::set<std::string> missing;
  const auto found = std::find(analysis.columns.begin(), analysis.columns.end(), label);
  if (found == analysis.columns.end()) {
    return absl::InvalidArgumentError(absl::StrCat("label: the data has no column '", label, "'",
                                                   DidYouMean(label, analysis.columns)));
  }
  const size_t label_column = static_cast<size_t>(found - analysis.columns.begin());
  RUBATO_RETURN_IF_ERROR(ProposeLabel(analysis.stats[label_column], label, &spec));
  const int64_t often = OftenFor(analysis, label_column);
  for (size_t i = 0; i < analysis.columns.size(); ++i) {
    const ColumnStats& stats = analysis.stats[i];
    const std::string& column = analysis.columns[i];
    const Use use = UseOf(analysis, i);
    if (i == label_column || stats.distinct() < 2) continue;
    for (const auto& [text, count] : stats.missing_texts()) missing.insert(text);
    if (use == Use::kNumber) ProposeNumber(column, stats, analysis.format == "criteo", &spec);
    if (use == Use::kText) ProposeText(column, stats, often, &spec);
    if (use == Use::kEntries) ProposeEntries(column, &spec);
  }
  if (spec.features.empty()) {
    return absl::InvalidArgumentError("no column changes, or all never repeat: nothing to learn");
  }
  spec.missing.assign(missing.begin(), missing.end());
  return spec;
}

}  // namespace rubato
