#include "rubato/models/interaction.h"

#include <torch/csrc/autograd/custom_function.h>
#include <torch/csrc/jit/frontend/tracer.h>

#include <vector>

#include "rubato/models/lane_kernels.h"

namespace rubato {
namespace {

using Sizes = InteractionSizes;

// `weight` by pair and map, with both weights of a product that occurs twice added up.
std::vector<float> WeightsByPair(const Sizes& n, const float* weight) {
  std::vector<float> by_pair(static_cast<size_t>(n.pairs() * n.maps()));
  for (int64_t h = 0; h < n.after; ++h, weight += n.before * n.fields) {
    float* to = by_pair.data() + h;
    for (int64_t i = 0; i < n.before; ++i) {
      for (int64_t j = n.first(i); j < n.fields; ++j, to += n.maps()) {
        const bool is_twice = n.is_square && i != j;
        *to = weight[i * n.fields + j] + (is_twice ? weight[j * n.fields + i] : 0);
      }
    }
  }
  return by_pair;
}

// The same with kTile maps of all pairs one after the other.
std::vector<float> WeightsByTile(const Sizes& n, const std::vector<float>& by_pair) {
  std::vector<float> by_tile(by_pair.size());
  float* to = by_tile.data();
  for (int64_t tile = 0; tile < n.maps(); tile += kTile) {
    for (int64_t pair = 0; pair < n.pairs(); ++pair) {
      to = std::copy_n(by_pair.data() + pair * n.maps() + tile, kTile, to);
    }
  }
  return by_tile;
}

// The other way round, for the gradient.
void SpreadByPair(const Sizes& n, const std::vector<float>& by_pair, float* weight) {
  for (int64_t h = 0; h < n.after; ++h, weight += n.before * n.fields) {
    const float* from = by_pair.data() + h;
    for (int64_t i = 0; i < n.before; ++i) {
      for (int64_t j = n.first(i); j < n.fields; ++j, from += n.maps()) {
        weight[i * n.fields + j] = *from;
        if (n.is_square) weight[j * n.fields + i] = *from;
      }
    }
  }
}

// With zeros behind, in both of the last dimensions.
torch::Tensor Pad(const torch::Tensor& x, int64_t second, int64_t last) {
  if (x.size(1) == second && x.size(2) == last) return x.contiguous();
  return torch::constant_pad_nd(x, {0, last - x.size(2), 0, second - x.size(1)}).contiguous();
}

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

struct Interaction : torch::autograd::Function<Interaction> {
  // `maps` are the vectors themselves if `is_square`.
  static torch::Tensor forward(AutogradContext* ctx, const torch::Tensor& maps,
                               const torch::Tensor& vectors, const torch::Tensor& weight,
                               bool is_square) {
    const Sizes n = SizesOf(maps, vectors, weight, is_square);
    const torch::Tensor v = Pad(vectors, n.fields, n.lanes());
    const torch::Tensor m = is_square ? v : Pad(maps, n.before, n.lanes());
    const torch::Tensor w = weight.contiguous();
    torch::Tensor out = torch::empty({n.rows, n.maps(), n.lanes()});
    ChosenLanes().interact(n, m.data_ptr<float>(), v.data_ptr<float>(),
                           WeightsByTile(n, WeightsByPair(n, w.data_ptr<float>())).data(),
                           out.data_ptr<float>());
    ctx->save_for_backward({maps, vectors, weight});
    ctx->saved_data["is_square"] = is_square;
    return out.narrow(1, 0, n.after).narrow(2, 0, n.dim);
  }

  static variable_list backward(AutogradContext* ctx, variable_list grads) {
    const auto saved = ctx->get_saved_variables();
    const bool is_square = ctx->saved_data["is_square"].toBool();
    const Sizes n = SizesOf(saved[0], saved[1], saved[2], is_square);
    const torch::Tensor v = Pad(saved[1], n.fields, n.lanes());
    const torch::Tensor m = is_square ? v : Pad(saved[0], n.before, n.lanes());
    const torch::Tensor w = saved[2].contiguous(), g = Pad(grads[0], n.maps(), n.lanes());
    torch::Tensor grad_v = torch::zeros_like(v);
    torch::Tensor grad_m = is_square ? grad_v : torch::zeros_like(m);
    torch::Tensor grad_w = torch::empty_like(w);
    std::vector<float> turned(static_cast<size_t>(n.maps() * n.lanes()));
    std::vector<float> grad_by_pair(static_cast<size_t>(n.pairs() * n.maps()));
    ChosenLanes().interact_back(n, m.data_ptr<float>(), v.data_ptr<float>(),
                                WeightsByPair(n, w.data_ptr<float>()).data(), g.data_ptr<float>(),
                                turned.data(), grad_m.data_ptr<float>(), grad_v.data_ptr<float>(),
                                grad_by_pair.data());
    SpreadByPair(n, grad_by_pair, grad_w.data_ptr<float>());
    grad_v = grad_v.narrow(2, 0, n.dim);
    // With one tensor as both, autograd adds up what each of them is given.
    return {is_square ? torch::Tensor() : grad_m.narrow(2, 0, n.dim), grad_v, grad_w,
            torch::Tensor()};
  }

 private:
  static Sizes SizesOf(const torch::Tensor& maps, const torch::Tensor& vectors,
                       const torch::Tensor& weight, bool is_square) {
    return {.rows = vectors.size(0),
            .before = maps.size(1),
            .fields = vectors.size(1),
            .after = weight.size(0),
            .dim = vectors.size(2),
            .is_square = is_square};
  }
};

// The same as operations of libtorch, which a trace can follow.
torch::Tensor OfOperations(const torch::Tensor& maps, const torch::Tensor& vectors,
                           const torch::Tensor& weight) {
  const torch::Tensor products =
      maps.transpose(1, 2).unsqueeze(3) * vectors.transpose(1, 2).unsqueeze(2);
  return torch::linear(products.flatten(2), weight).transpose(1, 2);
}

}  // namespace

torch::Tensor Interact(const torch::Tensor& maps, const torch::Tensor& vectors,
                       const torch::Tensor& weight) {
  const torch::Tensor& before = maps.defined() ? maps : vectors;
  if (torch::jit::tracer::isTracing()) return OfOperations(before, vectors, weight);
  return Interaction::apply(before, vectors, weight, !maps.defined());
}

}  // namespace rubato
