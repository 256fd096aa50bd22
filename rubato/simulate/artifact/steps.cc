#include "rubato/simulate/artifact/steps.h"

#include <algorithm>

namespace rubato {

size_t ArtifactSteps::LowerBound(double at) const {
  const auto found =
      std::lower_bound(steps_.begin(), steps_.end(), at,
                       [](const ArtifactStep& step, double t) { return step.at < t; });
  return static_cast<size_t>(found - steps_.begin());
}

bool ArtifactSteps::Has(double at) const {
  const size_t i = LowerBound(at);
  return i < steps_.size() && steps_[i].at == at;
}

int ArtifactSteps::Get(double at) const {
  const size_t i = LowerBound(at);
  return i < steps_.size() && steps_[i].at == at ? steps_[i].value : 0;
}

void ArtifactSteps::Set(double at, int value) {
  const size_t i = LowerBound(at);
  if (i < steps_.size() && steps_[i].at == at) {
    steps_[i].value = value;
  } else {
    steps_.insert(steps_.begin() + static_cast<ptrdiff_t>(i), {at, value});
  }
}

int ArtifactSteps::Holding(double at, int before) const {
  size_t i = LowerBound(at);
  if (i < steps_.size() && steps_[i].at == at) return steps_[i].value;
  return i == 0 ? before : steps_[i - 1].value;
}

void ArtifactSteps::Merge() {
  const auto same = [](const ArtifactStep& a, const ArtifactStep& b) { return a.value == b.value; };
  steps_.erase(std::unique(steps_.begin(), steps_.end(), same), steps_.end());
}

double ArtifactSteps::Area(double end) const {
  double area = 0;
  for (size_t i = 0; i + 1 < steps_.size(); ++i) {
    area += steps_[i].value * (steps_[i + 1].at - steps_[i].at);
  }
  if (!steps_.empty()) area += steps_.back().value * (end - steps_.back().at);
  return area;
}

}  // namespace rubato
