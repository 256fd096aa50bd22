#include "rubato/models/fields.h"

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "rubato/params/initializer.h"

namespace rubato {
namespace {

InitializerSpec StartOfRows(ModelOptions& options) {
  InitializerSpec start = {.name = options.Text("initializer", "uniform")};
  const bool by_dim =
      absl::StartsWith(start.name, "xavier_") || absl::StartsWith(start.name, "he_");
  start.scale = options.Number("init", by_dim ? 1 : 0.01);
  const absl::Status known = Initializer::Make(start, /*seed=*/0, "fm").status();
  if (!known.ok()) options.Refuse(absl::StrCat("model_options.initializer: ", known.message()));
  return start;
}

}  // namespace

FieldsImpl::FieldsImpl(ModelSetup& setup)
    : count_(static_cast<int64_t>(AllFields(setup.shape).size())),
      dim_(setup.options.Int("dim", 16, 1)),
      numbers_(setup.options.Bool("use_dense", false)
                   ? static_cast<int64_t>(setup.shape.dense.size())
                   : 0) {
  const InitializerSpec start = StartOfRows(setup.options);
  const double l2 = setup.options.Number("l2", 0);
  const double wide_ftrl = setup.options.Number("wide_ftrl", 0);
  if (l2 < 0 || wide_ftrl < 0) setup.options.Refuse("l2 and wide_ftrl are 0 or above");
  if (!setup.servers && (l2 > 0 || wide_ftrl > 0)) {
    setup.options.Refuse(l2 > 0
                             ? "model_options.l2: it is the servers that pull rows to zero; with "
                               "strategy: allreduce use optimizer.weight_decay"
                             : "model_options.wide_ftrl: without servers there is one optimizer "
                               "for all; take it out, or use strategy: ps");
  }
  if (count_ == 0) {
    setup.options.Refuse("this model needs id columns");
    return;
  }
  table_ = register_module("table", Embedding("fm", 1 + dim_, AllFields(setup.shape), start));
  OptimizerSpec optimizer = setup.optimizer;
  (optimizer.name == "ftrl" ? optimizer.l2 : optimizer.weight_decay) += l2;
  if (l2 > 0) table_->spec().optimizer = optimizer;
  if (wide_ftrl > 0) {
    const OptimizerSpec ftrl = {.name = "ftrl", .learning_rate = wide_ftrl, .l2 = l2};
    table_->spec().groups = {{1, Zeros(), ftrl}, {dim_, start, optimizer}};
  }
}

FieldRows FieldsImpl::forward(const ModelInput& in) {
  const torch::Tensor rows = table_->forward(in);
  const torch::Tensor vectors = rows.narrow(2, 1, dim_);
  torch::Tensor flat = vectors.flatten(1);
  if (numbers_ > 0) flat = torch::cat({flat, in.dense}, 1);
  return {rows.select(2, 0).sum(1), vectors, flat};
}

torch::Tensor FieldsImpl::Numbers(const ModelInput& in) const {
  return numbers_ > 0 ? in.dense : torch::Tensor();
}

MlpOptions::MlpOptions(ModelSetup& setup)
    : hidden(setup.options.Ints("hidden", {256, 128}, 1)),
      dropout(setup.options.Number("dropout", 0)),
      batch_norm(setup.options.Bool("batch_norm", false)) {
  if (dropout < 0 || dropout >= 1) {
    setup.options.Refuse("model_options.dropout: is from 0 to below 1");
  }
  if (batch_norm && !setup.servers) {
    setup.options.Refuse(
        "model_options.batch_norm: its statistics need servers; take it out, or use strategy: ps");
  }
}

MlpImpl::MlpImpl(const std::string& name, const MlpOptions& options, int64_t in, int64_t out) {
  for (const int64_t width : options.hidden) {
    linears_->push_back(torch::nn::Linear(in, width));
    if (options.batch_norm) {
      norms_->push_back(BatchNorm(absl::StrCat(name, ".norm", norms_->size()), width));
    }
    in = width;
  }
  register_module("linears", linears_);
  register_module("norms", norms_);
  if (options.dropout > 0) {
    dropout_ = register_module("dropout", torch::nn::Dropout(options.dropout));
  }
  if (out > 0) out_ = register_module("out", torch::nn::Linear(in, out));
}

torch::Tensor MlpImpl::forward(const ModelInput& in, torch::Tensor x) {
  for (size_t i = 0; i < linears_->size(); ++i) {
    x = linears_->at<torch::nn::LinearImpl>(i).forward(x);
    if (!norms_->is_empty()) x = norms_->at<BatchNormImpl>(i).forward(in, x);
    x = torch::relu_(x);
    if (!dropout_.is_empty()) x = dropout_->forward(x);
  }
  return out_.is_empty() ? x : out_->forward(x);
}

}  // namespace rubato
