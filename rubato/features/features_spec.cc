#include "rubato/features/features_spec.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "rubato/base/status.h"
#include "rubato/features/times.h"
#include "rubato/features/transforms.h"
#include "rubato/job/suggest.h"

namespace rubato {
namespace {

enum class Input { kNumber, kText, kMany };

struct TransformRow {
  std::string name;
  Input input;
  bool makes_number;
  std::vector<std::string> keys;
};

const std::vector<TransformRow>& Table() {
  static const auto& table = *new std::vector<TransformRow>{
      {"number",
       Input::kNumber,
       true,
       {"default", "malformed", "decimal", "read", "date", "missing"}},
      {"normalize",
       Input::kNumber,
       true,
       {"mean", "deviation", "min", "max", "default", "malformed", "decimal", "read", "date",
        "missing"}},
      {"log", Input::kNumber, true, {"default", "malformed", "decimal", "read", "date", "missing"}},
      {"discretize",
       Input::kNumber,
       false,
       {"boundaries", "default", "malformed", "decimal", "read", "date", "missing"}},
      {"log_round",
       Input::kNumber,
       false,
       {"buckets", "base", "outside", "default", "malformed", "decimal", "read", "date",
        "missing"}},
      {"round_identity",
       Input::kNumber,
       false,
       {"buckets", "outside", "default", "malformed", "decimal", "read", "date", "missing"}},
      {"time_part", Input::kNumber, false, {"part", "unit", "date", "malformed", "missing"}},
      {"criteo",
       Input::kNumber,
       false,
       {"default", "malformed", "decimal", "read", "date", "missing"}},
      {"hash",
       Input::kText,
       false,
       {"buckets", "separator", "weight_separator", "brackets", "values_max", "combiner",
        "missing"}},
      {"lookup",
       Input::kText,
       false,
       {"vocabulary", "vocabulary_file", "oov", "separator", "weight_separator", "brackets",
        "values_max", "combiner", "missing"}},
      {"merge_rare",
       Input::kText,
       false,
       {"vocabulary", "vocabulary_file", "separator", "weight_separator", "brackets", "values_max",
        "combiner", "missing"}},
      {"cross", Input::kMany, false, {"buckets"}},
      {"concatenate", Input::kMany, false, {"offsets", "combiner"}},
  };
  return table;
}

const TransformRow* Find(absl::string_view transform) {
  for (const TransformRow& row : Table()) {
    if (row.name == transform) return &row;
  }
  return nullptr;
}

bool Is(absl::string_view transform, Input input) {
  const TransformRow* row = Find(transform);
  return row != nullptr && row->input == input;
}

template <typename... T>
absl::Status Wrong(const T&... parts) {
  return absl::InvalidArgumentError(absl::StrCat(parts...));
}

absl::Status CheckBoundaries(const std::vector<double>& boundaries) {
  if (boundaries.empty()) return Wrong("boundaries: discretize needs at least one");
  for (size_t i = 0; i < boundaries.size(); ++i) {
    if (!std::isfinite(boundaries[i]))
      return Wrong("boundaries: ", boundaries[i], " is not finite");
    if (i > 0 && boundaries[i] <= boundaries[i - 1]) {
      return Wrong("boundaries: ", boundaries[i], " comes after ", boundaries[i - 1],
                   "; they must grow");
    }
  }
  return absl::OkStatus();
}

absl::Status CheckReading(const FeatureSpec& f) {
  const std::vector<std::string> known = {"number", "amount", "time"};
  if (std::find(known.begin(), known.end(), f.read) == known.end()) {
    return Wrong("read: '", f.read, "' is not one of number, amount, time",
                 DidYouMean(f.read, known));
  }
  const std::vector<std::string> orders = {"year_first", "month_first", "day_first"};
  if (std::find(orders.begin(), orders.end(), f.date) == orders.end()) {
    return Wrong("date: '", f.date, "' is not one of ", absl::StrJoin(orders, ", "),
                 DidYouMean(f.date, orders));
  }
  if (f.date != "year_first" && !IsTime(f.style())) return Wrong("date: goes with `read: time`");
  if (f.read == "time" && f.decimal_comma) return Wrong("decimal: a time has no decimal comma");
  if (!f.unit.empty() && !TimeUnitNamed(f.unit).has_value()) {
    return Wrong("unit: '", f.unit, "' is not one of ", absl::StrJoin(TimeUnitNames(), ", "),
                 DidYouMean(f.unit, TimeUnitNames()));
  }
  if (f.transform != "time_part" || TimePartNamed(f.part).has_value()) return absl::OkStatus();
  return Wrong("part: '", f.part, "' is not one of ", absl::StrJoin(TimePartNames(), ", "),
               DidYouMean(f.part, TimePartNames()));
}

absl::Status CheckNumbers(const FeatureSpec& f) {
  const bool needs_buckets = f.transform == "log_round" || f.transform == "round_identity";
  if (f.buckets < 0 || (needs_buckets && f.buckets == 0)) {
    return Wrong("buckets: ", f.transform, " needs 1 or more, not ", f.buckets);
  }
  if (needs_buckets && (f.outside < 0 || f.outside >= f.buckets)) {
    return Wrong("outside: ", f.outside, " is not one of the ", f.buckets, " buckets, 0 to ",
                 f.buckets - 1);
  }
  if (f.transform == "normalize") {
    if (!FitsFloat(f.mean)) return Wrong("mean: ", f.mean, " is no finite number of 32 bits");
    if (!std::isfinite(f.min.value_or(0)) || !std::isfinite(f.max.value_or(0)) ||
        f.min.value_or(-INFINITY) > f.max.value_or(INFINITY)) {
      return Wrong("min: ", f.min.value_or(-INFINITY), " to max, ", f.max.value_or(INFINITY),
                   ", is no range");
    }
    // As a float: a deviation that is 0 there would divide by it.
    if (!(static_cast<float>(f.deviation) > 0) || !FitsFloat(f.deviation)) {
      return Wrong("deviation: ", f.deviation,
                   " cannot be divided by; a column that never changes is no feature");
    }
  }
  if (f.transform == "log_round" && f.base != 0 && !(f.base > 1 && std::isfinite(f.base))) {
    return Wrong("base: ", f.base, " is not above 1 (0 is e)");
  }
  if (f.transform == "discretize") RUBATO_RETURN_IF_ERROR(CheckBoundaries(f.boundaries));
  RUBATO_RETURN_IF_ERROR(CheckReading(f));
  const bool is_float = f.transform == "number" || f.transform == "normalize";
  const double otherwise = f.otherwise.value_or(0);
  if (!std::isfinite(otherwise) || (is_float && !FitsFloat(otherwise))) {
    return Wrong("default: ", otherwise, " is not finite", is_float ? " in 32 bits" : "");
  }
  return absl::OkStatus();
}

absl::Status CheckTexts(const FeatureSpec& f) {
  if (f.transform == "lookup" || f.transform == "merge_rare") {
    if (f.vocabulary.empty()) return Wrong("vocabulary: ", f.transform, " needs at least one word");
    RUBATO_RETURN_IF_ERROR(Vocabulary::Make(f.vocabulary).status());
  }
  if (f.oov < 1) return Wrong("oov: ", f.oov, " is less than 1; a stranger needs an id");
  if (f.separator.size() > 1) return Wrong("separator: '", f.separator, "' is not one character");
  if (f.weight_separator.size() > 1) {
    return Wrong("weight_separator: '", f.weight_separator, "' is not one character");
  }
  if (!f.weight_separator.empty() && (f.separator.empty() || f.separator == f.weight_separator)) {
    return Wrong("weight_separator: needs a separator of values, and another one");
  }
  if (f.brackets && f.separator.empty()) return Wrong("brackets: needs a separator of values");
  if (f.values_max < 0) return Wrong("values_max: ", f.values_max, " is less than 0 (0 is all)");
  const std::vector<std::string> combiners = {"sum", "mean", "sqrtn"};
  if (std::find(combiners.begin(), combiners.end(), f.combiner) == combiners.end()) {
    return Wrong("combiner: '", f.combiner, "' is not one of sum, mean, sqrtn",
                 DidYouMean(f.combiner, combiners));
  }
  return absl::OkStatus();
}

absl::Status CheckInputs(const FeatureSpec& f) {
  for (const std::string& column : f.columns) {
    if (column.empty()) return Wrong("column: a column's name is empty");
  }
  if (Is(f.transform, Input::kMany)) {
    if (f.columns.size() < 2) return Wrong("columns: ", f.transform, " needs at least two");
  } else if (f.columns.size() != 1) {
    return Wrong("columns: ", f.transform, " takes one column, not ", f.columns.size());
  }
  if (!f.offsets.empty() && f.offsets.size() != f.columns.size()) {
    return Wrong("offsets: ", f.offsets.size(), " for ", f.columns.size(), " columns");
  }
  return absl::OkStatus();
}

absl::Status CheckFeature(const FeatureSpec& f) {
  if (Find(f.transform) == nullptr) {
    return Wrong("transform: '", f.transform, "' is not one of ",
                 absl::StrJoin(TransformNames(), ", "), DidYouMean(f.transform, TransformNames()));
  }
  RUBATO_RETURN_IF_ERROR(CheckInputs(f));
  RUBATO_RETURN_IF_ERROR(CheckNumbers(f));
  return CheckTexts(f);
}

}  // namespace

NumberStyle FeatureSpec::style() const {
  if (read == "time" || (transform == "time_part" && unit.empty())) {
    return date == "month_first" ? NumberStyle::kMonthFirst
           : date == "day_first" ? NumberStyle::kDayFirst
                                 : NumberStyle::kTime;
  }
  if (read == "amount") return decimal_comma ? NumberStyle::kCommaAmount : NumberStyle::kAmount;
  return decimal_comma ? NumberStyle::kComma : NumberStyle::kPlain;
}

void FeatureSpec::set_style(NumberStyle style) {
  const bool is_amount = style == NumberStyle::kAmount || style == NumberStyle::kCommaAmount;
  read = IsTime(style) ? "time" : is_amount ? "amount" : "number";
  date = style == NumberStyle::kMonthFirst ? "month_first"
         : style == NumberStyle::kDayFirst ? "day_first"
                                           : "year_first";
  decimal_comma = style == NumberStyle::kComma || style == NumberStyle::kCommaAmount;
}

bool operator==(const FeatureSpec& a, const FeatureSpec& b) {
  return a.name == b.name && a.transform == b.transform && a.columns == b.columns &&
         a.mean == b.mean && a.deviation == b.deviation && a.min == b.min && a.max == b.max &&
         a.boundaries == b.boundaries && a.base == b.base && a.buckets == b.buckets &&
         a.outside == b.outside && a.vocabulary == b.vocabulary && a.oov == b.oov &&
         a.offsets == b.offsets && a.otherwise == b.otherwise &&
         a.malformed_is_missing == b.malformed_is_missing && a.missing == b.missing &&
         a.decimal_comma == b.decimal_comma && a.read == b.read && a.date == b.date &&
         a.part == b.part && a.unit == b.unit && a.separator == b.separator &&
         a.weight_separator == b.weight_separator && a.brackets == b.brackets &&
         a.values_max == b.values_max && a.combiner == b.combiner;
}

absl::Status FeaturesSpec::Validate() const {
  if (!negative.empty() && positive.empty()) {
    return Wrong("label: negative needs positive: which labels are a yes");
  }
  if (at_least.has_value() && !positive.empty()) {
    return Wrong("label: at_least and positive both say which labels are a yes; keep one");
  }
  if (at_least.has_value() && !std::isfinite(*at_least)) {
    return Wrong("label: at_least must be a finite number");
  }
  for (const std::string& text : negative) {
    if (std::find(positive.begin(), positive.end(), text) == positive.end()) continue;
    return Wrong("label: '", text, "' is positive and negative");
  }
  if (features.empty()) return Wrong("features: name at least one");
  // A number and an id may share a name, as Criteo's integers do.
  std::set<std::pair<bool, std::string>> names;
  for (const FeatureSpec& f : features) {
    const std::string where =
        absl::StrCat(f.where, f.where.empty() ? "" : ": ", "feature '", f.name, "'");
    if (f.name.empty()) return Annotate(Wrong("name: a feature's name is empty"), where);
    RUBATO_RETURN_IF_ERROR(Annotate(CheckFeature(f), where));
    if (!names.emplace(MakesNumber(f.transform), f.name).second) {
      return Annotate(Wrong("name: another feature has it already"), where);
    }
  }
  return absl::OkStatus();
}

const std::vector<std::string>& TransformNames() {
  static const auto& names = *[] {
    auto* names = new std::vector<std::string>();
    for (const TransformRow& row : Table()) names->push_back(row.name);
    return names;
  }();
  return names;
}

const std::vector<std::string>& TransformKeys(absl::string_view transform) {
  static const auto& none = *new std::vector<std::string>();
  const TransformRow* row = Find(transform);
  return row == nullptr ? none : row->keys;
}

bool MakesNumber(absl::string_view transform) {
  const TransformRow* row = Find(transform);
  return row != nullptr && row->makes_number;
}
bool ReadsNumber(absl::string_view transform) { return Is(transform, Input::kNumber); }
bool ReadsText(absl::string_view transform) { return Is(transform, Input::kText); }

}  // namespace rubato
