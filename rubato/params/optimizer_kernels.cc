// Compiled once for each instruction set, with RUBATO_KERNELS naming the table to define.
// Everything else is local to the file, and nothing of the standard library is called that might
// not be inlined, so that no copy for a newer processor is ever linked into another.
#include "rubato/params/optimizer_kernels.h"

#include <cmath>
#include <cstring>

namespace rubato {
namespace {

using Constants = OptimizerConstants;

// A rule is one function of weights `w`, state `s`, gradient `g`, all of length n.
#define RULE_ARGUMENTS                                                                        \
  float *__restrict w, float *__restrict s, const float *__restrict gradient, const size_t n, \
      const Constants &c, const BiasCorrection &bias

// The gradient with the pull of weight_decay.
inline float Decayed(float g, float w, const Constants& c) { return g + c.weight_decay * w; }

struct Sgd {
  static void Move(RULE_ARGUMENTS) {
    for (size_t i = 0; i < n; ++i) w[i] -= c.rate * Decayed(gradient[i], w[i], c);
  }
};

struct Momentum {
  static void Move(RULE_ARGUMENTS) {
    for (size_t i = 0; i < n; ++i) {
      s[i] = c.momentum * s[i] + Decayed(gradient[i], w[i], c);
      w[i] -= c.rate * s[i];
    }
  }
};

struct Nesterov {
  static void Move(RULE_ARGUMENTS) {
    for (size_t i = 0; i < n; ++i) {
      const float g = Decayed(gradient[i], w[i], c);
      s[i] = c.momentum * s[i] + g;
      w[i] -= c.rate * (g + c.momentum * s[i]);
    }
  }
};

struct Adagrad {
  static void Move(RULE_ARGUMENTS) {
    for (size_t i = 0; i < n; ++i) {
      const float g = Decayed(gradient[i], w[i], c);
      const float sum = s[i] + g * g;
      s[i] = sum;
      w[i] -= c.rate * g / (std::sqrt(sum) + c.epsilon);
    }
  }
  static float Root(const float* s, size_t i, size_t, const Constants& c, const BiasCorrection&) {
    return std::sqrt(s[i]) + c.epsilon;
  }
};

// One accumulator for a row: the mean of its squared gradients.
struct RowwiseAdagrad {
  static void Move(RULE_ARGUMENTS) {
    constexpr size_t kLanes = 16;  // Added up apart, so that every instruction set adds alike.
    float lanes[kLanes] = {};
    size_t i = 0;
    for (; i + kLanes <= n; i += kLanes) {
      for (size_t k = 0; k < kLanes; ++k) {
        const float g = Decayed(gradient[i + k], w[i + k], c);
        lanes[k] += g * g;
      }
    }
    for (size_t k = 0; i + k < n; ++k) {
      const float g = Decayed(gradient[i + k], w[i + k], c);
      lanes[k] += g * g;
    }
    for (size_t half = kLanes / 2; half > 0; half /= 2) {
      for (size_t k = 0; k < half; ++k) lanes[k] += lanes[k + half];
    }
    s[0] += lanes[0] / static_cast<float>(n);
    const float scale = c.rate / (std::sqrt(s[0]) + c.epsilon);
    for (i = 0; i < n; ++i) w[i] -= scale * Decayed(gradient[i], w[i], c);
  }
  static float Root(const float* s, size_t, size_t, const Constants& c, const BiasCorrection&) {
    return std::sqrt(s[0]) + c.epsilon;
  }
};

struct Adam {
  static void Move(RULE_ARGUMENTS) {
    float* __restrict mean = s;
    float* __restrict square = s + n;
    const float rate = c.rate * bias.mean;
    for (size_t i = 0; i < n; ++i) {
      const float g = Decayed(gradient[i], w[i], c);
      mean[i] = c.beta1 * mean[i] + c.one_minus_beta1 * g;
      square[i] = c.beta2 * square[i] + c.one_minus_beta2 * g * g;
      w[i] -= rate * mean[i] / (std::sqrt(square[i]) * bias.root_square + c.epsilon);
    }
  }
  static float Root(const float* s, size_t i, size_t n, const Constants& c,
                    const BiasCorrection& bias) {
    return std::sqrt(s[n + i]) * bias.root_square + c.epsilon;
  }
};

struct Amsgrad {
  static void Move(RULE_ARGUMENTS) {
    float* __restrict mean = s;
    float* __restrict square = s + n;
    float* __restrict largest = s + 2 * n;
    const float rate = c.rate * bias.mean;
    for (size_t i = 0; i < n; ++i) {
      const float g = Decayed(gradient[i], w[i], c);
      mean[i] = c.beta1 * mean[i] + c.one_minus_beta1 * g;
      square[i] = c.beta2 * square[i] + c.one_minus_beta2 * g * g;
      largest[i] = largest[i] > square[i] ? largest[i] : square[i];
      w[i] -= rate * mean[i] / (std::sqrt(largest[i]) * bias.root_square + c.epsilon);
    }
  }
  static float Root(const float* s, size_t i, size_t n, const Constants& c,
                    const BiasCorrection& bias) {
    return std::sqrt(s[2 * n + i]) * bias.root_square + c.epsilon;
  }
};

// Adam, but the decay acts on the weights alone and leaves the means as they are.
struct Adamw {
  static void Move(RULE_ARGUMENTS) {
    float* __restrict mean = s;
    float* __restrict square = s + n;
    const float rate = c.rate * bias.mean;
    const float kept = 1 - c.rate * c.weight_decay;
    for (size_t i = 0; i < n; ++i) {
      const float g = gradient[i];
      mean[i] = c.beta1 * mean[i] + c.one_minus_beta1 * g;
      square[i] = c.beta2 * square[i] + c.one_minus_beta2 * g * g;
      w[i] = w[i] * kept - rate * mean[i] / (std::sqrt(square[i]) * bias.root_square + c.epsilon);
    }
  }
};

struct Rmsprop {
  static void Move(RULE_ARGUMENTS) {
    for (size_t i = 0; i < n; ++i) {
      const float g = Decayed(gradient[i], w[i], c);
      s[i] = c.alpha * s[i] + c.one_minus_alpha * g * g;
      w[i] -= c.rate * g / (std::sqrt(s[i]) + c.epsilon);
    }
  }
  static float Root(const float* s, size_t i, size_t, const Constants& c, const BiasCorrection&) {
    return std::sqrt(s[i]) + c.epsilon;
  }
};

// FTRL-Proximal (McMahan et al., 2013). A weight is the closed-form solution for the sums z, n.
struct Ftrl {
  static float Strength(float root_n, const Constants& c) {
    return (c.beta + root_n) / c.rate + c.l2;
  }
  static void Move(RULE_ARGUMENTS) {
    float* __restrict z = s;
    float* __restrict squares = s + n;
    for (size_t i = 0; i < n; ++i) {
      const float g = gradient[i];
      const float root_before = std::sqrt(squares[i]);
      squares[i] += g * g;
      const float root = std::sqrt(squares[i]);
      z[i] += g - (root - root_before) / c.rate * w[i];
      const float shrunk = std::fabs(z[i]) - c.l1;
      const float solution = std::copysign(shrunk, -z[i]) / Strength(root, c);
      w[i] = shrunk > 0 ? solution : 0.0f;
    }
  }
  // z such that the initial weight is the solution, so that rows need not start at zero.
  static void Start(const OptimizerRun& run, size_t n, const Constants& c) {
    const float strength = Strength(std::sqrt(c.initial_accumulator), c);
    for (size_t i = 0; i < n; ++i) {
      const float w = run.weights[i];
      run.state[i] = w == 0 ? 0 : -w * strength - std::copysign(c.l1, w);
      run.state[n + i] = c.initial_accumulator;
    }
  }
};

void StartAccumulators(const OptimizerRun& run, size_t n, const Constants& c) {
  for (size_t i = 0; i < n; ++i) run.state[i] = c.initial_accumulator;
}
void StartAccumulator(const OptimizerRun& run, size_t, const Constants& c) {
  run.state[0] = c.initial_accumulator;
}

// Rules that divide gradients by a root divide the pull of weight_decay by it, too: a missed step
// takes rate * weight_decay / root of a weight. All of them are taken as one implicit step, which
// never passes zero, however many they are, and costs no exponential.
template <typename Rule>
void CatchUp(float* weights, const float* state, size_t n, float missed, const Constants& c,
             const BiasCorrection& bias) {
  const float pull = c.rate * c.weight_decay * missed;
  for (size_t i = 0; i < n; ++i) {
    const float root = Rule::Root(state, i, n, c, bias);
    weights[i] *= root / (root + pull);
  }
}

// A length known to the compiler makes the loop straight-line code.
template <typename Rule, size_t kCount>
[[gnu::noinline]] void MoveRuns(const OptimizerRun* runs, const BiasCorrection* corrections,
                                size_t runs_count, size_t count, const Constants& constants) {
  const size_t length = kCount == 0 ? count : kCount;
  const Constants c = constants;
  for (size_t i = 0; i < runs_count; ++i) {
    Rule::Move(runs[i].weights, runs[i].state, runs[i].gradient, length, c, corrections[i]);
  }
}

template <typename Rule>
void Update(const OptimizerRun* runs, const BiasCorrection* corrections, size_t runs_count,
            size_t count, const Constants& c) {
  switch (count) {
    case 1:
      return MoveRuns<Rule, 1>(runs, corrections, runs_count, count, c);
    case 4:
      return MoveRuns<Rule, 4>(runs, corrections, runs_count, count, c);
    case 8:
      return MoveRuns<Rule, 8>(runs, corrections, runs_count, count, c);
    case 16:
      return MoveRuns<Rule, 16>(runs, corrections, runs_count, count, c);
    case 32:
      return MoveRuns<Rule, 32>(runs, corrections, runs_count, count, c);
    case 64:
      return MoveRuns<Rule, 64>(runs, corrections, runs_count, count, c);
    default:
      return MoveRuns<Rule, 0>(runs, corrections, runs_count, count, c);
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

// clang-format off
constexpr OptimizerRule kRules[] = {
    //name              slots scalars bias   epsilon start               update
    {"sgd",             0,    0,      false, 1e-8,   nullptr,            Update<Sgd>,
     nullptr, nullptr},
    {"momentum",        1,    0,      false, 1e-8,   nullptr,            Update<Momentum>,
     nullptr, nullptr},
    {"nesterov",        1,    0,      false, 1e-8,   nullptr,            Update<Nesterov>,
     nullptr, nullptr},
    {"adagrad",         1,    0,      false, 1e-10,  StartAccumulators,  Update<Adagrad>,
     CatchUp<Adagrad>, nullptr},
    {"rowwise_adagrad", 0,    1,      false, 1e-10,  StartAccumulator,   Update<RowwiseAdagrad>,
     CatchUp<RowwiseAdagrad>, "adagrad"},
    {"adam",            2,    0,      true,  1e-8,   nullptr,            Update<Adam>,
     CatchUp<Adam>, nullptr},
    {"amsgrad",         3,    0,      true,  1e-8,   nullptr,            Update<Amsgrad>,
     CatchUp<Amsgrad>, nullptr},
    {"adamw",           2,    0,      true,  1e-8,   nullptr,            Update<Adamw>,
     nullptr, nullptr},
    {"rmsprop",         1,    0,      false, 1e-8,   nullptr,            Update<Rmsprop>,
     CatchUp<Rmsprop>, nullptr},
    {"ftrl",            2,    0,      false, 1e-8,   Ftrl::Start,        Update<Ftrl>,
     nullptr, nullptr},
};
// clang-format on

}  // namespace

extern const OptimizerKernels RUBATO_KERNELS = {kRules, sizeof(kRules) / sizeof(kRules[0]),
                                                NoneInfinite};

}  // namespace rubato
