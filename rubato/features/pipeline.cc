#include "rubato/features/pipeline.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "rubato/base/status.h"
#include "rubato/data/ids.h"
#include "rubato/features/transforms.h"
#include "rubato/job/suggest.h"

namespace rubato {
namespace {

template <typename... T>
absl::Status Wrong(const T&... parts) {
  return absl::InvalidArgumentError(absl::StrCat(parts...));
}

// Cells have no blanks around them, so that those of such a list mean nothing.
std::vector<std::string> Trimmed(std::vector<std::string> texts) {
  for (std::string& text : texts) absl::StripAsciiWhitespace(&text);
  return texts;
}

absl::string_view HowRead(NumberStyle style) {
  constexpr absl::string_view kHow[kNumberStyles] = {"as plain numbers",
                                                     "with `decimal: comma`",
                                                     "with `read: amount`",
                                                     "with `read: amount` and `decimal: comma`",
                                                     "as times",
                                                     "as times with `date: month_first`",
                                                     "as times with `date: day_first`"};
  return kHow[static_cast<size_t>(style)];
}

// Gives out slots of the chunk as features ask for columns.
class Planner {
 public:
  Planner(const FeaturesSpec& spec, const std::vector<std::string>& columns) : columns_(columns) {
    plan.positive = Trimmed(spec.positive);
    plan.negative = Trimmed(spec.negative);
    std::vector<std::string> labels = plan.positive;
    labels.insert(labels.end(), plan.negative.begin(), plan.negative.end());
    if (!NumbersOf(labels).empty()) {
      plan.positive_numbers = NumbersOf(plan.positive);
      plan.negative_numbers = NumbersOf(plan.negative);
    }
    plan.at_least = spec.at_least;
    plan.missing = Trimmed(spec.missing);
    for (const std::string& name : columns) plan.columns.push_back({.name = name});
  }

  absl::StatusOr<int> Find(absl::string_view key, const std::string& name) const {
    // Headers have no blanks around names; those of a database may.
    auto found = std::find(columns_.begin(), columns_.end(), name);
    if (found == columns_.end()) {
      found = std::find(columns_.begin(), columns_.end(), absl::StripAsciiWhitespace(name));
    }
    if (found == columns_.end()) {
      return Wrong(key, ": the data has no column '", name, "'", DidYouMean(name, columns_));
    }
    if (std::find(found + 1, columns_.end(), *found) != columns_.end()) {
      return Wrong(key, ": the data has more than one column '", name, "'");
    }
    return static_cast<int>(found - columns_.begin());
  }

  absl::StatusOr<StepSource> Text(const std::string& name, const FeatureSpec& f) {
    RUBATO_ASSIGN_OR_RETURN(const int column, Find("column", name));
    ChunkPlan::Column& planned = plan.columns[static_cast<size_t>(column)];
    if (ReadsText(f.transform)) RUBATO_RETURN_IF_ERROR(TakeMissing(f, &planned));
    return StepSource{StepSource::Kind::kText, TextOf(column)};
  }
  // The slot of a column as text.
  int TextOf(int column) {
    ChunkPlan::Column& planned = plan.columns[static_cast<size_t>(column)];
    if (planned.text < 0) planned.text = plan.texts++;
    return planned.text;
  }

  // Two features may share a column; the stricter of them says what is malformed.
  absl::StatusOr<StepSource> Number(const std::string& name, const FeatureSpec& f) {
    RUBATO_ASSIGN_OR_RETURN(const int column, Find("column", name));
    ChunkPlan::Column& planned = plan.columns[static_cast<size_t>(column)];
    const bool is_first = planned.number < 0;
    if (!is_first && planned.style != f.style()) {
      return Wrong("a feature above reads column '", name, "' ", HowRead(planned.style),
                   ", this one ", HowRead(f.style()), "; both read it alike");
    }
    RUBATO_RETURN_IF_ERROR(TakeMissing(f, &planned));
    if (is_first) planned.number = plan.numbers++;
    planned.style = f.style();
    planned.missing_numbers.clear();
    for (const std::string& text : MissingFor(f)) {
      const std::optional<double> number = ToNumber(text, planned.style);
      if (number.has_value()) planned.missing_numbers.push_back(*number);
    }
    planned.malformed_is_missing =
        f.malformed_is_missing && (is_first || planned.malformed_is_missing);
    planned.is_float |= f.transform == "number" || f.transform == "normalize";
    return StepSource{StepSource::Kind::kNumber, planned.number};
  }

