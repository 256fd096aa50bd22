// What a plug-in and the engine must agree on, stamped into every plug-in. Headers, class layouts
// and libtorch must be the very same: C++ gives no other promise between two libraries.
#ifndef RUBATO_ADAPTERS_TORCH_ABI_H_
#define RUBATO_ADAPTERS_TORCH_ABI_H_

#include <torch/version.h>

#include "rubato/base/version.h"

// Grows when the model API changes between releases.
#define RUBATO_MODEL_API "1"

// Found in the file before it is opened, so that a foreign plug-in never runs a line.
#define RUBATO_MODEL_STAMP_PREFIX "rubato-model-stamp:"
#define RUBATO_MODEL_ABI \
  "rubato " RUBATO_VERSION ", model api " RUBATO_MODEL_API ", libtorch " TORCH_VERSION
#define RUBATO_MODEL_STAMP RUBATO_MODEL_STAMP_PREFIX RUBATO_MODEL_ABI

#endif  // RUBATO_ADAPTERS_TORCH_ABI_H_
