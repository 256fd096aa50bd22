#include "rubato/model/options.h"

#include <algorithm>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "rubato/job/suggest.h"

namespace rubato {

int64_t ModelOptions::Int(absl::string_view name, int64_t otherwise, int64_t min) {
  const std::string* text = Ask(name);
  if (text == nullptr) return otherwise;
  int64_t value = 0;
  if (absl::SimpleAtoi(*text, &value) && value >= min) return value;
  RefuseValue(name, *text,
              min == INT64_MIN ? "a whole number" : absl::StrCat("a whole number from ", min));
  return otherwise;
}

double ModelOptions::Number(absl::string_view name, double otherwise) {
  const std::string* text = Ask(name);
  if (text == nullptr) return otherwise;
  double value = 0;
  if (absl::SimpleAtod(*text, &value)) return value;
  RefuseValue(name, *text, "a number");
  return otherwise;
}

bool ModelOptions::Bool(absl::string_view name, bool otherwise) {
  const std::string* text = Ask(name);
  if (text == nullptr) return otherwise;
  bool value = false;
  if (absl::SimpleAtob(*text, &value)) return value;
  RefuseValue(name, *text, "true or false");
  return otherwise;
}

std::string ModelOptions::Text(absl::string_view name, absl::string_view otherwise) {
  const std::string* text = Ask(name);
  return text != nullptr ? *text : std::string(otherwise);
}

std::vector<int64_t> ModelOptions::Ints(absl::string_view name, std::vector<int64_t> otherwise,
                                        int64_t min) {
  const std::string* text = Ask(name);
  if (text == nullptr) return otherwise;
  std::vector<int64_t> values;
  for (const absl::string_view part : absl::StrSplit(*text, ',', absl::SkipWhitespace())) {
    int64_t value = 0;
    if (!absl::SimpleAtoi(part, &value) || value < min) {
      RefuseValue(name, *text, "whole numbers separated by commas, like 256,128");
      return otherwise;
    }
    values.push_back(value);
  }
  return values;
}

void ModelOptions::Refuse(absl::string_view why) { error_.Update(absl::InvalidArgumentError(why)); }

absl::Status ModelOptions::Check() const {
  if (!error_.ok()) return error_;
  for (const auto& [name, value] : values_) {
    if (std::find(known_.begin(), known_.end(), name) != known_.end()) continue;
    return absl::InvalidArgumentError(absl::StrCat(
        "model_options.", name, ": this model knows ",
        known_.empty() ? "no options" : absl::StrJoin(known_, ", "), DidYouMean(name, known_)));
  }
  return absl::OkStatus();
}

const std::string* ModelOptions::Ask(absl::string_view name) {
  known_.emplace_back(name);
  const auto it = values_.find(known_.back());
  return it == values_.end() ? nullptr : &it->second;
}

void ModelOptions::RefuseValue(absl::string_view name, absl::string_view value,
                               absl::string_view want) {
  Refuse(absl::StrCat("model_options.", name, ": '", value, "' is not ", want));
}

}  // namespace rubato
