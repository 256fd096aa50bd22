#include "rubato/cluster/curve_fit.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_format.h"

namespace rubato {
namespace {

constexpr int kSweeps = 2000;
constexpr double kConverged = 1e-12;
constexpr double kFewPointsError = 0.10;  // What a model that fits its points exactly may be off.
constexpr double kTwoSigma = 1.96;

absl::Status CheckPoint(const Measured& point) {
  if (point.gpus > 0 && point.rate > 0 && point.weight > 0) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrFormat(
      "a measurement of %g iterations/s on %d GPUs, weight %g; all must be positive", point.rate,
      point.gpus, point.weight));
}

}  // namespace

std::vector<double> NonNegativeLeastSquares(const std::vector<std::vector<double>>& a,
                                            const std::vector<double>& b) {
  const size_t terms = a.empty() ? 0 : a[0].size();
  std::vector<double> x(terms, 0), residual = b;
  for (int sweep = 0; sweep < kSweeps; ++sweep) {
    double moved = 0;
    for (size_t j = 0; j < terms; ++j) {
      double along = 0, norm = 0;
      for (size_t i = 0; i < a.size(); ++i) {
        along += a[i][j] * residual[i];
        norm += a[i][j] * a[i][j];
      }
      if (norm == 0) continue;
      const double next = std::max(0.0, x[j] + along / norm);
      const double step = next - x[j];
      if (step == 0) continue;
      for (size_t i = 0; i < a.size(); ++i) residual[i] -= a[i][j] * step;
      x[j] = next;
      moved = std::max(moved, std::abs(step) * std::sqrt(norm));
    }
    if (moved < kConverged) break;
  }
  return x;
}

CurveFit::Terms CurveFit::TermsOf(int gpus, Span span) {
  return {1.0 / gpus, 1.0, std::log2(static_cast<double>(gpus)), gpus - 1.0,
          span >= Span::kRack ? 1.0 : 0.0};
}

absl::StatusOr<CurveFit> CurveFit::Fit(std::vector<Measured> points) {
  if (points.empty()) return absl::InvalidArgumentError("a curve needs at least one measurement");
  for (const Measured& point : points) {
    if (absl::Status s = CheckPoint(point); !s.ok()) return s;
  }
  CurveFit fit;
  fit.points_ = std::move(points);
  fit.Refit();
  return fit;
}

absl::Status CurveFit::Add(const Measured& point) {
  if (absl::Status s = CheckPoint(point); !s.ok()) return s;
  points_.push_back(point);
  Refit();
  return absl::OkStatus();
}

void CurveFit::Refit() {
  std::vector<std::vector<double>> a;
  std::vector<double> b;
  for (const Measured& point : points_) {
    // Relative errors: time x rate is 1.
    const double scale = point.rate * std::sqrt(point.weight);
    std::vector<double> row;
    for (double term : TermsOf(point.gpus, point.span)) row.push_back(term * scale);
    a.push_back(std::move(row));
    b.push_back(std::sqrt(point.weight));
  }
  const std::vector<double> x = NonNegativeLeastSquares(a, b);
  std::copy(x.begin(), x.end(), coefficients_.begin());
  double squares = 0, weight = 0;
  for (const Measured& point : points_) {
    const double error = Seconds(point.gpus, point.span) * point.rate - 1;
    squares += point.weight * error * error;
    weight += point.weight;
  }
  const double used = static_cast<double>(
      std::count_if(x.begin(), x.end(), [](double value) { return value > 0; }));
  const double freedom = std::max(1.0, static_cast<double>(points_.size()) - used);
  const double spread = std::sqrt(squares / weight * static_cast<double>(points_.size()) / freedom);
  // Points that the model passes through say nothing of its error elsewhere.
  const double prior = kFewPointsError / std::sqrt(freedom);
  relative_error_ = std::hypot(spread, prior);
}

double CurveFit::Seconds(int gpus, Span span) const {
  double seconds = 0;
  const Terms terms = TermsOf(gpus, span);
  for (size_t i = 0; i < terms.size(); ++i) seconds += coefficients_[i] * terms[i];
  return seconds;
}

Predicted CurveFit::Predict(int gpus, Span span) const {
  double rate = 1 / Seconds(gpus, span), error = relative_error_;
  double measured = 0, weight = 0, nearest = 1e9;
  for (const Measured& point : points_) {
    nearest = std::min(nearest, std::abs(std::log2(static_cast<double>(gpus) / point.gpus)));
    if (point.gpus != gpus || point.span != span) continue;
    measured += point.weight * point.rate;
    weight += point.weight;
  }
  if (weight > 0) {
    // The model counts as one measurement.
    rate = (measured + rate) / (weight + 1);
    error /= std::sqrt(weight + 1);
  } else {
    error *= 1 + nearest;  // Each doubling away from what was measured is as uncertain again.
  }
  return {rate, rate / (1 + kTwoSigma * error), rate * (1 + kTwoSigma * error)};
}

Curve CurveFit::ToCurve(const std::vector<int>& counts, int gpus_per_node, bool cautious) const {
  std::vector<CurvePoint> points;
  for (int gpus : counts) {
    const Span span = gpus <= 1 ? Span::kGpu : gpus <= gpus_per_node ? Span::kNode : Span::kRack;
    const Predicted predicted = Predict(gpus, span);
    points.push_back({gpus, cautious ? predicted.low : predicted.rate});
  }
  return Curve(std::move(points));
}

}  // namespace rubato
