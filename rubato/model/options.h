// A model's options as the job file gives them (model_options), read with their types.
#ifndef RUBATO_MODEL_OPTIONS_H_
#define RUBATO_MODEL_OPTIONS_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace rubato {

// Asked by a model while it is made. Every getter names an option and its default; what was asked
// for is what the model knows, so an option nobody asked for is a mistake. A value that cannot be
// read gives the default and is remembered: a constructor need not check, Check() does it after.
class ModelOptions {
 public:
  ModelOptions() = default;
  explicit ModelOptions(std::map<std::string, std::string> values) : values_(std::move(values)) {}

  int64_t Int(absl::string_view name, int64_t otherwise, int64_t min = INT64_MIN);
  double Number(absl::string_view name, double otherwise);
  bool Bool(absl::string_view name, bool otherwise);  // true, false, yes, no
  std::string Text(absl::string_view name, absl::string_view otherwise);
  // "256,128"; an empty value is an empty list.
  std::vector<int64_t> Ints(absl::string_view name, std::vector<int64_t> otherwise,
                            int64_t min = INT64_MIN);

  // The model cannot be made like this; the first reason is kept.
  void Refuse(absl::string_view why);

  // INVALID_ARGUMENT with the first bad value, refusal, or unknown option (and what was meant).
  absl::Status Check() const;

 private:
  const std::string* Ask(absl::string_view name);
  void RefuseValue(absl::string_view name, absl::string_view value, absl::string_view want);

  std::map<std::string, std::string> values_;
  std::vector<std::string> known_;  // In the order asked.
  absl::Status error_;
};

}  // namespace rubato

#endif  // RUBATO_MODEL_OPTIONS_H_
