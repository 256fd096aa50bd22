// Finds the engine at run time. libtorch takes 0.4 s and 300 MB to load, and only workers need it,
// so it lives in librubato_torch.so, which this opens; the binary itself does not link it.
#ifndef RUBATO_ADAPTERS_TORCH_LOADER_LOAD_TRAINER_H_
#define RUBATO_ADAPTERS_TORCH_LOADER_LOAD_TRAINER_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "rubato/data/batch.h"
#include "rubato/job/job_spec.h"
#include "rubato/model/trainer.h"

namespace rubato {

// The job's model, ready to step. `shape` is what the job's format gives; a model with a parser of
// its own ignores it.
//   NOT_FOUND            no such zoo model (with a suggestion), plug-in file or engine library
//   INVALID_ARGUMENT     an option the model does not know or cannot use, columns it lacks
//   FAILED_PRECONDITION  a plug-in built for another version (both named); an unusable BLAS
// Call it before other threads start: it sets the process's compute threads and allocator.
absl::StatusOr<std::unique_ptr<Trainer>> LoadTrainer(const JobSpec& spec, const BatchShape& shape);

// As above with the engine at `library`; LoadTrainer looks for lib/librubato_torch.so beside the
// running binary's folder, then in that folder.
absl::StatusOr<std::unique_ptr<Trainer>> LoadTrainerFrom(const std::string& library,
                                                         const JobSpec& spec,
                                                         const BatchShape& shape);

}  // namespace rubato

#endif  // RUBATO_ADAPTERS_TORCH_LOADER_LOAD_TRAINER_H_
