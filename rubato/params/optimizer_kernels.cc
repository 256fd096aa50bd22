// Compiled once for each instruction set, with RUBATO_KERNELS naming the table to define.
// Everything else is local to the file, and nothing of the standard library is called that might
// not be inlined, so that no copy for a newer processor is ever linked into another.
#include "rubato/params/optimizer_kernels.h"

#ifdef RUBATO_ROOTS_BY_STEPS
#include <immintrin.h>
#ifndef __clang__  // gcc 12 warns of its own header.
#pragma GCC diagnostic ignored "-Wuninitialized"
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif
#endif

#include <cmath>
#include <cstring>

namespace rubato {
namespace {

// Weights that are moved together.
constexpr size_t kLanes = 16;

#ifdef RUBATO_ROOTS_BY_STEPS
// A processor divides and takes roots in one place, one after the other, and that was half of a
// row's time. A root can be had beside the division: two of Newton's steps from the processor's
// estimate, the last with an exact remainder, are the nearest float to the root for every number
// from kStepsFrom up to the last. All of them were tried; numbered_rows_test tries those of two
// exponents, beyond which everything repeats, and some of each other. Zero, what is hardly more,
// and what is not finite, go the long way.
inline __m512 Root16(__m512 x) {
  constexpr int32_t kStepsFrom = 0x0c800000, kInfinite = 0x7f800000;
  const __m512i bits = _mm512_castps_si512(x);
  const __mmask16 odd =
      _mm512_cmpge_epu32_mask(_mm512_sub_epi32(bits, _mm512_set1_epi32(kStepsFrom)),
                              _mm512_set1_epi32(kInfinite - kStepsFrom));
  if (odd != 0) [[unlikely]]
    return _mm512_sqrt_ps(x);
  const __m512 half = _mm512_set1_ps(0.5f);
  const __m512 estimate = _mm512_rsqrt14_ps(x);
  __m512 root = _mm512_mul_ps(x, estimate);
  __m512 inverse = _mm512_mul_ps(half, estimate);  // Half of it.
  const __m512 lacks = _mm512_fnmadd_ps(inverse, root, half);
  root = _mm512_fmadd_ps(root, lacks, root);
  inverse = _mm512_fmadd_ps(inverse, lacks, inverse);
  return _mm512_fmadd_ps(_mm512_fnmadd_ps(root, root, x), inverse, root);
}
inline void Roots(const float* x, float* roots) {
  _mm512_storeu_ps(roots, Root16(_mm512_loadu_ps(x)));
}
#else
inline void Roots(const float* x, float* roots) {
  for (size_t k = 0; k < kLanes; ++k) roots[k] = std::sqrt(x[k]);
}
#endif

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
#ifdef RUBATO_ROOTS_BY_STEPS
    const size_t whole = n - n % kLanes;
    for (size_t i = 0; i < whole; i += kLanes) MoveLanes(w + i, s + i, gradient + i, c);
    if (whole == n) return;
#else
    constexpr size_t whole = 0;
#endif
    for (size_t i = whole; i < n; ++i) {
      const float g = Decayed(gradient[i], w[i], c);
      const float sum = s[i] + g * g;
      s[i] = sum;
      w[i] -= c.rate * g / (std::sqrt(sum) + c.epsilon);
    }
  }
#ifdef RUBATO_ROOTS_BY_STEPS
  static void MoveLanes(float* w, float* s, const float* gradient, const Constants& c) {
    const __m512 weights = _mm512_loadu_ps(w);
    const __m512 pull = _mm512_mul_ps(_mm512_set1_ps(c.weight_decay), weights);
    const __m512 g = _mm512_add_ps(_mm512_loadu_ps(gradient), pull);
    const __m512 sum = _mm512_add_ps(_mm512_loadu_ps(s), _mm512_mul_ps(g, g));
    const __m512 root = _mm512_add_ps(Root16(sum), _mm512_set1_ps(c.epsilon));
    const __m512 step = _mm512_div_ps(_mm512_mul_ps(_mm512_set1_ps(c.rate), g), root);
    _mm512_storeu_ps(s, sum);
    _mm512_storeu_ps(w, _mm512_sub_ps(weights, step));
  }
#endif
  static float Root(const float* s, size_t i, size_t, const Constants& c, const BiasCorrection&) {
    return std::sqrt(s[i]) + c.epsilon;
  }
};

