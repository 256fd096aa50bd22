// A user's model in a shared library of its own: built against an installed Rubato, opened here.
#ifndef RUBATO_ADAPTERS_TORCH_PLUGIN_H_
#define RUBATO_ADAPTERS_TORCH_PLUGIN_H_

#include <string>

#include "absl/status/statusor.h"
#include "rubato/adapters/torch/torch_trainer.h"

namespace rubato {

// Opens the plug-in at `path` for good (its code may outlive any model).
//   NOT_FOUND            no such file
//   INVALID_ARGUMENT     a file without a model: RUBATO_MODEL(...) is missing
//   FAILED_PRECONDITION  built for another Rubato or libtorch (both named), or with symbols missing
absl::StatusOr<ModelFactory> OpenPlugin(const std::string& path);

}  // namespace rubato

#endif  // RUBATO_ADAPTERS_TORCH_PLUGIN_H_
