#include "rubato/adapters/files/can_write.h"

#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <system_error>

#include "rubato/adapters/files/files.h"

namespace rubato {
namespace fs = std::filesystem;
namespace {

fs::path ParentOf(const fs::path& path) {
  return path.has_parent_path() ? path.parent_path() : fs::path(".");
}

}  // namespace

absl::Status CheckCanWrite(const std::string& path, Folders folders) {
  fs::path folder = ParentOf(path);
  while (folders == Folders::kMade && !PathExists(folder) && folder != ParentOf(folder)) {
    folder = ParentOf(folder);
  }
  std::error_code error;
  if (PathExists(folder) && !fs::is_directory(folder, error)) {
    return PathError(ENOTDIR, "write", path);
  }
  if (access(folder.c_str(), W_OK | X_OK) == 0) return absl::OkStatus();
  return PathError(errno, "write", path);
}

}  // namespace rubato
