#include "rubato/job/checks.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_join.h"
#include "rubato/job/suggest.h"

namespace rubato {

absl::Status CheckOneOf(absl::string_view key, const std::string& value,
                        const std::vector<std::string>& choices) {
  if (std::find(choices.begin(), choices.end(), value) != choices.end()) return absl::OkStatus();
  return Invalid(key, "'", value, "' is not one of ", absl::StrJoin(choices, ", "),
                 DidYouMean(value, choices));
}

absl::Status CheckRange(absl::string_view key, int64_t value, int64_t low, int64_t high) {
  if (value < low) return Invalid(key, value, " is less than ", low);
  if (value > high) return Invalid(key, value, " is more than ", high);
  return absl::OkStatus();
}

absl::Status CheckNumber(absl::string_view key, double value, bool zero_allowed) {
  if (std::isfinite(value) && (value > 0 || (zero_allowed && value == 0))) return absl::OkStatus();
  return Invalid(key, value, " is not a finite number ", zero_allowed ? "of 0 or more" : "above 0");
}

absl::Status CheckFraction(absl::string_view key, double value) {
  if (value >= 0 && value < 1) return absl::OkStatus();
  return Invalid(key, value, " is not a number of 0 or more and less than 1");
}

}  // namespace rubato
