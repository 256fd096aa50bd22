#include "rubato/cluster/curve.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"

namespace rubato {
Curve::Curve(std::vector<CurvePoint> points) : points_(std::move(points)) {
  std::erase_if(points_, [](const CurvePoint& p) { return !(p.rate > 0) || p.gpus <= 0; });
  std::sort(points_.begin(), points_.end(),
            [](const CurvePoint& a, const CurvePoint& b) { return a.gpus < b.gpus; });
  rates_.assign(static_cast<size_t>(max_gpus()) + 1, 0);
  for (const CurvePoint& point : points_) {
    const size_t gpus = static_cast<size_t>(point.gpus);
    rates_[gpus] = point.rate;
    // Up to this size what the one before it says holds.
    legal_at_most_.resize(gpus, legal_at_most_.empty() ? 0 : legal_at_most_.back());
    useful_at_most_.resize(gpus, useful_at_most_.empty() ? 0 : useful_at_most_.back());
    if (useful_.empty() || point.rate > useful_.back().rate) useful_.push_back(point);
    legal_at_most_.push_back(point.gpus);
    useful_at_most_.push_back(useful_.back().gpus);
  }
}

Curve Curve::Linear(double rate_per_gpu, int gpus_max) {
  std::vector<CurvePoint> points;
  for (int gpus = 1; gpus <= gpus_max; ++gpus) points.push_back({gpus, rate_per_gpu * gpus});
  return Curve(std::move(points));
}

void Curve::Limit(int gpus, Span span, double rate) {
  if (!Legal(gpus)) return;
  if (by_span_.empty()) {
    for (double tightest : rates_) by_span_.emplace_back().fill(tightest);
  }
  for (size_t far = static_cast<size_t>(span); far < kSpans; ++far) {
    double& limit = by_span_[static_cast<size_t>(gpus)][far];
    limit = std::min(limit, rate);
  }
}

int Curve::LegalAtLeast(int gpus) const {
  if (gpus <= min_gpus()) return min_gpus();
  const auto at = std::lower_bound(points_.begin(), points_.end(), gpus,
                                   [](const CurvePoint& p, int want) { return p.gpus < want; });
  return at == points_.end() ? 0 : at->gpus;
}

int Curve::UsefulAfter(int gpus) const {
  for (const CurvePoint& point : useful_) {
    if (point.gpus > gpus) return point.gpus;
  }
  return gpus;
}

void CurveBook::Add(absl::string_view model, int batch_size, absl::string_view gpu_type,
                    Curve curve) {
  curves_[{std::string(gpu_type), std::string(model), batch_size}] = std::move(curve);
}

const Curve* CurveBook::Find(absl::string_view model, int batch_size,
                             absl::string_view gpu_type) const {
  const auto at = curves_.find({std::string(gpu_type), std::string(model), batch_size});
  return at == curves_.end() ? nullptr : &at->second;
}

bool CurveBook::Knows(absl::string_view gpu_type) const {
  const auto at = curves_.lower_bound({std::string(gpu_type), "", 0});
  return at != curves_.end() && std::get<0>(at->first) == gpu_type;
}

std::string CurveBook::Known(absl::string_view gpu_type) const {
  std::string text, last;
  for (const auto& [key, curve] : curves_) {
    const auto& [type, model, batch] = key;
    if (type != gpu_type) continue;
    if (model != last) absl::StrAppend(&text, text.empty() ? "" : "; ", model, ":");
    absl::StrAppend(&text, " ", batch);
    last = model;
  }
  return text;
}

}  // namespace rubato
