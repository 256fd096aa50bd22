#include "rubato/schedule/fill.h"

#include <algorithm>

namespace rubato {
namespace {

constexpr double kRounding = 1e-9;  // Relative; sums of products are not exact.

// Takes `gpus_at(i)` GPUs of every step i from `from_s` on, until the work is done or `until_s` is
// reached. What is taken is put into `pieces` first, since taking it cuts the steps.
template <typename GpusAt>
Filling Take(const FillRequest& request, Profile& profile, double until_s, GpusAt gpus_at) {
  absl::InlinedVector<Profile::Piece, 64> taken;
  Filling filling;
  double left = request.work;
  for (size_t i = profile.Find(request.from_s); i < profile.size(); ++i) {
    const double from_s = std::max(request.from_s, profile.steps()[i].from_s);
    if (from_s >= until_s) break;
    const int gpus = gpus_at(i);
    if (taken.empty() && from_s == request.from_s) filling.first_gpus = gpus;
    if (gpus == 0) continue;
    const double rate = request.curve->Rate(gpus);
    double to_s = std::min(profile.EndOf(i), until_s);
    const bool ends = to_s == kNever || left <= rate * (to_s - from_s) * (1 + kRounding);
    if (ends) to_s = std::min(to_s, from_s + left / rate);
    taken.push_back({from_s, to_s, gpus});
    filling.gpu_seconds += gpus * (to_s - from_s);
    filling.end_s = to_s;
    left -= rate * (to_s - from_s);
    if (!ends) continue;
    filling.in_time = to_s <= request.deadline_s;
    break;
  }
  profile.Take(taken);
  return filling;
}

}  // namespace

Filling FillByLevels(const FillRequest& request, Profile& profile) {
  const Curve& curve = *request.curve;
  const int cap = request.max_gpus > 0 ? request.max_gpus : curve.peak_gpus();
  if (request.deadline_s <= request.from_s) return {};
  const size_t first = profile.Find(request.from_s);
  const size_t last = profile.Find(request.deadline_s);
  int below = 0;
  for (const CurvePoint& point : curve.useful()) {
    if (point.gpus > cap) break;
    // Not even if this many were free all the time; the margin is beyond what sums are off by.
    if (point.rate * (request.deadline_s - request.from_s) * (1 + 1e3 * kRounding) < request.work) {
      below = point.gpus;
      continue;
    }
    double gathered = 0, to_s = request.deadline_s;
    for (size_t i = last + 1; i-- > first;) {
      const double from_s = std::max(request.from_s, profile.steps()[i].from_s);
      const int free = profile.steps()[i].free;
      const double rate = free >= point.gpus ? point.rate : curve.Rate(curve.UsefulAtMost(free));
      gathered += rate * (to_s - from_s);
      if (gathered * (1 + kRounding) >= request.work) {
        const int level = point.gpus;
        return Take(request, profile, request.deadline_s, [&](size_t k) {
          const int most = k >= i ? level : below;
          return curve.UsefulAtMost(std::min(most, profile.steps()[k].free));
        });
      }
      to_s = from_s;
    }
    below = point.gpus;
  }
  return {};
}

Filling FillEarly(const FillRequest& request, Profile& profile) {
  const Curve& curve = *request.curve;
  const int cap = request.max_gpus > 0 ? request.max_gpus : curve.peak_gpus();
  return Take(request, profile, kNever,
              [&](size_t i) { return curve.LegalAtMost(std::min(cap, profile.steps()[i].free)); });
}

}  // namespace rubato
