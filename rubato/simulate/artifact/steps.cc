#include "rubato/simulate/artifact/steps.h"

#include <algorithm>

namespace rubato::artifact {

size_t Steps::LowerBound(double at) const {
  const auto found = std::lower_bound(steps_.begin(), steps_.end(), at,
                                      [](const Step& step, double t) { return step.at < t; });
  return static_cast<size_t>(found - steps_.begin());
}

bool Steps::Has(double at) const {
  const size_t i = LowerBound(at);
  return i < steps_.size() && steps_[i].at == at;
}

int Steps::Get(double at) const {
  const size_t i = LowerBound(at);
  return i < steps_.size() && steps_[i].at == at ? steps_[i].value : 0;
}

void Steps::Set(double at, int value) {
  const size_t i = LowerBound(at);
  if (i < steps_.size() && steps_[i].at == at) {
    steps_[i].value = value;
  } else {
    steps_.insert(steps_.begin() + static_cast<ptrdiff_t>(i), {at, value});
  }
}

int Steps::Holding(double at, int before) const {
  size_t i = LowerBound(at);
  if (i < steps_.size() && steps_[i].at == at) return steps_[i].value;
  return i == 0 ? before : steps_[i - 1].value;
}

void Steps::Merge() {
  const auto same = [](const Step& a, const Step& b) { return a.value == b.value; };
  steps_.erase(std::unique(steps_.begin(), steps_.end(), same), steps_.end());
}

double Steps::Area(double end) const {
  double area = 0;
  for (size_t i = 0; i + 1 < steps_.size(); ++i) {
    area += steps_[i].value * (steps_[i + 1].at - steps_[i].at);
  }
  if (!steps_.empty()) area += steps_.back().value * (end - steps_.back().at);
  return area;
}

}  // namespace rubato::artifact
