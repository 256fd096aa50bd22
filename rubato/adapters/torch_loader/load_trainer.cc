#include "rubato/adapters/torch_loader/load_trainer.h"

#include <dlfcn.h>
#include <stdlib.h>

#include <filesystem>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "rubato/adapters/torch_loader/kernels.h"
#include "rubato/base/status.h"
#include "rubato/base/version.h"

namespace rubato {
namespace {

constexpr char kLibrary[] = "librubato_torch.so";

}  // namespace

absl::StatusOr<std::unique_ptr<Trainer>> LoadTrainer(const JobSpec& spec, const BatchShape& shape) {
  std::error_code error;
  const std::filesystem::path binary = std::filesystem::read_symlink("/proc/self/exe", error);
  const std::filesystem::path folder = binary.parent_path();
  for (const auto& place : {folder / ".." / "lib" / kLibrary, folder / kLibrary}) {
    if (std::filesystem::exists(place, error)) {
      return LoadTrainerFrom(place.lexically_normal().string(), spec, shape);
    }
  }
  return absl::NotFoundError(
      absl::StrCat(kLibrary, " is neither in ", (folder / "../lib").lexically_normal().string(),
                   " nor in ", folder.string(), ": was Rubato built with RUBATO_TORCH=ON?"));
}

absl::StatusOr<std::unique_ptr<Trainer>> LoadTrainerFrom(const std::string& library,
                                                         const JobSpec& spec,
                                                         const BatchShape& shape) {
  // Read once, when OpenBLAS is loaded: otherwise it starts a thread for every core.
  setenv("OPENBLAS_NUM_THREADS", "1", 1);
  setenv("OMP_NUM_THREADS", "1", 1);
  ChooseKernels();
  void* engine = dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (engine == nullptr) {
    return absl::NotFoundError(absl::StrCat("cannot open the engine: ", dlerror()));
  }
  const auto* version = static_cast<const char*>(dlsym(engine, "rubato_engine_version"));
  if (version == nullptr || absl::string_view(version) != kVersion) {
    return absl::FailedPreconditionError(absl::StrCat(library, " is of version ",
                                                      version != nullptr ? version : "unknown",
                                                      ", and this is ", kVersion));
  }
  using MakeTrainer = Trainer* (*)(const JobSpec&, const BatchShape&, absl::Status*);
  const auto make = reinterpret_cast<MakeTrainer>(dlsym(engine, "rubato_make_trainer"));
  if (make == nullptr) return absl::InternalError(absl::StrCat(library, ": ", dlerror()));
  absl::Status status;
  std::unique_ptr<Trainer> trainer(make(spec, shape, &status));
  RUBATO_RETURN_IF_ERROR(status);
  return trainer;
}

}  // namespace rubato
