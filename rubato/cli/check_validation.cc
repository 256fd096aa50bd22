#include "rubato/cli/check_validation.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "rubato/base/status.h"
#include "rubato/data/formats.h"
#include "rubato/features/propose_label.h"
#include "rubato/features/transforms.h"
#include "rubato/job/suggest.h"

namespace rubato {
namespace {

// Of entries, records that lack a field are the normal case; a table has the columns that are read,
// in whatever order.
absl::Status CheckColumns(const Analysis& train, const Analysis& validation,
                          const FeaturesSpec& features) {
  const bool has_entries =
      train.format == "libsvm" || train.format == "libfm" || train.format == "libffm";
  if (has_entries || validation.columns == train.columns) return absl::OkStatus();
  std::set<std::string> needed = {features.label};
  for (const FeatureSpec& f : features.features) needed.insert(f.columns.begin(), f.columns.end());
  const auto& others = validation.columns;
  const bool by_place = AreByPlace(train.columns);
  for (const std::string& column : train.columns) {
    if (std::find(others.begin(), others.end(), column) != others.end()) continue;
    if (!by_place && !needed.contains(column)) continue;
    return absl::InvalidArgumentError(absl::StrCat(
        "--validation: has no column '", column, "', which --data has", DidYouMean(column, others),
        "; its first row has ", others.size(), ", that of --data ", train.columns.size()));
  }
  return by_place
             ? absl::InvalidArgumentError(absl::StrCat(
                   "--validation: its first row has ", others.size(), " columns, that of --data ",
                   train.columns.size(), "; without a header they go by place"))
             : absl::OkStatus();
}

// Fields of libffm that no row of the training data has.
std::string FieldsLeftOut(const Analysis& train, const Analysis& validation) {
  std::vector<std::string> fields;
  for (const std::string& field : validation.columns) {
    const auto found = std::find(train.columns.begin(), train.columns.end(), field);
    if (train.format == "libffm" && found == train.columns.end()) fields.push_back(field);
  }
  if (fields.empty()) return "";
  return absl::StrCat(fields.size() == 1 ? "field " : "fields ", absl::StrJoin(fields, ", "),
                      ": in --validation alone, so nothing is learned of it and it is left out");
}

absl::Status CheckLabels(const ColumnStats& labels, const FeaturesSpec& features) {
  if (features.at_least.has_value()) return absl::OkStatus();
  if (!features.positive.empty() && features.negative.empty()) return absl::OkStatus();
  std::vector<std::string> known = features.positive;
  known.insert(known.end(), features.negative.begin(), features.negative.end());
  const bool has_slips = known.empty() && LabelSlips(labels) > 0;  // They are bad rows.
  if (known.empty()) known = {"0", "1"};
  const std::vector<double> numbers = NumbersOf(known);  // 1.0 and +1 are 1, as in training.
  for (const CommonTexts::Item& item : labels.common().Items()) {
    const double number = ToNumber(item.text).value_or(NAN);
    if (has_slips && std::isnan(number)) continue;
    if (std::find(known.begin(), known.end(), item.text) != known.end() ||
        std::find(numbers.begin(), numbers.end(), number) != numbers.end()) {
      continue;
    }
    return absl::InvalidArgumentError(
        absl::StrCat("--validation: the label '", features.label, "' is '", item.text, "' in ",
                     item.count, item.count == 1 ? " row" : " rows",
                     ", which it never is in --data", DidYouMean(item.text, known)));
  }
  return absl::OkStatus();
}

// Whether nothing tells the two apart, as if one file were both.
bool AreTheSame(const Analysis& train, const Analysis& validation) {
  const bool same_shape = train.rows == validation.rows && train.columns == validation.columns;
  for (size_t i = 0; same_shape && i < train.stats.size(); ++i) {
    const ColumnStats &a = train.stats[i], &b = validation.stats[i];
    if (a.present() != b.present() || a.distinct() != b.distinct() || a.mean() != b.mean() ||
        a.deviation() != b.deviation() || a.max() != b.max()) {
      return false;
    }
  }
  return same_shape;
}

}  // namespace

absl::Status CheckValidation(const Analysis& train, const Analysis& validation,
                             FeaturesSpec* features, std::vector<std::string>* said) {
  RUBATO_RETURN_IF_ERROR(CheckColumns(train, validation, *features));
  if (const std::string text = FieldsLeftOut(train, validation); !text.empty()) {
    said->push_back(text);
  }
  if (AreTheSame(train, validation)) {
    said->push_back(
        "--validation: seems to be the very rows of --data; how good a model is shows on rows that "
        "it was not trained on");
  }
  for (size_t i = 0; i < validation.columns.size(); ++i) {
    const std::string& column = validation.columns[i];
    const ColumnStats& stats = validation.stats[i];
    if (column == features->label) RUBATO_RETURN_IF_ERROR(CheckLabels(stats, *features));
    if (stats.strangers() == 0) continue;
    bool changed = false;
    for (FeatureSpec& f : features->features) {
      if (!ReadsNumber(f.transform) || f.columns[0] != column || f.malformed_is_missing) continue;
      f.malformed_is_missing = changed = true;
    }
    if (!changed) continue;
    said->push_back(absl::StrCat(column, ": of the numbers in --validation ", stats.strangers(),
                                 stats.strangers() == 1 ? " is none" : " are none", ", as '",
                                 stats.stranger_texts().begin()->first,
                                 "'; such count as missing (malformed: missing)"));
  }
  return absl::OkStatus();
}

}  // namespace rubato