// One accumulator for a row: the mean of its squared gradients.
struct RowwiseAdagrad {
  static void Move(RULE_ARGUMENTS) {
    float lanes[kLanes] = {};  // Added up apart, so that every instruction set adds alike.
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

// FTRL-Proximal (McMahan et al., 2013). A weight is the closed-form solution for the sums z, n. The
// rate is that of all its updates at once, so a stale one is weakened as a gradient and not by the
// rate: that would shrink everything the weight has learnt, and the next fresh one bring it back.
struct Ftrl {
  static float Strength(float root_n, float rate, const Constants& c) {
    return (c.beta + root_n) / rate + c.l2;
  }
  static void Move(RULE_ARGUMENTS) {
    float* __restrict z = s;
    float* __restrict squares = s + n;
    const float rate = c.base_rate;
    for (size_t i = 0; i < n; ++i) {
      const float g = gradient[i] * c.rate_of_base;
      const float root_before = std::sqrt(squares[i]);
      squares[i] += g * g;
      const float root = std::sqrt(squares[i]);
      z[i] += g - (root - root_before) / rate * w[i];
      const float shrunk = std::fabs(z[i]) - c.l1;
      const float strength = Strength(root, rate, c);
      const float solution = shrunk > 0 ? std::copysign(shrunk, -z[i]) / strength : 0.0f;
      w[i] = strength > 0 ? solution : w[i];  // Nothing has moved it yet, or the solution is any.
    }
  }
  // z such that the initial weight is the solution, so that rows need not start at zero.
  static void Start(const OptimizerRun& run, size_t n, const Constants& c) {
    const float strength = Strength(std::sqrt(c.initial_accumulator), c.rate, c);
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
  const float pull = c.catch_up_rate * c.weight_decay * missed;
  for (size_t i = 0; i < n; ++i) {
    const float root = Rule::Root(state, i, n, c, bias);
    weights[i] *= root / (root + pull);
  }
}

// A few weights of a row with Adam's means, on their way through missed steps.
struct AdamLanes {
  static constexpr size_t kCount = 16;
  float weight[kCount], mean[kCount], square[kCount];

  void Load(const float* weights, const float* state, size_t n, size_t from, size_t count) {
    for (size_t i = 0; i < kCount; ++i) {
      weight[i] = i < count ? weights[from + i] : 0;
      mean[i] = i < count ? state[from + i] : 0;
      square[i] = i < count ? state[n + from + i] : 0;
    }
  }

  // A step without a gradient maps (mean, weight), linearly while the root stays:
  //     mean'   = beta1 * mean + (1 - beta1) * decay * weight
  //     weight' = weight - rate / root * mean'
  // so 2^d steps are that matrix, [[p, q], [r, 1 - e]], squared d times. e is small, and kept
  // apart from the 1 beside which it would be lost. A root so small that the pull alone would
  // throw a weight past zero is taken larger: of a weight within a few steps of zero that leaves
  // less than a dense Adam would, whose weights then swing about zero by some rates.
  void Go(const MissedSteps& missed, const Constants& c) {
    float p[kCount], q[kCount], r[kCount], e[kCount];
    const float rate = c.catch_up_rate * missed.mean;
    const float pull = c.one_minus_beta1 * c.weight_decay;
    const float least = rate * pull;
    for (size_t i = 0; i < kCount; ++i) {
      const float g = c.weight_decay * weight[i];
      const float middle = missed.kept_half * square[i] + (1 - missed.kept_half) * (g * g);
      const float root = std::sqrt(middle) * missed.root_square + c.epsilon;
      const float step = rate / (root > least ? root : least);
      p[i] = c.beta1;
      q[i] = pull;
      r[i] = -step * c.beta1;
      e[i] = step * pull;
    }
    for (uint32_t d = 0; d < missed.doublings; ++d) {
      for (size_t i = 0; i < kCount; ++i) {
        const float both = q[i] * r[i], trace = 1 + (p[i] - e[i]);
        p[i] = p[i] * p[i] + both;
        e[i] = 2 * e[i] - e[i] * e[i] - both;
        q[i] *= trace;
        r[i] *= trace;
      }
    }
    const bool one = missed.doublings == 0;
    for (size_t i = 0; i < kCount; ++i) {
      const float w = weight[i], m = mean[i];
      mean[i] = p[i] * m + q[i] * w;
      weight[i] = w + (r[i] * m - e[i] * w);
      const float squares = one ? w * w : (w * w + w * weight[i] + weight[i] * weight[i]) / 3;
      const float pulled = c.weight_decay * c.weight_decay * squares;
      square[i] = missed.kept * square[i] + (1 - missed.kept) * pulled;
    }
  }
};

void AdamMeanwhile(float* weights, const float* state, float* state_after, size_t n,
                   const MissedSteps* missed, size_t missed_count, const Constants& constants) {
  const Constants c = constants;
  for (size_t from = 0; from < n; from += AdamLanes::kCount) {
    const size_t count = n - from < AdamLanes::kCount ? n - from : AdamLanes::kCount;
    AdamLanes lanes;
    lanes.Load(weights, state, n, from, count);
    for (size_t k = 0; k < missed_count; ++k) lanes.Go(missed[k], c);
    for (size_t i = 0; i < count; ++i) weights[from + i] = lanes.weight[i];
    if (state_after == nullptr) continue;
    for (size_t i = 0; i < count; ++i) {
      state_after[from + i] = lanes.mean[i];
      state_after[n + from + i] = lanes.square[i];
    }
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

// Rows are asked for so many ahead of their use, into the second cache (row_probe.cc).
constexpr size_t kAhead = 64;

template <typename Rule, size_t kCount>
[[gnu::noinline]] void MoveNumbered(const NumberedRows& rows, size_t count,
                                    const Constants& constants) {
  const size_t length = kCount == 0 ? count : kCount;
  const Constants c = constants;
  const NumberedRows r = rows;
  const auto at = [&r](float* first, uint32_t number) {
    return reinterpret_cast<float*>(reinterpret_cast<char*>(first) + number * r.stride);
  };
  for (size_t ahead = 0; ahead < r.numbers_count + kAhead; ++ahead) {
    if (ahead < r.numbers_count) {
      // Row 0 in place of none: a page that is not there would be looked for in vain.
      const uint32_t number = r.numbers[ahead] < r.numbers_end ? r.numbers[ahead] : 0;
      const char* row = reinterpret_cast<const char*>(at(r.weights, number));
      for (size_t b = 0; b < r.row_bytes; b += 64) __builtin_prefetch(row + b, 0, 1);
    }
    if (ahead < kAhead) continue;
    const size_t i = ahead - kAhead;
    if (r.numbers[i] >= r.numbers_end) continue;
    float* state = at(r.state, r.numbers[i]);
    BiasCorrection bias = r.corrections[0];
    if (r.counts) {
      uint32_t updates;
      std::memcpy(&updates, state + r.updates_at, sizeof(updates));
      ++updates;
      std::memcpy(state + r.updates_at, &updates, sizeof(updates));
      bias = updates < r.corrections_count ? r.corrections[updates] : BiasCorrection{};
    }
    Rule::Move(at(r.weights, r.numbers[i]), state, r.gradients + i * length, length, c, bias);
  }
}

template <typename Rule>
void UpdateNumbered(const NumberedRows& rows, size_t count, const Constants& c) {
  switch (count) {
    case 1:
      return MoveNumbered<Rule, 1>(rows, count, c);
    case 8:
      return MoveNumbered<Rule, 8>(rows, count, c);
    case 16:
      return MoveNumbered<Rule, 16>(rows, count, c);
    case 32:
      return MoveNumbered<Rule, 32>(rows, count, c);
    case 64:
      return MoveNumbered<Rule, 64>(rows, count, c);
    default:
      return MoveNumbered<Rule, 0>(rows, count, c);
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

void AllRoots(const float* values, size_t count, float* out) {
  for (size_t i = 0; i + kLanes <= count; i += kLanes) Roots(values + i, out + i);
}

// clang-format off
constexpr OptimizerRule kRules[] = {
    //name              slots scalars bias   epsilon start               update
    {"sgd",             0,    0,      false, 1e-8,   nullptr,            Update<Sgd>,
     UpdateNumbered<Sgd>, nullptr, nullptr},
    {"momentum",        1,    0,      false, 1e-8,   nullptr,            Update<Momentum>,
     UpdateNumbered<Momentum>, nullptr, nullptr},
    {"nesterov",        1,    0,      false, 1e-8,   nullptr,            Update<Nesterov>,
     UpdateNumbered<Nesterov>, nullptr, nullptr},
    {"adagrad",         1,    0,      false, 1e-10,  StartAccumulators,  Update<Adagrad>,
     UpdateNumbered<Adagrad>, CatchUp<Adagrad>, nullptr},
    {"rowwise_adagrad", 0,    1,      false, 1e-10,  StartAccumulator,   Update<RowwiseAdagrad>,
     UpdateNumbered<RowwiseAdagrad>, CatchUp<RowwiseAdagrad>, "adagrad"},
    {"adam",            2,    0,      true,  1e-8,   nullptr,            Update<Adam>,
     UpdateNumbered<Adam>, CatchUp<Adam>, nullptr},
    {"dense_adam",      2,    0,      true,  1e-8,   nullptr,            Update<Adam>,
     UpdateNumbered<Adam>, nullptr, nullptr, AdamMeanwhile},
    {"amsgrad",         3,    0,      true,  1e-8,   nullptr,            Update<Amsgrad>,
     UpdateNumbered<Amsgrad>, CatchUp<Amsgrad>, nullptr},
    {"adamw",           2,    0,      true,  1e-8,   nullptr,            Update<Adamw>,
     UpdateNumbered<Adamw>, nullptr, nullptr},
    {"rmsprop",         1,    0,      false, 1e-8,   nullptr,            Update<Rmsprop>,
     UpdateNumbered<Rmsprop>, CatchUp<Rmsprop>, nullptr},
    {"ftrl",            2,    0,      false, 1e-8,   Ftrl::Start,        Update<Ftrl>,
     UpdateNumbered<Ftrl>, nullptr, nullptr},
};
// clang-format on

}  // namespace

extern const OptimizerKernels RUBATO_KERNELS = {kRules, sizeof(kRules) / sizeof(kRules[0]),
                                                NoneInfinite, AllRoots};

}  // namespace rubato
