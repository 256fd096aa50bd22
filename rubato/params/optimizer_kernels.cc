// Compiled once for each instruction set, with RUBATO_KERNELS naming the table to define.
// Everything else is local to the file, so that no copy for a newer processor is ever linked into
// another.
#include "rubato/params/optimizer_kernels.h"

#include <cmath>
#include <cstring>

namespace rubato {
namespace {

// An optimizer is one function: a row, its gradient, and the constants.
struct Sgd {
  static void Move(float* __restrict row, const float* __restrict gradient, size_t dim,
                   const OptimizerConstants& c) {
    for (size_t i = 0; i < dim; ++i) row[i] -= c.learning_rate * gradient[i];
  }
};

struct Adagrad {
  static void Move(float* __restrict row, const float* __restrict gradient, size_t dim,
                   const OptimizerConstants& c) {
    float* __restrict sums = row + dim;
    for (size_t i = 0; i < dim; ++i) {
      const float sum = sums[i] + gradient[i] * gradient[i];
      sums[i] = sum;
      row[i] -= c.learning_rate * gradient[i] / (std::sqrt(sum) + c.epsilon);
    }
  }
};

// A length known to the compiler makes the loop straight-line code.
template <typename Rule, size_t kDim>
[[gnu::noinline]] void MoveRows(float* const* rows, const float* gradients, size_t count,
                                size_t dim, const OptimizerConstants& constants) {
  const size_t length = kDim == 0 ? dim : kDim;
  const OptimizerConstants c = constants;
  for (size_t i = 0; i < count; ++i) Rule::Move(rows[i], gradients + i * length, length, c);
}

template <typename Rule>
void Update(float* const* rows, const float* gradients, size_t count, size_t dim,
            const OptimizerConstants& constants) {
  switch (dim) {
    case 1:
      return MoveRows<Rule, 1>(rows, gradients, count, dim, constants);
    case 4:
      return MoveRows<Rule, 4>(rows, gradients, count, dim, constants);
    case 8:
      return MoveRows<Rule, 8>(rows, gradients, count, dim, constants);
    case 16:
      return MoveRows<Rule, 16>(rows, gradients, count, dim, constants);
    case 32:
      return MoveRows<Rule, 32>(rows, gradients, count, dim, constants);
    case 64:
      return MoveRows<Rule, 64>(rows, gradients, count, dim, constants);
    default:
      return MoveRows<Rule, 0>(rows, gradients, count, dim, constants);
  }
}

// A float is not finite when all bits of its exponent are set.
bool NoneInfinite(const float* values, size_t count) {
  constexpr uint32_t kExponent = 0x7f800000;
  uint32_t bad = 0;
  for (size_t i = 0; i < count; ++i) {
    uint32_t bits;
    std::memcpy(&bits, values + i, sizeof(bits));
    bad |= (bits & kExponent) == kExponent;
  }
  return bad == 0;
}

}  // namespace

extern const OptimizerKernels RUBATO_KERNELS = {Update<Sgd>, Update<Adagrad>, NoneInfinite};

}  // namespace rubato
