// manifest.json of an export: which versions wrote it, and what every other file must be.
#ifndef RUBATO_ROLES_EXPORT_MANIFEST_H_
#define RUBATO_ROLES_EXPORT_MANIFEST_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace rubato {

struct ExportManifest {
  int64_t checkpoint = 0;
  int64_t step = 0;
  std::string job, model;  // Names, for people.
  std::string script;      // "model.pt", or empty if there is none,
  std::string no_script;   // and why.
};

// Writes FOLDER/manifest.json, with size and checksum of `files`; returns the bytes of all.
absl::StatusOr<int64_t> WriteExportManifest(const std::string& folder,
                                            const ExportManifest& manifest,
                                            const std::vector<std::string>& files);

// FAILED_PRECONDITION, naming both, if it was written by another version: a model's code may have
// changed since, and its scores with it. DATA_LOSS names the file that is missing or damaged.
absl::StatusOr<ExportManifest> ReadExportManifest(const std::string& folder);

// Whether `folder` holds an export, of any version and damaged or not, and no other folder.
bool IsExport(const std::string& folder);

}  // namespace rubato

#endif  // RUBATO_ROLES_EXPORT_MANIFEST_H_
