// What is known of the numbers of a column, whichever order they came in.
#ifndef RUBATO_FEATURES_NUMBER_STATS_H_
#define RUBATO_FEATURES_NUMBER_STATS_H_

#include <cstdint>
#include <map>
#include <string>

#include "absl/strings/string_view.h"
#include "rubato/features/sketches.h"

namespace rubato {

struct NumberStats {
  int64_t count = 0, integers = 0;
  double mean = 0, squares = 0;  // Welford's: of deviations from the mean.
  double min = 0, max = 0;
  QuantileSketch quantiles;

  void Add(double x);
  void Merge(const NumberStats& other);
  double deviation() const;
};

// Cells that are numbers only if a comma may stand for the point, as 3,14. So may be the pair of 3
// and 14, and 3,140 may be three thousand: what tells them apart is how they are written.
struct CommaStats {
  int64_t count = 0;
  // Cells that part no thousands: not three digits behind the comma, or a 0 in front, or more than
  // three digits. Cells whose part behind the comma is written as no integer is, as 3,05.
  int64_t no_thousands = 0, no_pairs = 0;
  int64_t digits_min = 0, digits_max = 0;  // Behind the comma.

  void Add(absl::string_view cell);
  void Merge(const CommaStats& other);
  // Whether the comma is a decimal one, and nothing else.
  bool are_decimals() const {
    return no_thousands > 0 && (no_pairs > 0 || digits_min == digits_max);
  }
};

}  // namespace rubato

#endif  // RUBATO_FEATURES_NUMBER_STATS_H_
