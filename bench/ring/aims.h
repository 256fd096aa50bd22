// What the measured times should come to, so that a run can fail by them (`--check`).
#ifndef BENCH_RING_AIMS_H_
#define BENCH_RING_AIMS_H_

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <string>
#include <vector>

#include "absl/strings/str_format.h"
#include "absl/types/span.h"

namespace rubato {

class Aims {
 public:
  // `what` names the case and its unit: "join, 8 hosts: steps lost".
  void AtMost(double limit, double value, const std::string& what) {
    Note(std::isfinite(value) && value <= limit, what, value, "at most", limit);
  }
  // In every round: a median hides the one that took too long.
  void EachAtMost(double limit, absl::Span<const double> values, const std::string& what) {
    if (values.empty()) return NotMeasured(what);
    AtMost(limit, *std::max_element(values.begin(), values.end()), what);
  }
  void AtLeast(double limit, double value, const std::string& what) {
    Note(std::isfinite(value) && value >= limit, what, value, "at least", limit);
  }
  // Whether there are times to go by: one that is 0 is of a contender that failed, beside which any
  // other would look well.
  bool Measured(absl::Span<const double> times, const std::string& what) {
    const bool all = std::all_of(times.begin(), times.end(),
                                 [](double time) { return std::isfinite(time) && time > 0; });
    if (!all) NotMeasured(what);
    return all;
  }
  // What was to be measured and was not is missed too.
  void NotMeasured(const std::string& what) {
    missed_.push_back(absl::StrFormat("%s: not measured", what));
  }

  // Says on stderr which were missed; the exit status of a checked run.
  int Report() const {
    for (const std::string& one : missed_) std::fprintf(stderr, "missed: %s\n", one.c_str());
    std::fprintf(stderr, "%d of %d aims met\n", met_, met_ + static_cast<int>(missed_.size()));
    return missed_.empty() && met_ > 0 ? 0 : 1;  // Who measured nothing met nothing.
  }

 private:
  void Note(bool met, const std::string& what, double value, const char* than, double limit) {
    if (met) {
      ++met_;
    } else {  // A value that is no number is missed as well.
      missed_.push_back(absl::StrFormat("%s: %.4g, the aim is %s %.4g", what, value, than, limit));
    }
  }

  int met_ = 0;
  std::vector<std::string> missed_;
};

}  // namespace rubato

#endif  // BENCH_RING_AIMS_H_
