#include "rubato/roles/gradient_stream.h"

#include <algorithm>

#include "rubato/base/status.h"

namespace rubato {
namespace {

int64_t FloatsOf(int64_t bytes) {
  return std::max<int64_t>(1, bytes / static_cast<int64_t>(sizeof(float)));
}

}  // namespace

GradientStream::GradientStream(const ModelSignature& signature, int64_t bucket_bytes)
    : ranges_(bucket_bytes > 0 ? CutGradient(signature, FloatsOf(bucket_bytes))
                               : std::vector<GradientRange>()),
      watch_{.ready =
                 [this](int64_t begin, int64_t end) {
                   Announced({begin, end});
                 },
             .bucket_floats = FloatsOf(bucket_bytes)} {}

void GradientStream::Begin(Replica& replica, ElasticGroup& group) {
  replica_ = &replica;
  group_ = &group;
  started_ = 0;
}

const GradientWatch* GradientStream::Watch(const StepOutput& out, int64_t rows) {
  out_ = &out;
  weight_ = static_cast<float>(rows);
  return &watch_;
}

void GradientStream::Announced(GradientRange range) {
  RUBATO_CHECK(started_ < ranges_.size() && ranges_[started_] == range);
  const float* from = out_->dense_gradient.data();
  const absl::Span<float> into = replica_->Gradient();
  for (int64_t i = range.begin; i < range.end; ++i) into[i] = weight_ * from[i];
  StartNext();
}

void GradientStream::StartNext() {
  const GradientRange& range = ranges_[started_++];
  const absl::Span<float> bucket = replica_->Gradient().subspan(range.begin, range.size());
  RUBATO_CHECK(group_->StartAllreduce(bucket).ok());  // A step is under way.
}

void GradientStream::StartRest() {
  while (started_ < ranges_.size()) StartNext();
}

}  // namespace rubato
