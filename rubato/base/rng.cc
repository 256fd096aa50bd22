#include "rubato/base/rng.h"

#include <bit>
#include <cmath>
#include <numbers>

namespace rubato {

Rng::Rng(uint64_t seed) {
  for (uint64_t& word : state_) word = Mix(seed++);
}

uint64_t Rng::Next() {
  const uint64_t result = std::rotl(state_[1] * 5, 7) * 9;
  const uint64_t t = state_[1] << 17;
  state_[2] ^= state_[0];
  state_[3] ^= state_[1];
  state_[1] ^= state_[2];
  state_[0] ^= state_[3];
  state_[2] ^= t;
  state_[3] = std::rotl(state_[3], 45);
  return result;
}

uint64_t Rng::Below(uint64_t n) {
  // Lemire's method: multiply, and redraw in the rare short lower part.
  unsigned __int128 product = static_cast<unsigned __int128>(Next()) * n;
  if (static_cast<uint64_t>(product) < n) {
    const uint64_t threshold = -n % n;
    while (static_cast<uint64_t>(product) < threshold) {
      product = static_cast<unsigned __int128>(Next()) * n;
    }
  }
  return static_cast<uint64_t>(product >> 64);
}

double Rng::Uniform() { return static_cast<double>(Next() >> 11) * 0x1.0p-53; }

double Rng::Normal() {
  if (has_spare_) {
    has_spare_ = false;
    return spare_;
  }
  const double radius = std::sqrt(-2 * std::log(1 - Uniform()));
  const double angle = 2 * std::numbers::pi * Uniform();
  spare_ = radius * std::sin(angle);
  has_spare_ = true;
  return radius * std::cos(angle);
}

double Rng::Exponential(double mean) { return -mean * std::log(1 - Uniform()); }

}  // namespace rubato