  // All texts that mean nothing in the column that `f` reads.
  std::vector<std::string> MissingFor(const FeatureSpec& f) const {
    std::vector<std::string> missing = Trimmed(f.missing);
    missing.insert(missing.end(), plan.missing.begin(), plan.missing.end());
    return missing;
  }

  ChunkPlan plan;

 private:
  // A cell is read once, for all features of its column; a cross takes it as the others have it.
  absl::Status TakeMissing(const FeatureSpec& f, ChunkPlan::Column* planned) {
    const std::vector<std::string> missing = Trimmed(f.missing);
    if (!claimed_.insert(planned->name).second && planned->missing != missing) {
      return Wrong("missing: a feature above has other texts for column '", planned->name,
                   "'; both read it alike");
    }
    planned->missing = missing;
    return absl::OkStatus();
  }

  std::set<std::string> claimed_;  // Columns whose texts for nothing are known.
  const std::vector<std::string>& columns_;
};

// The id features so far, by name, for cross and concatenate.
using Earlier = std::map<std::string, std::pair<int, const FeatureSpec*>>;

absl::StatusOr<std::vector<StepSource>> FindInputs(const FeatureSpec& f, const Earlier& earlier,
                                                   Planner& planner) {
  std::vector<StepSource> inputs;
  for (const std::string& name : f.columns) {
    if (ReadsNumber(f.transform)) {
      RUBATO_ASSIGN_OR_RETURN(inputs.emplace_back(), planner.Number(name, f));
      continue;
    }
    const auto found = ReadsText(f.transform) ? earlier.end() : earlier.find(name);
    if (found != earlier.end()) {
      if (found->second.second->is_bag()) {
        return Wrong("columns: '", name, "' has several values a row; ", f.transform,
                     " takes features of one");
      }
      inputs.push_back({StepSource::Kind::kStep, found->second.first});
    } else if (f.transform == "concatenate") {
      std::vector<std::string> names;
      for (const auto& [known, unused] : earlier) names.push_back(known);
      return Wrong("columns: no feature above makes ids called '", name, "'",
                   DidYouMean(name, names));
    } else {
      RUBATO_ASSIGN_OR_RETURN(inputs.emplace_back(), planner.Text(name, f));
    }
  }
  return inputs;
}

}  // namespace

absl::StatusOr<Pipeline> Pipeline::Create(const FeaturesSpec& spec,
                                          const std::vector<std::string>& columns,
                                          const Options& options) {
  RUBATO_RETURN_IF_ERROR(spec.Validate());
  Pipeline pipeline;
  Planner planner(spec, columns);
  const std::string& label = spec.label.empty() ? options.label : spec.label;
  if (options.has_labels) {
    planner.plan.label = 0;
    if (!label.empty()) {
      RUBATO_ASSIGN_OR_RETURN(planner.plan.label, planner.Find("label", label));
    }
  }
  Earlier earlier;
  for (const FeatureSpec& f : spec.features) {
    const std::string where =
        absl::StrCat(f.where, f.where.empty() ? "" : ": ", "feature '", f.name, "'");
    absl::StatusOr<std::vector<StepSource>> inputs = FindInputs(f, earlier, planner);
    if (!inputs.ok()) return Annotate(inputs.status(), where);
    std::vector<int64_t> sizes;
    for (const StepSource& input : *inputs) {
      if (input.kind != StepSource::Kind::kStep) continue;
      sizes.push_back(pipeline.features_[static_cast<size_t>(input.slot)].step->size());
      if (f.transform == "concatenate" && sizes.back() == 0) {
        return Annotate(Wrong("columns: '", f.columns[sizes.size() - 1],
                              "' has no bound on its ids, so the next one has no offset"),
                        where);
      }
    }
    Feature feature = {.makes_number = MakesNumber(f.transform), .is_bag = f.is_bag()};
    RUBATO_ASSIGN_OR_RETURN(feature.step, MakeStep(f, planner.MissingFor(f), *inputs, sizes));
    pipeline.has_weights_ |= !f.weight_separator.empty();
    BatchShape& shape = pipeline.shape_;
    if (feature.is_bag) {
      feature.slot = static_cast<int>(shape.bags.size());
      shape.bags.push_back({f.name, f.combiner});
    } else {
      std::vector<std::string>& names = feature.makes_number ? shape.dense : shape.ids;
      feature.slot = static_cast<int>(names.size());
      names.push_back(f.name);
    }
    if (!feature.makes_number) {
      earlier[f.name] = {static_cast<int>(pipeline.features_.size()), &f};
    }
    pipeline.features_.push_back(std::move(feature));
  }
  const size_t singles = pipeline.shape_.ids.size();
  const size_t fields = singles + pipeline.shape_.bags.size();
  if (fields > kIdFieldsMax) {
    return Wrong("features: ", fields, " make ids, more than ", kIdFieldsMax);
  }
  for (Feature& feature : pipeline.features_) {
    feature.field = feature.slot + (feature.is_bag ? static_cast<int>(singles) : 0);
  }
  if (!options.group.empty() && planner.Find("group", options.group).ok()) {
    pipeline.group_text_ = planner.TextOf(*planner.Find("group", options.group));
    pipeline.shape_.group = options.group;
  }
  pipeline.plan_ = std::make_shared<const ChunkPlan>(std::move(planner.plan));
  return pipeline;
}

namespace {

uint64_t IdOf(int field, int64_t code, bool is_index) {
  if (code == kMissingCode) return FieldIdOfText(field, "");
  if (is_index || code == kRareCode) return FieldIdOfInteger(field, code);
  return FieldId(field, static_cast<uint64_t>(code));
}

}  // namespace

void Pipeline::AppendIds(const Feature& feature, const FeatureColumn& from, uint64_t* ids) const {
  const size_t stride = shape_.ids.size();
  const bool is_index = feature.step->is_index();
  uint64_t* to = ids + feature.slot;
  for (const int64_t code : from.codes) {
    *to = IdOf(feature.field, code, is_index);
    to += stride;
  }
}

void Pipeline::AppendBags(const std::vector<FeatureColumn>& from, size_t rows, Batch* batch) const {
  for (size_t row = 0; row < rows; ++row) {
    for (size_t i = 0; i < features_.size(); ++i) {
      const Feature& feature = features_[i];
      if (!feature.is_bag) continue;
      for (size_t v = row == 0 ? 0 : from[i].ends[row - 1]; v < from[i].ends[row]; ++v) {
        batch->bag_ids.push_back(IdOf(feature.field, from[i].codes[v], feature.step->is_index()));
        if (has_weights_) {
          batch->bag_weights.push_back(from[i].weights.empty() ? 1 : from[i].weights[v]);
        }
      }
      batch->bag_ends.push_back(batch->bag_ids.size());
    }
  }
}

void Pipeline::Apply(const RawChunk& chunk, Batch* batch) const {
  const size_t rows = chunk.rows();
  if (rows == 0) return;
  const size_t dense_begin = batch->dense.size(), ids_begin = batch->ids.size();
  batch->labels.insert(batch->labels.end(), chunk.labels().begin(), chunk.labels().end());
  for (size_t row = 0; group_text_ >= 0 && row < rows; ++row) {
    const absl::string_view group = chunk.text(group_text_)[row];
    batch->groups.push_back(group.empty() ? std::nullopt : std::optional(HashText(group, 0)));
  }
  batch->dense.resize(dense_begin + rows * shape_.dense.size());
  batch->ids.resize(ids_begin + rows * shape_.ids.size());
  std::vector<FeatureColumn> outputs(features_.size());
  for (size_t i = 0; i < features_.size(); ++i) {
    const Feature& feature = features_[i];
    feature.step->Run(chunk, outputs, &outputs[i]);
    if (feature.makes_number) {
      float* to = batch->dense.data() + dense_begin + feature.slot;
      for (const float number : outputs[i].numbers) {
        *to = number;
        to += shape_.dense.size();
      }
    } else if (!feature.is_bag) {
      AppendIds(feature, outputs[i], batch->ids.data() + ids_begin);
    }
  }
  if (!shape_.bags.empty()) AppendBags(outputs, rows, batch);
  batch->rows += static_cast<int64_t>(rows);
}

}  // namespace rubato
