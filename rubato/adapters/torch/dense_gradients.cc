#include "rubato/adapters/torch/dense_gradients.h"

#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/function_hook.h>
#include <torch/csrc/autograd/variable.h>

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "rubato/adapters/torch/finite.h"
#include "rubato/model/gradient_ranges.h"

namespace rubato {

using torch::autograd::variable_list;

// Called when a parameter's gradient has been put into its .grad.
class DenseGradients::Hook : public torch::autograd::FunctionPostHook {
 public:
  Hook(DenseGradients& gradients, size_t parameter)
      : gradients_(gradients), parameter_(parameter) {}
  variable_list operator()(const variable_list& outputs, const variable_list&) override {
    gradients_.Take(parameter_);
    return outputs;
  }

 private:
  DenseGradients& gradients_;
  const size_t parameter_;
};

DenseGradients::DenseGradients(std::vector<torch::Tensor> parameters,
                               const ModelSignature& signature)
    : parameters_(std::move(parameters)), signature_(signature) {
  for (size_t i = 0; i < parameters_.size(); ++i) {
    if (!parameters_[i].requires_grad()) continue;
    auto accumulator = torch::autograd::impl::grad_accumulator(parameters_[i]);
    const uintptr_t key = accumulator->add_post_hook(std::make_unique<Hook>(*this, i));
    hooks_.emplace_back(std::move(accumulator), key);
  }
}

DenseGradients::~DenseGradients() {
  for (const auto& [accumulator, key] : hooks_) accumulator->del_post_hook(key);
}

void DenseGradients::Begin(absl::Span<float> flat, const GradientWatch* watch) {
  flat_ = flat;
  watch_ = watch;
  error_ = absl::OkStatus();
  there_.assign(parameters_.size(), false);
  if (watch != nullptr) CutBuckets();
  for (size_t i = 0; i < parameters_.size(); ++i) {
    parameters_[i].mutable_grad().reset();
    if (!parameters_[i].requires_grad()) TakeZeros(i);  // Else it would hold up its bucket.
  }
}

absl::Status DenseGradients::End() {
  for (size_t i = parameters_.size(); i-- > 0;) {
    if (!there_[i]) TakeZeros(i);
  }
  flat_ = {};
  watch_ = nullptr;
  return error_;
}

void DenseGradients::CutBuckets() {
  buckets_.clear();
  announced_ = 0;
  bucket_of_.resize(parameters_.size());
  for (const GradientRange& range : CutGradient(signature_, watch_->bucket_floats)) {
    buckets_.push_back({.begin = range.begin, .end = range.end});
  }
  size_t bucket = 0;
  for (size_t i = parameters_.size(); i-- > 0;) {
    if (signature_.dense[i].offset < buckets_[bucket].begin) ++bucket;
    ++buckets_[bucket].awaited;
    bucket_of_[i] = bucket;
  }
}

void DenseGradients::Take(size_t parameter) {
  if (flat_.empty()) return;  // A backward of the user's own, outside of a step.
  const DenseParameter& spec = signature_.dense[parameter];
  if (there_[parameter]) {
    error_.Update(absl::InternalError(
        absl::StrCat("the gradient of ", spec.name, " was computed twice in one step")));
    return;
  }
  float* to = flat_.data() + spec.offset;
  torch::Tensor& grad = parameters_[parameter].mutable_grad();
  const torch::Tensor from = grad.contiguous();
  std::copy_n(from.data_ptr<float>(), spec.size, to);
  grad.reset();
  if (AnyNotFinite({to, static_cast<size_t>(spec.size)})) {
    error_.Update(
        absl::OutOfRangeError(absl::StrCat("the gradient of ", spec.name, " is not finite")));
  }
  Settle(parameter);
}

void DenseGradients::TakeZeros(size_t parameter) {
  const DenseParameter& spec = signature_.dense[parameter];
  std::fill_n(flat_.data() + spec.offset, spec.size, 0.0f);
  Settle(parameter);
}

void DenseGradients::Settle(size_t parameter) {
  there_[parameter] = true;
  if (watch_ == nullptr) return;
  --buckets_[bucket_of_[parameter]].awaited;
  for (; announced_ < buckets_.size() && error_.ok(); ++announced_) {
    const Bucket& bucket = buckets_[announced_];
    if (bucket.awaited > 0) return;
    watch_->ready(bucket.begin, bucket.end);
  }
}

}  // namespace rubato
