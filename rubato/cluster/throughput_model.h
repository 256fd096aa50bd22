// How fast a job would run where nobody has measured it.
//
//   seconds per iteration = compute / n + bytes (n-1)/n + steps log2 n + far (n-1)/n + fixed
//                           └ work ┘    └ ring within a node ┘   └ between nodes ┘
//
// on n GPUs, "far" only once they reach beyond a node. The five coefficients are not negative and
// fitted to what was measured by least squares of relative errors, so two points suffice for a
// first guess; each real run corrects it. Every answer has error bars, and admission plans with
// the lower one. Not thread-safe.
#ifndef RUBATO_CLUSTER_THROUGHPUT_MODEL_H_
#define RUBATO_CLUSTER_THROUGHPUT_MODEL_H_

#include <array>
#include <map>
#include <utility>

#include "absl/types/span.h"
#include "rubato/cluster/curve.h"

namespace rubato {

struct RateEstimate {
  double rate = 0;  // Iterations per second.
  double low = 0;   // About two standard errors below,
  double high = 0;  // and above.
};

class ThroughputModel {
 public:
  struct Options {
    double noise = 0.02;  // Relative standard error of a single measurement.
    double memory = 8;    // How many measurements of one place an old one is worth at most.
  };
  ThroughputModel() : ThroughputModel(Options{}) {}
  explicit ThroughputModel(const Options& options) : options_(options) {}

  // A measured rate, from a profile or a run. Those of one place (count and span) are averaged,
  // recent ones counting more. Rates that are not positive, or counts below 1, are ignored.
  void Observe(int gpus, Span span, double rate);

  // Zeros before the first observation. After one only, work is taken to scale without loss, and
  // the bars are wide.
  RateEstimate Predict(int gpus, Span span) const;

  // A curve of `sizes`, each at the tightest span it can have on nodes of `gpus_per_node`: the
  // estimate, or the lower error bar if `cautious`.
  Curve ToCurve(absl::Span<const int> sizes, int gpus_per_node, bool cautious) const;

  static constexpr int kTerms = 5;
  using Terms = std::array<double, kTerms>;
  const Terms& coefficients() const { return fit_.coefficients; }

 private:
  struct Mean {
    double rate = 0;
    double weight = 0;  // In measurements.
  };
  struct Fit {
    Terms coefficients{};
    std::array<Terms, kTerms> covariance{};  // Of the coefficients.
    double error = 0;                        // Relative standard error of a place.
  };
  void Refit();

  Options options_;
  std::map<std::pair<int, Span>, Mean> measured_;
  Fit fit_;
};

}  // namespace rubato

#endif  // RUBATO_CLUSTER_THROUGHPUT_MODEL_H_
