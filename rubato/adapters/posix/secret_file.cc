#include "rubato/adapters/posix/secret_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <random>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "rubato/adapters/files/files.h"
#include "rubato/base/status.h"

namespace rubato {

absl::StatusOr<std::string> ReadSecret(const std::string& path) {
  RUBATO_ASSIGN_OR_RETURN(const std::string text, ReadWholeFile(path));
  struct stat about = {};
  if (stat(path.c_str(), &about) != 0) return PathError(errno, "look at", path);
  if ((about.st_mode & (S_IRWXG | S_IRWXO)) != 0) {
    return absl::InvalidArgumentError(
        absl::StrFormat("%s: others may read or write it (mode %03o); a secret needs `chmod 600`",
                        path, about.st_mode & 0777u));
  }
  const absl::string_view secret = absl::StripAsciiWhitespace(text);
  if (secret.empty()) return absl::InvalidArgumentError(absl::StrCat(path, ": is empty"));
  return std::string(secret);
}

absl::StatusOr<std::string> ReadOrMakeSecret(const std::string& path) {
  if (PathExists(path)) return ReadSecret(path);
  std::random_device random;
  std::string secret;
  for (int i = 0; i < 4; ++i) absl::StrAppend(&secret, absl::Hex(random(), absl::kZeroPad8));
  const std::string made = absl::StrCat(path, ".", getpid());
  {
    RUBATO_ASSIGN_OR_RETURN(const FileDescriptor file,
                            OpenFile(made, O_WRONLY | O_CREAT | O_TRUNC, 0600));
    RUBATO_RETURN_IF_ERROR(WriteAll(file.get(), secret + "\n", made));
  }
  // A link is there whole or not at all, and the first one stays.
  const int linked = link(made.c_str(), path.c_str()) == 0 ? 0 : errno;
  unlink(made.c_str());
  if (linked != 0 && linked != EEXIST) return PathError(linked, "make", path);
  return ReadSecret(path);
}

}  // namespace rubato
