// Compiled once for each instruction set; RUBATO_LANES is the name of what it makes.
#include "rubato/models/lane_kernels.h"

namespace rubato {
namespace {

using Lanes = float __attribute__((vector_size(kLanes * sizeof(float))));
using LanesInMemory =
    float __attribute__((vector_size(kLanes * sizeof(float)), aligned(sizeof(float)), may_alias));

inline const LanesInMemory& At(const float* p) {
  return *reinterpret_cast<const LanesInMemory*>(p);
}
inline LanesInMemory& At(float* p) { return *reinterpret_cast<LanesInMemory*>(p); }

void Interact(const InteractionSizes& n, const float* maps, const float* vectors,
              const float* by_tile, float* out) {
  const int64_t dim = n.lanes();
  for (int64_t row = 0; row < n.rows; ++row) {
    for (int64_t d = 0; d < dim; d += kLanes) {
      const float* w = by_tile;
      for (int64_t h = 0; h < n.maps(); h += kTile) {
        Lanes sum0 = {}, sum1 = {}, sum2 = {}, sum3 = {};
        for (int64_t i = 0; i < n.before; ++i) {
          const Lanes map = At(maps + i * dim + d);
          for (int64_t j = n.first(i); j < n.fields; ++j, w += kTile) {
            const Lanes product = map * At(vectors + j * dim + d);
            sum0 += w[0] * product;
            sum1 += w[1] * product;
            sum2 += w[2] * product;
            sum3 += w[3] * product;
          }
        }
        float* to = out + h * dim + d;
        At(to) = sum0;
        At(to + dim) = sum1;
        At(to + 2 * dim) = sum2;
        At(to + 3 * dim) = sum3;
      }
    }
    maps += n.before * dim;
    vectors += n.fields * dim;
    out += n.maps() * dim;
  }
}

void InteractBack(const InteractionSizes& n, const float* maps, const float* vectors,
                  const float* by_pair, const float* gradient, float* turned, float* grad_maps,
                  float* grad_vectors, float* grad_by_pair) {
  const int64_t dim = n.lanes(), after = n.maps();
  for (int64_t row = 0; row < n.rows; ++row) {
    for (int64_t h = 0; h < after; ++h) {
      for (int64_t d = 0; d < dim; ++d) turned[d * after + h] = gradient[h * dim + d];
    }
    for (int64_t d = 0; d < dim; d += kLanes) {
      const float* w = by_pair;
      float* grad_w = grad_by_pair;
      for (int64_t i = 0; i < n.before; ++i) {
        const Lanes map = At(maps + i * dim + d);
        Lanes grad_map = {};
        for (int64_t j = n.first(i); j < n.fields; ++j, w += after, grad_w += after) {
          const Lanes vector = At(vectors + j * dim + d);
          Lanes even = {}, odd = {};
          for (int64_t h = 0; h < after; h += 2) {
            even += w[h] * At(gradient + h * dim + d);
            odd += w[h + 1] * At(gradient + (h + 1) * dim + d);
          }
          const Lanes grad_product = even + odd;
          grad_map += grad_product * vector;
          At(grad_vectors + j * dim + d) += grad_product * map;
          alignas(64) float product[kLanes];
          At(product) = map * vector;
          for (int64_t h = 0; h < after; h += kLanes) {
            const float* g = turned + d * after + h;
            Lanes first = At(grad_w + h), second = {};
            for (int64_t k = 0; k < kLanes; k += 2, g += 2 * after) {
              first += product[k] * At(g);
              second += product[k + 1] * At(g + after);
            }
            At(grad_w + h) = first + second;
          }
        }
        At(grad_maps + i * dim + d) += grad_map;
      }
    }
    maps += n.before * dim;
    vectors += n.fields * dim;
    gradient += after * dim;
    grad_maps += n.before * dim;
    grad_vectors += n.fields * dim;
  }
}

using WholeLanes = int32_t __attribute__((vector_size(kLanes * sizeof(int32_t))));

// Makes e to the power of x of x, which is 0 at most; to 2 in the last place. What is below every
// float that counts is as good as 0, and NaN stays NaN. (Lanes are not returned: how, would depend
// on the machine.)
inline void Exp(Lanes& x) {
  constexpr float kLeast = -87, kRound = 12582912;  // 1.5 * 2^23: what is added has no fraction.
  x = x < kLeast ? Lanes{} + kLeast : x;
  const Lanes rounded = x * 1.44269504f + kRound;
  const Lanes whole = rounded - kRound;
  const Lanes r = x - whole * 0.693359375f + whole * 2.12194440e-4f;
  Lanes y = Lanes{} + 1.9875691500e-4f;
  y = y * r + 1.3981999507e-3f;
  y = y * r + 8.3334519073e-3f;
  y = y * r + 4.1665795894e-2f;
  y = y * r + 1.6666665459e-1f;
  y = y * r + 5.0000001201e-1f;
  y = y * r * r + r + 1;
  // The whole number is in the last bits of `rounded`; among the exponent's it is a power of 2.
  const WholeLanes power = (reinterpret_cast<WholeLanes>(rounded) << 23) + (127 << 23);
  x = y * reinterpret_cast<Lanes>(power);
}

// Adds to `sum` that over d of one[d] * many[d], the latter being lanes.
inline void AddDot(int64_t size, const float* one, const float* many, int64_t stride, Lanes& sum) {
  Lanes odd = {};
  int64_t d = 0;
  for (; d + 1 < size; d += 2) {
    sum += one[d] * At(many + d * stride);
    odd += one[d + 1] * At(many + (d + 1) * stride);
  }
  if (d < size) sum += one[d] * At(many + d * stride);
  sum += odd;
}

void Ask(const AttentionSizes& n, const float* q, const float* k, const float* v, int64_t stride,
         float* weights, float* out, float* log_sums) {
  const int64_t padded = n.padded();
  Lanes most = Lanes{} - INFINITY;
  for (int64_t j = 0; j < n.fields; ++j) {
    Lanes s = {};
    AddDot(n.head, k + j * stride, q, padded, s);
    At(weights + j * kLanes) = s;
    most = s > most ? s : most;
  }
  Lanes sum = {};
  for (int64_t j = 0; j < n.fields; ++j) {
    Lanes e = At(weights + j * kLanes) - most;
    Exp(e);
    At(weights + j * kLanes) = e;
    sum += e;
  }
  for (int64_t d = 0; d < n.head; ++d) {
    Lanes said = {};
    for (int64_t j = 0; j < n.fields; ++j) said += v[j * stride + d] * At(weights + j * kLanes);
    At(out + d * padded) = said / sum;
  }
  for (int64_t i = 0; i < kLanes; ++i) log_sums[i] = most[i] + std::log(sum[i]);
}

void AskBack(const AttentionSizes& n, const float* q, const float* k, const float* v,
             int64_t stride, const float* grad, const float* log_sums, const float* deltas,
             float* grad_q) {
  const int64_t padded = n.padded();
  const Lanes log_sum = At(log_sums), delta = At(deltas);
  for (int64_t j = 0; j < n.fields; ++j) {
    Lanes weight = -log_sum, grad_s = -delta;
    AddDot(n.head, k + j * stride, q, padded, weight);
    AddDot(n.head, v + j * stride, grad, padded, grad_s);
    Exp(weight);
    grad_s *= weight;
    for (int64_t d = 0; d < n.head; ++d) At(grad_q + d * padded) += k[j * stride + d] * grad_s;
  }
}

void AskedBack(const AttentionSizes& n, const float* q, const float* k, const float* v,
               const float* grad, const float* log_sums, const float* deltas, float* grad_k,
               float* grad_v) {
  const int64_t padded = n.padded();
  for (int64_t i = 0; i < n.fields; ++i, q += n.head, grad += n.head) {
    Lanes weight = Lanes{} - log_sums[i], grad_s = Lanes{} - deltas[i];
    AddDot(n.head, q, k, padded, weight);
    AddDot(n.head, grad, v, padded, grad_s);
    Exp(weight);
    grad_s *= weight;
    for (int64_t d = 0; d < n.head; ++d) {
      At(grad_k + d * padded) += q[d] * grad_s;
      At(grad_v + d * padded) += grad[d] * weight;
    }
  }
}

}  // namespace

const LaneKernels RUBATO_LANES = {Interact, InteractBack, Ask, AskBack, AskedBack};

}  // namespace rubato
