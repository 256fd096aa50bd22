#include "rubato/features/number_stats.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/ascii.h"

namespace rubato {

void NumberStats::Add(double x) {
  min = count == 0 ? x : std::min(min, x);
  max = count == 0 ? x : std::max(max, x);
  ++count;
  integers += x == std::floor(x);
  const double before = x - mean;
  mean += before / static_cast<double>(count);
  squares += before * (x - mean);
  quantiles.Add(x);
}

void NumberStats::Merge(const NumberStats& other) {
  quantiles.Merge(other.quantiles);
  if (other.count == 0) return;
  const double a = static_cast<double>(count), b = static_cast<double>(other.count);
  const double apart = other.mean - mean;
  mean += apart * b / (a + b);
  squares += other.squares + apart * apart * a * b / (a + b);
  min = count == 0 ? other.min : std::min(min, other.min);
  max = count == 0 ? other.max : std::max(max, other.max);
  count += other.count;
  integers += other.integers;
}

double NumberStats::deviation() const {
  return count < 2 ? 0 : std::sqrt(squares / static_cast<double>(count));
}

void CommaStats::Add(absl::string_view cell) {
  const size_t comma = cell.find(',');
  absl::string_view whole = cell.substr(0, comma), behind = cell.substr(comma + 1);
  if (!whole.empty() && !absl::ascii_isdigit(static_cast<unsigned char>(whole[0]))) {
    whole.remove_prefix(1);
  }
  const int64_t digits = static_cast<int64_t>(behind.size());
  const bool leads_with_zero = whole.empty() || whole[0] == '0';
  no_thousands += digits != 3 || whole.size() > 3 || leads_with_zero;
  no_pairs += (digits > 1 && behind[0] == '0') || (leads_with_zero && whole.size() != 1);
  digits_min = count == 0 ? digits : std::min(digits_min, digits);
  digits_max = std::max(digits_max, digits);
  ++count;
}

void CommaStats::Merge(const CommaStats& other) {
  if (other.count == 0) return;
  digits_min = count == 0 ? other.digits_min : std::min(digits_min, other.digits_min);
  digits_max = std::max(digits_max, other.digits_max);
  no_thousands += other.no_thousands;
  no_pairs += other.no_pairs;
  count += other.count;
}

}  // namespace rubato
