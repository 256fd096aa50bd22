// Names of ours and paths of libraries, which stand in the same keys of a job file.
#ifndef RUBATO_JOB_PLUGIN_NAME_H_
#define RUBATO_JOB_PLUGIN_NAME_H_

#include "absl/strings/match.h"
#include "absl/strings/string_view.h"

namespace rubato {

// Whether a model or a data format is the path of a library, not a name of ours.
inline bool IsPlugin(absl::string_view name) {
  return absl::StrContains(name, '/') || absl::EndsWith(name, ".so");
}

}  // namespace rubato

#endif  // RUBATO_JOB_PLUGIN_NAME_H_
