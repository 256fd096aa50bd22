#include "rubato/roles/run_directory.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/file.h>

#include <cerrno>
#include <filesystem>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "rubato/base/status.h"

namespace rubato {
namespace {

namespace fs = std::filesystem;

constexpr char kPrefix[] = "rubato.";
constexpr size_t kLongest = 60;  // A socket's path may have 107 characters, its name included.

std::string Place() {
  std::error_code error;
  const fs::path path = fs::temp_directory_path(error);
  return error || path.native().size() > kLongest ? "/tmp" : path.native();
}

// What a run that was killed could not remove: its lock is there, and free.
void Sweep(const std::string& place) {
  std::error_code error;
  for (const fs::directory_entry& entry : fs::directory_iterator(place, error)) {
    if (!absl::StartsWith(entry.path().filename().native(), kPrefix)) continue;
    const absl::StatusOr<FileDescriptor> lock = OpenFile(entry.path().native() + "/lock", O_RDWR);
    if (!lock.ok() || flock(lock->get(), LOCK_EX | LOCK_NB) != 0) continue;
    (void)RemoveTree(entry.path().native());
  }
}

}  // namespace

absl::StatusOr<std::unique_ptr<RunDirectory>> RunDirectory::Make() {
  const std::string place = Place();
  Sweep(place);
  while (true) {
    std::string path = absl::StrCat(place, "/", kPrefix, "XXXXXX");
    if (mkdtemp(path.data()) == nullptr) return PathError(errno, "make a folder like", path);
    RUBATO_ASSIGN_OR_RETURN(FileDescriptor lock, OpenFile(path + "/lock", O_RDWR | O_CREAT));
    const bool locked = flock(lock.get(), LOCK_EX | LOCK_NB) == 0;
    // Another run's sweep may have come between the two lines above.
    if (!locked || !PathExists(path + "/lock")) continue;
    return std::unique_ptr<RunDirectory>(new RunDirectory(std::move(path), std::move(lock)));
  }
}

RunDirectory::~RunDirectory() { (void)RemoveTree(path_); }

}  // namespace rubato
