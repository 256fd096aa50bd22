#include "rubato/adapters/posix/set_aside_log.h"

#include <cerrno>
#include <cstdio>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "rubato/adapters/files/files.h"
#include "rubato/adapters/posix/params_server_files.h"
#include "rubato/base/status.h"

namespace rubato {

absl::Status SetAsideLog(const std::string& directory, const std::string& checkpoints,
                         int64_t server, int64_t version) {
  RUBATO_RETURN_IF_ERROR(MakeDirectories(directory));
  RUBATO_ASSIGN_OR_RETURN(const FileDescriptor lock, LockDirectory(directory));
  RUBATO_ASSIGN_OR_RETURN(const std::vector<std::string> names, ListDirectory(directory));
  std::string aside;
  for (const std::string& name : names) {
    if (name == "lock" || absl::StartsWith(name, "set-aside-")) continue;
    for (int number = 1; aside.empty(); ++number) {
      const std::string folder = absl::StrCat(directory, "/set-aside-", number);
      if (!PathExists(folder)) aside = folder;
    }
    RUBATO_RETURN_IF_ERROR(MakeDirectories(aside));
    const std::string path = absl::StrCat(directory, "/", name);
    const std::string kept = absl::StrCat(aside, "/", name);
    if (rename(path.c_str(), kept.c_str()) != 0) return PathError(errno, "rename", path);
  }
  RUBATO_RETURN_IF_ERROR(SyncDirectory(directory));
  RUBATO_ASSIGN_OR_RETURN(const std::vector<int64_t> versions,
                          ListCheckpoints(checkpoints, server));
  for (const int64_t later : versions) {
    const std::string path = CheckpointPath(checkpoints, later, server);
    if (later <= version) continue;
    if (std::remove(path.c_str()) != 0) return PathError(errno, "remove", path);
  }
  return absl::OkStatus();
}

}  // namespace rubato
