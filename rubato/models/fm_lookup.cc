#include "rubato/models/fm_lookup.h"

#include <torch/csrc/autograd/custom_function.h>
#include <torch/csrc/jit/frontend/tracer.h>
#include <torch/torch.h>

#include <algorithm>

#include "rubato/adapters/torch/bags.h"

// Loops below are compiled once more for machines with AVX2 and FMA, chosen when loaded.
#if defined(__GNUC__) && !defined(__clang__) && defined(__x86_64__)
#define RUBATO_VECTOR_CLONES __attribute__((target_clones("arch=haswell", "default")))
#else
#define RUBATO_VECTOR_CLONES
#endif

namespace rubato {
namespace {

struct Sizes {
  int64_t batch, fields, dim, extra;
  int64_t deep() const { return fields * dim + extra; }
};

// kDim is the dim, so that a vector stays in registers, or 0 for any.
template <int64_t kDim>
[[gnu::always_inline]] inline void ForwardDim(const Sizes& n, const float* rows,
                                              const int32_t* position, const float* extra,
                                              float* __restrict deep, float* __restrict sums,
                                              float* __restrict squares, float* logit) {
  const int64_t dim = kDim > 0 ? kDim : n.dim;
  for (int64_t b = 0; b < n.batch; ++b, sums += dim) {
    std::fill_n(sums, dim, 0.0f);
    std::fill_n(squares, dim, 0.0f);
    float weight = 0;
    for (int64_t f = 0; f < n.fields; ++f, deep += dim) {
      const float* row = rows + *position++ * (dim + 1);
      weight += row[0];
      for (int64_t d = 0; d < dim; ++d) {
        const float v = row[1 + d];
        deep[d] = v;
        sums[d] += v;
        squares[d] += v * v;
      }
    }
    float pairs = 0;  // Twice: (sum of v)^2 holds every pair of fields both ways, and the squares.
    for (int64_t d = 0; d < dim; ++d) pairs += sums[d] * sums[d] - squares[d];
    logit[b] = weight + 0.5f * pairs;
    deep = std::copy_n(extra + b * n.extra, n.extra, deep);
  }
}

template <int64_t kDim>
[[gnu::always_inline]] inline void BackwardDim(const Sizes& n, const int32_t* position,
                                               const float* deep, const float* sums,
                                               const float* grad_deep, const float* grad_logit,
                                               float* __restrict grad_rows) {
  const int64_t dim = kDim > 0 ? kDim : n.dim;
  for (int64_t b = 0; b < n.batch; ++b, sums += dim, deep += n.extra, grad_deep += n.extra) {
    const float g = grad_logit[b];
    for (int64_t f = 0; f < n.fields; ++f, deep += dim, grad_deep += dim) {
      float* row = grad_rows + *position++ * (dim + 1);
      row[0] += g;
      for (int64_t d = 0; d < dim; ++d) row[1 + d] += grad_deep[d] + g * (sums[d] - deep[d]);
    }
  }
}

RUBATO_VECTOR_CLONES
void Forward(const Sizes& n, const float* rows, const int32_t* position, const float* extra,
             float* deep, float* sums, float* squares, float* logit) {
  if (n.dim == 16) return ForwardDim<16>(n, rows, position, extra, deep, sums, squares, logit);
  if (n.dim == 8) return ForwardDim<8>(n, rows, position, extra, deep, sums, squares, logit);
  ForwardDim<0>(n, rows, position, extra, deep, sums, squares, logit);
}

RUBATO_VECTOR_CLONES
void Backward(const Sizes& n, const int32_t* position, const float* deep, const float* sums,
              const float* grad_deep, const float* grad_logit, float* grad_rows) {
  if (n.dim == 16)
    return BackwardDim<16>(n, position, deep, sums, grad_deep, grad_logit, grad_rows);
  if (n.dim == 8) return BackwardDim<8>(n, position, deep, sums, grad_deep, grad_logit, grad_rows);
  BackwardDim<0>(n, position, deep, sums, grad_deep, grad_logit, grad_rows);
}

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// Inputs that take no gradient, in a struct that autograd does not look into.
struct Constants {
  torch::Tensor position, sink, extra;
};

struct FmFunction : torch::autograd::Function<FmFunction> {
  static variable_list forward(AutogradContext* ctx, const torch::Tensor& rows,
                               const Constants& constants) {
    const auto& [position, sink, extra] = constants;
    const Sizes n{.batch = position.size(0),
                  .fields = position.size(1),
                  .dim = rows.size(1) - 1,
                  .extra = extra.defined() ? extra.size(1) : 0};
    torch::Tensor deep = torch::empty({n.batch, n.deep()});
    torch::Tensor sums = torch::empty({n.batch, n.dim});
    torch::Tensor squares = torch::empty({n.dim});
    torch::Tensor logit = torch::empty({n.batch});
    Forward(n, rows.data_ptr<float>(), position.data_ptr<int32_t>(),
            n.extra > 0 ? extra.data_ptr<float>() : nullptr, deep.data_ptr<float>(),
            sums.data_ptr<float>(), squares.data_ptr<float>(), logit.data_ptr<float>());
    ctx->save_for_backward({position, deep, sums, sink});
    ctx->saved_data["distinct"] = rows.size(0);
    return {deep, logit};
  }

  static variable_list backward(AutogradContext* ctx, variable_list grads) {
    const auto saved = ctx->get_saved_variables();
    const torch::Tensor &position = saved[0], &deep = saved[1], &sums = saved[2];
    Sizes n{.batch = position.size(0), .fields = position.size(1), .dim = sums.size(1)};
    n.extra = deep.size(1) - n.fields * n.dim;
    const torch::Tensor grad_deep = grads[0].contiguous(), grad_logit = grads[1].contiguous();
    const GradientSink sink(saved[3], ctx->saved_data["distinct"].toInt(), n.dim + 1);
    Backward(n, position.data_ptr<int32_t>(), deep.data_ptr<float>(), sums.data_ptr<float>(),
             grad_deep.data_ptr<float>(), grad_logit.data_ptr<float>(), sink.data());
    return {sink.ForAutograd(), torch::Tensor()};
  }
};

// The same as operations of libtorch, which a trace can follow.
FmOutput FmOfOperations(const PulledRows& pulled, const torch::Tensor& extra) {
  const torch::Tensor rows = torch::embedding(pulled.rows, pulled.position);
  const torch::Tensor vectors = rows.narrow(2, 1, pulled.rows.size(1) - 1);
  const torch::Tensor pairs = vectors.sum(1).square() - vectors.square().sum(1);
  const torch::Tensor deep = vectors.flatten(1);
  return {extra.defined() ? torch::cat({deep, extra}, 1) : deep,
          rows.select(2, 0).sum(1) + 0.5 * pairs.sum(1)};
}

}  // namespace

FmOutput FmLookup(const PulledRows& pulled, const torch::Tensor& extra) {
  if (torch::jit::tracer::isTracing()) return FmOfOperations(pulled, extra);
  const variable_list out =
      FmFunction::apply(pulled.rows, Constants{pulled.position, pulled.gradient, extra});
  return {out[0], out[1]};
}

void PairsInBags(ModelSetup& setup) {
  for (BagShape& bag : setup.shape.bags) {
    if (bag.combiner == "sum") bag.combiner = kSumAndPairs;
  }
}

}  // namespace rubato
