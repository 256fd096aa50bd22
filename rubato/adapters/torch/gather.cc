#include "rubato/adapters/torch/gather.h"

#include <torch/csrc/autograd/custom_function.h>
#include <torch/csrc/jit/frontend/tracer.h>

#include <cstring>

namespace rubato {
namespace {

struct GatherFunction : torch::autograd::Function<GatherFunction> {
  // Autograd looks for inputs among tensors only: what lies in `pulled` takes no gradient.
  static torch::Tensor forward(torch::autograd::AutogradContext* ctx, const torch::Tensor& rows,
                               const PulledRows& pulled) {
    const torch::Tensor& position = pulled.position;
    const int64_t dim = rows.size(1);
    const int64_t cells = position.numel();
    torch::Tensor out = torch::empty({position.size(0), position.size(1), dim});
    const float* from = rows.data_ptr<float>();
    const int32_t* at = position.data_ptr<int32_t>();
    float* to = out.data_ptr<float>();
    for (int64_t i = 0; i < cells; ++i) {
      std::memcpy(to + i * dim, from + at[i] * dim, static_cast<size_t>(dim) * sizeof(float));
    }
    ctx->save_for_backward({position, pulled.gradient});
    ctx->saved_data["distinct"] = rows.size(0);
    return out;
  }

  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* ctx,
                                                 torch::autograd::variable_list grads) {
    const auto saved = ctx->get_saved_variables();
    const torch::Tensor grad = grads[0].contiguous();
    const int64_t dim = grad.size(2);
    const int64_t cells = saved[0].numel();
    const GradientSink sink(saved[1], ctx->saved_data["distinct"].toInt(), dim);
    const float* from = grad.data_ptr<float>();
    const int32_t* at = saved[0].data_ptr<int32_t>();
    float* to = sink.data();
    for (int64_t i = 0; i < cells; ++i) {
      float* row = to + at[i] * dim;
      for (int64_t d = 0; d < dim; ++d) row[d] += from[i * dim + d];
    }
    return {sink.ForAutograd(), torch::Tensor()};
  }
};

}  // namespace

GradientSink::GradientSink(const torch::Tensor& sink, int64_t distinct, int64_t dim)
    : target_(sink.defined() ? sink : torch::zeros({distinct, dim})), owned_(!sink.defined()) {}

torch::Tensor Gather(const PulledRows& pulled) {
  // What a trace can follow; the loop above would leave it a constant.
  if (torch::jit::tracer::isTracing()) return torch::embedding(pulled.rows, pulled.position);
  return GatherFunction::apply(pulled.rows, pulled);
}

}  // namespace rubato
