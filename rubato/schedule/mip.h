// Mixed-integer programmes, solved by the Cbc library: the one door to it.
#ifndef RUBATO_SCHEDULE_MIP_H_
#define RUBATO_SCHEDULE_MIP_H_

#include <utility>
#include <vector>

#include "absl/status/statusor.h"

namespace rubato {

// Maximise the sum of worth x value, each variable within [0, max], each row at most its limit.
struct Mip {
  struct Variable {
    double worth = 0;
    double max = 1;
    bool integer = true;
  };
  struct Row {
    std::vector<std::pair<int, double>> terms;  // (variable, factor)
    double limit = 0;
  };
  std::vector<Variable> variables;
  std::vector<Row> rows;
};

// The best solution found within `nodes_max` nodes of the search, one value a variable; the search
// also ends when nothing can be better by more than `gap`. Counting
// nodes instead of seconds keeps it the same on every machine. INTERNAL if there is none (0 for all
// is always one when limits are not negative).
absl::StatusOr<std::vector<double>> Solve(const Mip& mip, int nodes_max, double gap);

}  // namespace rubato

#endif  // RUBATO_SCHEDULE_MIP_H_
