#include "rubato/cluster/throughput_model.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <optional>
#include <vector>

namespace rubato {
namespace {

constexpr int kTerms = ThroughputModel::kTerms;
using Terms = ThroughputModel::Terms;
using Matrix = std::array<Terms, kTerms>;

// What could be wrong where nothing like it was measured, as relative standard errors.
constexpr double kUnseenReach = 0.7;      // No place within, or none beyond, a node.
constexpr double kPerDoublingOut = 0.08;  // For each doubling outside the measured counts.
constexpr double kSinglePoint = 0.3;      // Two coefficients guessed from one number.

bool Far(Span span) { return span >= Span::kRack; }

Terms TermsOf(int gpus, Span span) {
  const double n = gpus, ring = (n - 1) / n;
  return {1 / n, ring, std::log2(n), Far(span) ? ring : 0, 1};
}

double Dot(const Terms& a, const Terms& b) {
  double sum = 0;
  for (size_t i = 0; i < kTerms; ++i) sum += a[i] * b[i];
  return sum;
}

// The inverse of the part of `a` that `chosen` picks, by Gauss-Jordan; nothing if it is singular.
std::optional<Matrix> Invert(Matrix a, unsigned chosen) {
  Matrix inverse{};
  for (size_t i = 0; i < kTerms; ++i) inverse[i][i] = chosen >> i & 1;
  for (size_t i = 0; i < kTerms; ++i) {
    if (!(chosen >> i & 1)) continue;
    if (a[i][i] < 1e-9) return std::nullopt;  // Rows are relative, so 1 is the natural scale.
    const double pivot = a[i][i];
    for (size_t j = 0; j < kTerms; ++j) {
      a[i][j] /= pivot;
      inverse[i][j] /= pivot;
    }
    for (size_t k = 0; k < kTerms; ++k) {
      if (k == i || !(chosen >> k & 1)) continue;
      const double factor = a[k][i];
      for (size_t j = 0; j < kTerms; ++j) {
        a[k][j] -= factor * a[i][j];
        inverse[k][j] -= factor * inverse[i][j];
      }
    }
  }
  return inverse;
}

struct Row {
  Terms terms;    // Divided by the measured time, so that the model should give 1.
  double weight;  // In measurements.
};

struct Candidate {
  Terms coefficients{};
  Matrix inverse{};
  double squares = 0;
  int terms = 0;
};

// Least squares with the chosen terms alone; nothing if that is singular or goes below zero.
std::optional<Candidate> Solve(const std::vector<Row>& rows, unsigned chosen) {
  Matrix normal{};
  Terms right{};
  for (const Row& row : rows) {
    for (size_t i = 0; i < kTerms; ++i) {
      if (!(chosen >> i & 1)) continue;
      right[i] += row.weight * row.terms[i];
      for (size_t j = 0; j < kTerms; ++j) {
        if (chosen >> j & 1) normal[i][j] += row.weight * row.terms[i] * row.terms[j];
      }
    }
  }
  const std::optional<Matrix> inverse = Invert(normal, chosen);
  if (!inverse) return std::nullopt;
  Candidate candidate{.inverse = *inverse, .terms = std::popcount(chosen)};
  for (size_t i = 0; i < kTerms; ++i) {
    candidate.coefficients[i] = Dot((*inverse)[i], right);
    if (candidate.coefficients[i] < 0) return std::nullopt;
  }
  for (const Row& row : rows) {
    const double miss = Dot(candidate.coefficients, row.terms) - 1;
    candidate.squares += row.weight * miss * miss;
  }
  return candidate;
}

}  // namespace

void ThroughputModel::Observe(int gpus, Span span, double rate) {
  if (gpus < 1 || !(rate > 0) || !std::isfinite(rate)) return;
  Mean& mean = measured_[{gpus, span}];
  mean.weight = std::min(mean.weight, options_.memory - 1) + 1;
  mean.rate += (rate - mean.rate) / mean.weight;
  Refit();
}

// The best non-negative solution is the plain one on its own support, and of five terms there are
// but 31 supports: all are tried. A further term must earn its place, or noise would choose it.
void ThroughputModel::Refit() {
  std::vector<Row> rows;
  for (const auto& [place, mean] : measured_) {
    Terms terms = TermsOf(place.first, place.second);
    for (double& term : terms) term *= mean.rate;
    rows.push_back({terms, mean.weight});
  }
  const double noise2 = options_.noise * options_.noise;
  std::optional<Candidate> best;
  double best_cost = 0;
  for (unsigned chosen = 1; chosen < 1u << kTerms; ++chosen) {
    if (std::popcount(chosen) > static_cast<int>(rows.size())) continue;
    std::optional<Candidate> candidate = Solve(rows, chosen);
    if (!candidate) continue;
    const double cost = candidate->squares / noise2 + 2 * candidate->terms;
    if (best && cost >= best_cost - 1e-9) continue;
    best = candidate;
    best_cost = cost;
  }
  if (!best) return;
  const double freedom = static_cast<double>(rows.size()) - best->terms;
  const double variance = std::max(noise2, freedom > 0 ? best->squares / freedom : noise2);
  fit_.coefficients = best->coefficients;
  fit_.error = std::sqrt(variance);
  for (size_t i = 0; i < kTerms; ++i) {
    for (size_t j = 0; j < kTerms; ++j) fit_.covariance[i][j] = variance * best->inverse[i][j];
  }
}

RateEstimate ThroughputModel::Predict(int gpus, Span span) const {
  if (measured_.empty() || gpus < 1) return {};
  const Terms terms = TermsOf(gpus, span);
  const double seconds = Dot(fit_.coefficients, terms);
  if (!(seconds > 0)) return {};
  double variance = 0;
  for (size_t i = 0; i < kTerms; ++i) variance += terms[i] * Dot(fit_.covariance[i], terms);
  variance /= seconds * seconds;
  if (measured_.size() == 1) variance += kSinglePoint * kSinglePoint;
  bool reach = gpus == 1;
  for (const auto& [place, mean] : measured_) {
    reach = reach || (place.first > 1 && Far(place.second) == Far(span));
  }
  if (!reach) variance += kUnseenReach * kUnseenReach;
  const int least = measured_.begin()->first.first, most = measured_.rbegin()->first.first;
  const double out = std::max({0.0, std::log2(static_cast<double>(gpus) / most),
                               std::log2(static_cast<double>(least) / gpus)});
  variance += std::pow(kPerDoublingOut * out, 2) + 1e-12;
  double rate = 1 / seconds;
  // A place that was measured is believed as far as its own measurements go.
  if (const auto at = measured_.find({gpus, span}); at != measured_.end()) {
    const double own = options_.noise * options_.noise / at->second.weight;
    const double model = std::max(variance, fit_.error * fit_.error);
    rate = (rate * own + at->second.rate * model) / (own + model);
    variance = own * model / (own + model);
  }
  const double bar = 2 * std::sqrt(variance);
  return {.rate = rate, .low = rate / (1 + bar), .high = bar < 0.9 ? rate / (1 - bar) : 10 * rate};
}

Curve ThroughputModel::ToCurve(absl::Span<const int> sizes, int gpus_per_node,
                               bool cautious) const {
  std::vector<CurvePoint> points;
  for (int gpus : sizes) {
    const Span span = gpus == 1 ? Span::kGpu : gpus <= gpus_per_node ? Span::kNode : Span::kRack;
    const RateEstimate estimate = Predict(gpus, span);
    points.push_back({gpus, cautious ? estimate.low : estimate.rate});
  }
  return Curve(std::move(points));
}

}  // namespace rubato
