#include "rubato/models/attention.h"

#include <torch/csrc/autograd/custom_function.h>
#include <torch/csrc/jit/frontend/tracer.h>

#include <cmath>
#include <vector>

#include "rubato/models/lane_kernels.h"

namespace rubato {
namespace {

using Sizes = AttentionSizes;

// One head of one row, with fields as lanes: float d of field i is at [d][i]. Beyond the fields are
// zeros.
struct Turned {
  explicit Turned(const Sizes& n)
      : fields(n.padded()), values(static_cast<size_t>(n.head * n.padded())) {}
  const float* at(int64_t d) const { return values.data() + d * fields; }
  float* at(int64_t d) { return values.data() + d * fields; }

  int64_t fields;
  std::vector<float> values;
};

// From or to floats of a head that lie `stride` apart from field to field.
void Turn(const Sizes& n, const float* from, int64_t stride, float scale, Turned* to) {
  for (int64_t i = 0; i < n.fields; ++i, from += stride) {
    for (int64_t d = 0; d < n.head; ++d) to->at(d)[i] = scale * from[d];
  }
}
void TurnBack(const Sizes& n, const Turned& from, float scale, int64_t stride, float* to) {
  for (int64_t i = 0; i < n.fields; ++i, to += stride) {
    for (int64_t d = 0; d < n.head; ++d) to[d] = scale * from.at(d)[i];
  }
}

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

struct Attention : torch::autograd::Function<Attention> {
  static torch::Tensor forward(AutogradContext* ctx, const torch::Tensor& input, int64_t heads) {
    const torch::Tensor qkv = input.contiguous();
    const Sizes n = SizesOf(qkv, heads);
    torch::Tensor out = torch::empty({n.rows, n.fields, n.out()});
    torch::Tensor log_sums = torch::empty({n.rows, n.heads, n.padded()});
    const int64_t stride = 3 * n.out();
    const LaneKernels& lanes = ChosenLanes();
    Turned q(n), told(n);
    std::vector<float> weights(static_cast<size_t>(n.fields * kLanes));
    for (int64_t row = 0; row < n.rows; ++row) {
      for (int64_t h = 0; h < n.heads; ++h) {
        const float* from = qkv.data_ptr<float>() + row * n.fields * stride + h * n.head;
        Turn(n, from, stride, n.scale(), &q);
        for (int64_t i = 0; i < n.padded(); i += kLanes) {
          lanes.ask(n, q.at(0) + i, from + n.out(), from + 2 * n.out(), stride, weights.data(),
                    told.at(0) + i,
                    log_sums.data_ptr<float>() + (row * n.heads + h) * n.padded() + i);
        }
        TurnBack(n, told, 1, n.out(),
                 out.data_ptr<float>() + row * n.fields * n.out() + h * n.head);
      }
    }
    ctx->save_for_backward({qkv, out, log_sums});
    ctx->saved_data["heads"] = heads;
    return out;
  }

  static variable_list backward(AutogradContext* ctx, variable_list grads) {
    const auto saved = ctx->get_saved_variables();
    const torch::Tensor &qkv = saved[0], &out = saved[1], &log_sums = saved[2];
    const Sizes n = SizesOf(qkv, ctx->saved_data["heads"].toInt());
    const torch::Tensor grad = grads[0].contiguous();
    torch::Tensor grad_qkv = torch::empty_like(qkv);
    // Of every field and head, what the gradient has in common with what was told.
    const torch::Tensor common =
        (grad * out).view({n.rows, n.fields, n.heads, n.head}).sum(3).transpose(1, 2);
    const torch::Tensor deltas =
        torch::constant_pad_nd(common, {0, n.padded() - n.fields}).contiguous();
    HeadBackward head(n);
    for (int64_t row = 0; row < n.rows; ++row) {
      for (int64_t h = 0; h < n.heads; ++h) {
        const int64_t at = row * n.fields * n.out() + h * n.head;
        const int64_t field = (row * n.heads + h) * n.padded();
        head.Run(qkv.data_ptr<float>() + 3 * at - 2 * h * n.head, grad.data_ptr<float>() + at,
                 log_sums.data_ptr<float>() + field, deltas.data_ptr<float>() + field,
                 grad_qkv.data_ptr<float>() + 3 * at - 2 * h * n.head);
      }
    }
    return {grad_qkv, torch::Tensor()};
  }

