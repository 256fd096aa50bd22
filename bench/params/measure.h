// What the programs here share: clocks, keys to draw, and numbers as JSON.
#ifndef RUBATO_BENCH_PARAMS_MEASURE_H_
#define RUBATO_BENCH_PARAMS_MEASURE_H_

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "rubato/base/rng.h"

namespace rubato::bench {

inline double Seconds(clockid_t clock) {
  timespec now{};
  clock_gettime(clock, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}
inline double ThreadCpu() { return Seconds(CLOCK_THREAD_CPUTIME_ID); }
inline double Wall() { return Seconds(CLOCK_MONOTONIC); }

inline double Median(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + static_cast<int64_t>(values.size() / 2),
                   values.end());
  return values[values.size() / 2];
}

inline double Quantile(std::vector<double> values, double q) {
  if (values.empty()) return 0;
  const auto at = static_cast<int64_t>(q * static_cast<double>(values.size() - 1));
  std::nth_element(values.begin(), values.begin() + at, values.end());
  return values[static_cast<size_t>(at)];
}

// Ranks 0 to n-1: all alike, or with probability falling as rank^-s (s > 1, by inversion).
inline uint64_t DrawUniform(Rng& rng, uint64_t n) { return rng.Below(n); }
inline uint64_t DrawZipf(Rng& rng, uint64_t n, double s) {
  const double top = std::pow(static_cast<double>(n), 1 - s);
  const double x = std::pow((top - 1) * rng.Uniform() + 1, 1 / (1 - s));
  return std::min(n - 1, static_cast<uint64_t>(x) - 1);
}

// Ends the program unless all it was told is `--name N` for these names.
inline void CheckFlags(int argc, char** argv, const std::vector<std::string>& names) {
  bool known = argc % 2 == 1;
  for (int i = 1; i < argc; i += 2) {
    known &= std::find_if(names.begin(), names.end(), [&](const std::string& name) {
               return argv[i] == "--" + name;
             }) != names.end();
  }
  if (known) return;
  std::fprintf(stderr, "usage: %s", argv[0]);
  for (const std::string& name : names) std::fprintf(stderr, " [--%s N]", name.c_str());
  std::fprintf(stderr, "\n");
  std::exit(2);
}

// The value of `--name N`, or `otherwise`.
inline double Flag(int argc, char** argv, const std::string& name, double otherwise) {
  for (int i = 1; i + 1 < argc; ++i) {
    if (argv[i] == "--" + name) return std::atof(argv[i + 1]);
  }
  return otherwise;
}

// Collects "key": value pairs and nested objects, in order.
class Json {
 public:
  Json& Number(const std::string& key, double value) {
    return Raw(key, std::isfinite(value) ? absl::StrFormat("%.4g", value) : "null");
  }
  Json& Object(const std::string& key, const Json& value) { return Raw(key, value.Text()); }
  std::string Text() const { return "{" + fields_ + "}"; }

 private:
  Json& Raw(const std::string& key, const std::string& value) {
    absl::StrAppend(&fields_, fields_.empty() ? "" : ", ", "\"", key, "\": ", value);
    return *this;
  }
  std::string fields_;
};

}  // namespace rubato::bench

#endif  // RUBATO_BENCH_PARAMS_MEASURE_H_
