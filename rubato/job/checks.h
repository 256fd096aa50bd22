// The checks behind every Validate() of the job: each names the key, its value and the remedy.
#ifndef RUBATO_JOB_CHECKS_H_
#define RUBATO_JOB_CHECKS_H_

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace rubato {

inline constexpr int64_t kUnbounded = std::numeric_limits<int64_t>::max();

template <typename... Parts>
absl::Status Invalid(absl::string_view key, const Parts&... parts) {
  return absl::InvalidArgumentError(absl::StrCat(key, ": ", parts...));
}

absl::Status CheckOneOf(absl::string_view key, const std::string& value,
                        const std::vector<std::string>& choices);
absl::Status CheckRange(absl::string_view key, int64_t value, int64_t low,
                        int64_t high = kUnbounded);
absl::Status CheckNumber(absl::string_view key, double value, bool zero_allowed);
// At least 0 and less than 1, as what a moving average keeps.
absl::Status CheckFraction(absl::string_view key, double value);

}  // namespace rubato

#endif  // RUBATO_JOB_CHECKS_H_
