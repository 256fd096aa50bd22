// A short folder for the sockets of one run, gone when the run is.
#ifndef RUBATO_ROLES_RUN_DIRECTORY_H_
#define RUBATO_ROLES_RUN_DIRECTORY_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "rubato/adapters/files/files.h"

namespace rubato {

class RunDirectory {
 public:
  // In $TMPDIR, or in /tmp where that is missing or too long for a socket's path. Folders whose
  // run was killed are swept away on this occasion.
  static absl::StatusOr<std::unique_ptr<RunDirectory>> Make();
  ~RunDirectory();

  const std::string& path() const { return path_; }

 private:
  RunDirectory(std::string path, FileDescriptor lock)
      : path_(std::move(path)), lock_(std::move(lock)) {}

  std::string path_;
  FileDescriptor lock_;  // Held while the run lives: how a sweep knows.
};

}  // namespace rubato

#endif  // RUBATO_ROLES_RUN_DIRECTORY_H_
