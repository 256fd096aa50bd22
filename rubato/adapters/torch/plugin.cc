#include "rubato/adapters/torch/plugin.h"

#include <dlfcn.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <sstream>

#include "absl/strings/str_cat.h"
#include "rubato/adapters/torch/abi.h"
#include "rubato/base/status.h"

namespace rubato {
namespace {

// What the plug-in was built for, read from its bytes before any of its code runs.
absl::StatusOr<std::string> ReadAbi(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) {
    return absl::NotFoundError(absl::StrCat("model ", path, ": ", std::strerror(errno)));
  }
  std::stringstream bytes;
  bytes << file.rdbuf();
  const std::string& text = bytes.str();
  const std::string prefix = RUBATO_MODEL_STAMP_PREFIX;
  const size_t at = text.find(prefix);
  if (at == std::string::npos) {
    return absl::InvalidArgumentError(
        absl::StrCat("model ", path, ": not a plug-in of Rubato; does it say RUBATO_MODEL(...)?"));
  }
  return std::string(text.c_str() + at + prefix.size());
}

}  // namespace

absl::StatusOr<ModelFactory> OpenPlugin(const std::string& path) {
  RUBATO_ASSIGN_OR_RETURN(const std::string abi, ReadAbi(path));
  if (abi != RUBATO_MODEL_ABI) {
    return absl::FailedPreconditionError(absl::StrCat("model ", path, " was built for ", abi,
                                                      ", and this is ", RUBATO_MODEL_ABI,
                                                      ": build it again"));
  }
  // A path without a slash would be looked for in the system's folders.
  const std::string file = path.find('/') == std::string::npos ? absl::StrCat("./", path) : path;
  void* library = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    return absl::FailedPreconditionError(absl::StrCat("model ", path, ": ", dlerror()));
  }
  using Make = TorchModel* (*)(ModelSetup&);
  const auto make = reinterpret_cast<Make>(dlsym(library, "rubato_make_model"));
  if (make == nullptr) {
    return absl::InvalidArgumentError(absl::StrCat("model ", path, ": ", dlerror()));
  }
  return ModelFactory(make);
}

}  // namespace rubato
