// What all that Prometheus reads have in common.
#ifndef RUBATO_BASE_PROMETHEUS_H_
#define RUBATO_BASE_PROMETHEUS_H_

#include <string>

#include "absl/strings/str_replace.h"
#include "absl/strings/string_view.h"

namespace rubato {

// As the value of a label is written between its quotes.
inline std::string PrometheusLabel(absl::string_view text) {
  return absl::StrReplaceAll(text, {{"\\", "\\\\"}, {"\"", "\\\""}, {"\n", "\\n"}});
}

}  // namespace rubato

#endif  // RUBATO_BASE_PROMETHEUS_H_
