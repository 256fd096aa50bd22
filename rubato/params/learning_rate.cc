#include "rubato/params/learning_rate.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace rubato {
namespace {

// What is left of the rate after `samples` samples beyond the warm-up.
double Shape(const ScheduleSpec& schedule, int64_t samples) {
  if (schedule.name == "constant") return 1;
  if (schedule.name == "step") {
    return std::pow(schedule.factor, static_cast<double>(samples / schedule.samples));
  }
  const double done =
      std::min(1.0, static_cast<double>(samples) / static_cast<double>(schedule.samples));
  double left = 1 - done;  // linear
  if (schedule.name == "polynomial") left = std::pow(left, schedule.power);
  if (schedule.name == "cosine") left = (1 + std::cos(std::numbers::pi * done)) / 2;
  return schedule.end + (1 - schedule.end) * left;
}

}  // namespace

double LearningRateAt(const OptimizerSpec& spec, int64_t samples) {
  const ScheduleSpec& schedule = spec.schedule;
  if (samples < schedule.warmup) {
    return spec.learning_rate * static_cast<double>(samples + 1) /
           static_cast<double>(schedule.warmup);
  }
  return spec.learning_rate * Shape(schedule, samples - schedule.warmup);
}

double BatchFactor(BatchRule rule, double ratio) {
  if (rule == BatchRule::kKeep) return 1;
  return rule == BatchRule::kLinear ? ratio : std::sqrt(ratio);
}

double PhaseIn(double before, double after, int64_t samples, int64_t warmup) {
  if (after <= before || samples >= warmup) return after;
  return before + (after - before) * static_cast<double>(samples) / static_cast<double>(warmup);
}

void ClipGradient(const OptimizerSpec& spec, absl::Span<const absl::Span<float>> parts) {
  if (const auto most = static_cast<float>(spec.clip_value); most > 0) {
    for (const absl::Span<float> part : parts) {
      for (float& g : part) {
        if (std::isfinite(g)) g = std::clamp(g, -most, most);
      }
    }
  }
  if (spec.clip_norm == 0) return;
  double squares = 0;
  for (const absl::Span<float> part : parts) {
    for (const float g : part) squares += static_cast<double>(g) * g;
  }
  const double norm = std::sqrt(squares);
  if (!(norm > spec.clip_norm) || !std::isfinite(norm)) return;
  const auto scale = static_cast<float>(spec.clip_norm / norm);
  for (const absl::Span<float> part : parts) {
    for (float& g : part) g *= scale;
  }
}

}  // namespace rubato
