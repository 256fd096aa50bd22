// This process made ready to train: threads, allocator, and a BLAS worth training with.
#ifndef RUBATO_ADAPTERS_TORCH_ENGINE_H_
#define RUBATO_ADAPTERS_TORCH_ENGINE_H_

#include <string>

#include "absl/status/statusor.h"

namespace rubato {

// One compute thread (two processes gain 1.6-1.9x where two threads gain 1.16x at best), freed
// memory kept for the next step instead of returned to the kernel, and on huge pages. Returns what
// it found: "libtorch 1.13.0, OpenBLAS 0.3.21 ... (/usr/lib/...), 93 GFLOP/s, 1 thread".
// FAILED_PRECONDITION if matrices multiply as slowly as with the reference BLAS, which trains 30
// times slower, with the package to install. Idempotent.
absl::StatusOr<std::string> PrepareEngine();

}  // namespace rubato

#endif  // RUBATO_ADAPTERS_TORCH_ENGINE_H_