 private:
  // One head of one row, with the memory that it takes.
  class HeadBackward {
   public:
    explicit HeadBackward(const Sizes& n)
        : n_(n),
          q_(n),
          k_(n),
          v_(n),
          grad_(n),
          grad_q_(n),
          grad_k_(n),
          grad_v_(n),
          plain_q_(static_cast<size_t>(n.fields * n.head)),
          plain_grad_(plain_q_.size()) {}

    void Run(const float* qkv, const float* grad, const float* log_sums, const float* deltas,
             float* grad_qkv) {
      const LaneKernels& lanes = ChosenLanes();
      const int64_t stride = 3 * n_.out();
      const float *k = qkv + n_.out(), *v = k + n_.out();
      Turn(n_, qkv, stride, n_.scale(), &q_);
      Turn(n_, k, stride, 1, &k_);
      Turn(n_, v, stride, 1, &v_);
      Turn(n_, grad, n_.out(), 1, &grad_);
      TurnBack(n_, q_, 1, n_.head, plain_q_.data());
      TurnBack(n_, grad_, 1, n_.head, plain_grad_.data());
      for (Turned* made : {&grad_q_, &grad_k_, &grad_v_}) {
        std::fill(made->values.begin(), made->values.end(), 0.0f);
      }
      for (int64_t i = 0; i < n_.padded(); i += kLanes) {
        lanes.ask_back(n_, q_.at(0) + i, k, v, stride, grad_.at(0) + i, log_sums + i, deltas + i,
                       grad_q_.at(0) + i);
        lanes.asked_back(n_, plain_q_.data(), k_.at(0) + i, v_.at(0) + i, plain_grad_.data(),
                         log_sums, deltas, grad_k_.at(0) + i, grad_v_.at(0) + i);
      }
      TurnBack(n_, grad_q_, n_.scale(), stride, grad_qkv);
      TurnBack(n_, grad_k_, 1, stride, grad_qkv + n_.out());
      TurnBack(n_, grad_v_, 1, stride, grad_qkv + 2 * n_.out());
    }

   private:
    const Sizes n_;
    Turned q_, k_, v_, grad_, grad_q_, grad_k_, grad_v_;
    std::vector<float> plain_q_, plain_grad_;
  };

  static Sizes SizesOf(const torch::Tensor& qkv, int64_t heads) {
    return {.rows = qkv.size(0),
            .fields = qkv.size(1),
            .heads = heads,
            .head = qkv.size(2) / 3 / heads};
  }
};

// The same as operations of libtorch, which a trace can follow.
torch::Tensor OfOperations(const torch::Tensor& qkv, int64_t heads) {
  const int64_t fields = qkv.size(1), out = qkv.size(2) / 3;
  const std::vector<torch::Tensor> parts = qkv.chunk(3, 2);
  const auto split = [&](const torch::Tensor& part) {  // rows x heads x fields x .
    return part.reshape({-1, fields, heads, out / heads}).transpose(1, 2);
  };
  const torch::Tensor q = split(parts[0]), k = split(parts[1]), v = split(parts[2]);
  const double scale = 1 / std::sqrt(static_cast<double>(q.size(3)));
  const torch::Tensor attention = torch::softmax(q.matmul(k.transpose(2, 3)) * scale, 3);
  return attention.matmul(v).transpose(1, 2).reshape({-1, fields, out});
}

}  // namespace

torch::Tensor Attend(const torch::Tensor& qkv, int64_t heads) {
  if (torch::jit::tracer::isTracing()) return OfOperations(qkv, heads);
  return Attention::apply(qkv, heads);
}

}  // namespace rubato
