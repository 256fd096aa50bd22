// A curve for counts and placements nobody measured: time per iteration as compute that is shared
// out plus synchronisation that is not, fitted to a few measured points.
//
//     seconds(n, span) = compute / n + fixed + per_doubling x log2(n) + per_worker x (n - 1)
//                        + beyond_node x [more than one node]
//
// All coefficients are at least zero (non-negative least squares, weighted by 1 / time, so that
// errors are relative). One point fixes `compute`; each further one refines the rest.
#ifndef RUBATO_CLUSTER_CURVE_FIT_H_
#define RUBATO_CLUSTER_CURVE_FIT_H_

#include <array>
#include <vector>

#include "absl/status/statusor.h"
#include "rubato/cluster/curve.h"

namespace rubato {

struct Measured {
  int gpus = 1;
  Span span = Span::kGpu;
  double rate = 0;    // Iterations per second.
  double weight = 1;  // How many measurements it stands for.
};

struct Predicted {
  double rate = 0;
  double low = 0, high = 0;  // Where the true rate lies about nineteen times in twenty.
};

// Holds what was measured, so that real throughput corrects it as it arrives: where a count was
// measured, measurements and model are weighed against each other.
class CurveFit {
 public:
  // INVALID_ARGUMENT if there is no point or one has no positive count and rate.
  static absl::StatusOr<CurveFit> Fit(std::vector<Measured> points);

  // Takes in one more measurement and fits again.
  absl::Status Add(const Measured& point);

  Predicted Predict(int gpus, Span span) const;
  // Predicted rates at these counts, for planners; `cautious` takes the low ends.
  Curve ToCurve(const std::vector<int>& counts, int gpus_per_node, bool cautious) const;

 private:
  static constexpr int kTerms = 5;
  using Terms = std::array<double, kTerms>;

  static Terms TermsOf(int gpus, Span span);
  double Seconds(int gpus, Span span) const;
  void Refit();

  std::vector<Measured> points_;
  Terms coefficients_{};
  double relative_error_ = 0;  // Of a prediction, one standard deviation.
};

// min |A x - b| subject to x >= 0, rows of A and b weighted already (coordinate descent; for a
// handful of unknowns).
std::vector<double> NonNegativeLeastSquares(const std::vector<std::vector<double>>& a,
                                            const std::vector<double>& b);

}  // namespace rubato

#endif  // RUBATO_CLUSTER_CURVE_FIT_H_
