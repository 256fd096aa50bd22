// Interact() and Attend() against the same as operations of libtorch, values and gradients, for
// sizes that fill lanes and such that do not; and every build of their loops against the plain one.
#include <gtest/gtest.h>
#include <torch/torch.h>

#include "absl/strings/str_cat.h"
#include "rubato/models/attention.h"
#include "rubato/models/interaction.h"
#include "rubato/models/lane_kernels.h"

namespace rubato {
namespace {

using Function = std::function<torch::Tensor(const std::vector<torch::Tensor>&)>;

// What it gives, and the gradient of each input, of some sum of that.
std::vector<torch::Tensor> Run(const Function& function, const std::vector<torch::Tensor>& inputs) {
  std::vector<torch::Tensor> leaves;
  for (const torch::Tensor& input : inputs) {
    leaves.push_back(input.clone().set_requires_grad(true));
  }
  std::vector<torch::Tensor> found = {function(leaves)};
  const torch::Tensor weights = torch::arange(found[0].numel()).reshape(found[0].sizes()).cos();
  (found[0] * weights).sum().backward();
  for (const torch::Tensor& leaf : leaves) found.push_back(leaf.grad());
  return found;
}

void ExpectAlike(const Function& ours, const Function& plain,
                 const std::vector<torch::Tensor>& inputs, const std::string& what,
                 double allowed = 2e-6) {
  const auto found = Run(ours, inputs), expected = Run(plain, inputs);
  for (size_t i = 0; i < expected.size(); ++i) {
    ASSERT_EQ(found[i].sizes(), expected[i].sizes()) << what;
    const double size = expected[i].abs().max().item<double>();
    const double distance = (found[i] - expected[i]).abs().max().item<double>();
    EXPECT_LT(distance, allowed * (1 + size)) << what << ", " << i;
  }
}

torch::Tensor PlainInteract(const torch::Tensor& maps, const torch::Tensor& vectors,
                            const torch::Tensor& weight) {
  const torch::Tensor w = weight.view({weight.size(0), maps.size(1), vectors.size(1)});
  return torch::einsum("hij,bid,bjd->bhd", {w, maps, vectors});
}

TEST(LanesTest, InteractIsWhatItsSumSays) {
  torch::manual_seed(1);
  struct Case {
    int64_t rows, before, fields, after, dim;
  };
  for (const auto& [rows, before, fields, after, dim] :
       {Case{5, 16, 39, 16, 16}, {3, 4, 3, 5, 4}, {2, 1, 1, 1, 1}, {4, 7, 6, 20, 33}}) {
    const std::string what = absl::StrCat(before, " ", fields, " ", after, " ", dim);
    const torch::Tensor maps = torch::randn({rows, before, dim});
    const torch::Tensor vectors = torch::randn({rows, fields, dim});
    ExpectAlike([](const auto& in) { return Interact(in[0], in[1], in[2]); },
                [](const auto& in) { return PlainInteract(in[0], in[1], in[2]); },
                {maps, vectors, torch::randn({after, before * fields})}, what);
    ExpectAlike([](const auto& in) { return Interact({}, in[0], in[1]); },
                [](const auto& in) { return PlainInteract(in[0], in[0], in[1]); },
                {vectors, torch::randn({after, fields * fields})}, "square " + what);
  }
}

torch::Tensor PlainAttend(const torch::Tensor& qkv, int64_t heads) {
  const int64_t rows = qkv.size(0), fields = qkv.size(1), head = qkv.size(2) / 3 / heads;
  const torch::Tensor parts = qkv.view({rows, fields, 3, heads, head});
  const torch::Tensor q = parts.select(2, 0), k = parts.select(2, 1), v = parts.select(2, 2);
  const torch::Tensor s = torch::einsum("bihd,bjhd->bhij", {q, k}) / std::sqrt(double(head));
  return torch::einsum("bhij,bjhd->bihd", {s.softmax(3), v}).reshape({rows, fields, -1});
}

TEST(LanesTest, AttendIsWhatItsFormulaSays) {
  torch::manual_seed(2);
  struct Case {
    int64_t rows, fields, heads, head;
    double size;  // Of what goes in: large ones make one field all that counts.
  };
  for (const auto& [rows, fields, heads, head, size] : {Case{5, 39, 2, 8, 1},
                                                        {3, 16, 1, 16, 1},
                                                        {2, 1, 1, 1, 1},
                                                        {4, 17, 3, 5, 0.01},
                                                        {3, 20, 2, 7, 8}}) {
    const torch::Tensor qkv = size * torch::randn({rows, fields, 3 * heads * head});
    const int64_t h = heads;
    ExpectAlike([h](const auto& in) { return Attend(in[0], h); },
                [h](const auto& in) { return PlainAttend(in[0], h); }, {qkv},
                absl::StrCat(fields, " ", heads, " ", head, " ", size),
                // Of exponents above 100 the last bits are as much.
                size > 1 ? 2e-5 : 2e-6);
  }
}

// A model that is beyond help must not look as if it were not.
TEST(LanesTest, WhatIsNoNumberIsTold) {
  torch::Tensor qkv = torch::randn({1, 5, 12});
  qkv[0][2][0] = NAN;
  EXPECT_TRUE(Attend(qkv, 2).isnan().any().item<bool>());
  torch::Tensor vectors = torch::randn({1, 5, 4});
  vectors[0][2][0] = NAN;
  EXPECT_TRUE(Interact({}, vectors, torch::randn({3, 25})).isnan().any().item<bool>());
}

TEST(LanesTest, AllBuildsComputeTheSame) {
  torch::manual_seed(3);
  std::vector<const LaneKernels*> builds = {&ChosenLanes()};
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) {
    builds.push_back(&kLanesAvx2);
  }
#endif
  const InteractionSizes n = {.rows = 2, .before = 6, .fields = 6, .after = 16, .dim = 16};
  const torch::Tensor v = torch::randn({2, 6, 16}), w = torch::randn({36, 16});
  const torch::Tensor g = torch::randn({2, 16, 16});
  const AttentionSizes a = {.rows = 1, .fields = 16, .heads = 1, .head = 4};
  const torch::Tensor q = torch::randn({4, 16}), kv = torch::randn({2, 16, 4});
  const auto run = [&](const LaneKernels& lanes) {
    const auto at = [](const torch::Tensor& x) { return x.data_ptr<float>(); };
    std::vector<torch::Tensor> made = {torch::zeros({2, 16, 16}), torch::zeros({2, 6, 16}),
                                       torch::zeros({2, 6, 16}),  torch::zeros({36, 16}),
                                       torch::zeros({4, 16}),     torch::zeros({16})};
    torch::Tensor turned = torch::zeros({256}), room = torch::zeros({16, 16});
    lanes.interact(n, at(v), at(v), at(w), at(made[0]));
    lanes.interact_back(n, at(v), at(v), at(w), at(g), at(turned), at(made[1]), at(made[2]),
                        at(made[3]));
    lanes.ask(a, at(q), at(kv), at(kv) + 64, 4, at(room), at(made[4]), at(made[5]));
    return made;
  };
  const std::vector<torch::Tensor> expected = run(kLanesPlain);
  for (const LaneKernels* build : builds) {
    const std::vector<torch::Tensor> found = run(*build);
    for (size_t i = 0; i < expected.size(); ++i) {
      EXPECT_TRUE(found[i].allclose(expected[i], 1e-5, 1e-5)) << i;
    }
  }
}

}  // namespace
}  // namespace rubato
