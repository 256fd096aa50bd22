// Chance, handed in: a small generator whose stream is the same on every machine, and the mixing
// function behind it, for values that must be a function of their name alone.
#ifndef RUBATO_BASE_RNG_H_
#define RUBATO_BASE_RNG_H_

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace rubato {

// A bijection of 64 bits in which every input bit moves every output bit (splitmix64's finisher).
constexpr uint64_t Mix(uint64_t x) {
  x += 0x9e3779b97f4a7c15u;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

// A seed for a part of something seeded: Mix(seed, epoch), Mix(Mix(seed, epoch), task).
constexpr uint64_t Mix(uint64_t seed, uint64_t part) { return Mix(Mix(seed) ^ part); }

// xoshiro256**. Copyable: a copy continues with the same stream.
class Rng {
 public:
  explicit Rng(uint64_t seed);

  uint64_t Next();
  // Uniform over [0, n), without bias. n > 0.
  uint64_t Below(uint64_t n);
  // Uniform over [0, 1), 53 bits.
  double Uniform();
  double Uniform(double low, double high) { return low + (high - low) * Uniform(); }
  // Standard normal (Box-Muller, both values used).
  double Normal();
  // Exponential with the given mean.
  double Exponential(double mean);
  bool Chance(double probability) { return Uniform() < probability; }

  template <typename T>
  void Shuffle(std::vector<T>& items) {
    for (std::size_t i = items.size(); i > 1; --i) std::swap(items[i - 1], items[Below(i)]);
  }

 private:
  uint64_t state_[4];
  double spare_ = 0;
  bool has_spare_ = false;
};

}  // namespace rubato

#endif  // RUBATO_BASE_RNG_H_
