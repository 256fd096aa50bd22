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

// As often must a value occur before it gets an id of its own. What is seen a few times only is
// remembered rather than learned from, most of all by deep models. But where such values are few
// rows in all, as the rare films of a catalogue, they cost little and may tell much.
int64_t OftenEnough(const ColumnStats& stats, int64_t rows) {
  const int64_t often = rows >= 50000 ? 10 : rows >= 5000 ? 3 : 2;
  if (stats.common().error() >= often) return often;
  int64_t frequent = 0;
  for (const CommonTexts::Item& item : stats.common().Items()) {
    if (item.count >= often) frequent += item.count;
  }
  const double rare = 1 - static_cast<double>(frequent) / static_cast<double>(stats.present());
  return rare > 0.2 ? often : 2;
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

void ProposeText(const std::string& column, const ColumnStats& stats, int64_t rows,
                 FeaturesSpec* spec) {
  const int64_t often = OftenEnough(stats, rows);
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
  // An entry's index names something, though it looks like a number.
  const bool ids_only =
      analysis.format == "libfm" || analysis.format == "libsvm" || analysis.format == "libffm";
  for (size_t i = 0; i < analysis.columns.size(); ++i) {
    const ColumnStats& stats = analysis.stats[i];
    const std::string& column = analysis.columns[i];
    if (i == label_column || stats.distinct() < 2) continue;
    for (const auto& [text, count] : stats.missing_texts()) missing.insert(text);
    const bool is_number = stats.is_number() && !ids_only &&
                           !(stats.integers() == stats.numbers() && IsNamedLikeAnId(column));
    if (is_number && stats.deviation() > 0) {
      ProposeNumber(column, stats, analysis.format == "criteo", &spec);
      continue;
    }
    const bool never_repeats =
        stats.present() >= 100 &&
        static_cast<double>(stats.distinct()) > 0.95 * static_cast<double>(stats.present());
    if (!never_repeats) ProposeText(column, stats, analysis.rows, &spec);
  }
  if (spec.features.empty()) {
    return absl::InvalidArgumentError("no column changes, or all never repeat: nothing to learn");
  }
  spec.missing.assign(missing.begin(), missing.end());
  return spec;
}

}  // namespace rubato
