#include "rubato/params/optimizer.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "rubato/params/optimizer_kernels.h"

namespace rubato {
namespace {

const OptimizerKernels& Kernels() {
  static const OptimizerKernels& chosen = []() -> const OptimizerKernels& {
#if defined(__x86_64__)
    __builtin_cpu_init();
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl")) {
      return kKernelsAvx512;
    }
    if (__builtin_cpu_supports("avx2")) return kKernelsAvx2;
#endif
    return kKernelsPlain;
  }();
  return chosen;
}

absl::Status InRange(const OptimizerSpec& spec, absl::string_view key, double value) {
  if (std::isfinite(value) && value >= 0) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("optimizer ", spec.name, ": ", key, " is ", value,
                                                 ", but must be a number of at least 0"));
}

}  // namespace

absl::StatusOr<Optimizer> Optimizer::Make(const OptimizerSpec& spec) {
  for (const auto& [key, value] :
       {std::pair("learning_rate", spec.learning_rate), std::pair("epsilon", spec.epsilon),
        std::pair("initial_accumulator", spec.initial_accumulator)}) {
    if (absl::Status status = InRange(spec, key, value); !status.ok()) return status;
  }
  Optimizer made;
  made.constants_.learning_rate = static_cast<float>(spec.learning_rate);
  made.constants_.epsilon = static_cast<float>(spec.epsilon);
  if (spec.name == "sgd") {
    made.update_ = Kernels().sgd;
  } else if (spec.name == "adagrad") {
    made.update_ = Kernels().adagrad;
    made.slots_ = 1;
    made.initial_state_ = static_cast<float>(spec.initial_accumulator);
  } else {
    return absl::InvalidArgumentError(
        absl::StrCat("unknown optimizer '", spec.name, "'; there are sgd, adagrad"));
  }
  return made;
}

void Optimizer::InitializeState(float* row, size_t dim) const {
  std::fill(row + dim, row + row_floats(dim), initial_state_);
}

bool AllFinite(absl::Span<const float> values) {
  return Kernels().all_finite(values.data(), values.size());
}

}  // namespace rubato
