// What may become of bytes on a disk or from a stranger: for tests that read them all the same.
#ifndef RUBATO_PARAMS_DAMAGE_TESTING_H_
#define RUBATO_PARAMS_DAMAGE_TESTING_H_

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <iterator>
#include <string>

#include "rubato/base/rng.h"

namespace rubato {

// By seed.
class Damage {
 public:
  explicit Damage(uint64_t seed) : rng(seed) {}

  // In up to four places; at times with what stands in `other`.
  void Harm(std::string* bytes, const std::string& other) {
    for (uint64_t n = 1 + rng.Below(4); n > 0; --n) HarmOnce(bytes, other);
  }
  std::string Piece(const std::string& bytes) {
    if (bytes.empty()) return "";
    const size_t at = rng.Below(bytes.size());
    return bytes.substr(at, 1 + rng.Below(64));
  }

  Rng rng;

 private:
  void HarmOnce(std::string* bytes, const std::string& other) {
    if (bytes->empty()) {
      *bytes = Piece(other);
      return;
    }
    const size_t at = Place(*bytes);
    switch (rng.Below(8)) {
      case 0:
        (*bytes)[at] ^= static_cast<char>(1 << rng.Below(8));
        return;
      case 1:
        (*bytes)[at] = static_cast<char>(rng.Next());
        return;
      case 2:
        return Lie<uint32_t>(bytes, at);
      case 3:
        return Lie<uint64_t>(bytes, at);
      case 4:
        return bytes->resize(at);
      case 5:
        bytes->erase(at, 1 + rng.Below(64));
        return;
      case 6:
        bytes->insert(at, Piece(*bytes));
        return;
      default:
        bytes->resize(at);
        bytes->append(other.substr(std::min(other.size(), Place(other))));
        return;
    }
  }
  // Somewhere; as often as not near the beginning, where the numbers are that say how much follows.
  size_t Place(const std::string& bytes) {
    if (bytes.empty()) return 0;
    return rng.Below(rng.Chance(0.5) ? bytes.size() : std::min<size_t>(bytes.size(), 160));
  }
  template <typename T>
  void Lie(std::string* bytes, size_t at) {
    const uint64_t lies[] = {0,
                             1,
                             bytes->size(),
                             uint64_t{1} << rng.Below(64),
                             (uint64_t{1} << rng.Below(64)) - 1,
                             ~uint64_t{0},
                             ~uint64_t{0} - rng.Below(16),
                             rng.Next()};
    const auto lie = static_cast<T>(lies[rng.Below(std::size(lies))]);
    at = at / 4 * 4;
    if (bytes->size() < sizeof(T)) return;
    std::memcpy(bytes->data() + std::min(at, bytes->size() - sizeof(T)), &lie, sizeof(T));
  }
};

}  // namespace rubato

#endif  // RUBATO_PARAMS_DAMAGE_TESTING_H_
