#include "rubato/adapters/files/text_file.h"

#include <zlib.h>

#include <cerrno>
#include <filesystem>
#include <vector>

#include "absl/strings/str_cat.h"
#include "rubato/adapters/files/files.h"

namespace rubato {

absl::StatusOr<std::string> ReadTextFile(const std::string& path) {
  if (std::filesystem::is_directory(path)) {
    return absl::InvalidArgumentError(absl::StrCat(path, " is a folder, not a file"));
  }
  errno = 0;
  gzFile file = gzopen(path.c_str(), "rb");  // Plain files pass through unchanged.
  if (file == nullptr) return PathError(errno, "open", path);
  std::string text;
  std::vector<char> buffer(1 << 16);
  int n = 0;
  while ((n = gzread(file, buffer.data(), static_cast<unsigned>(buffer.size()))) > 0) {
    text.append(buffer.data(), static_cast<size_t>(n));
  }
  const int closed = gzclose(file);
  if (n < 0 || closed != Z_OK) {
    return absl::DataLossError(absl::StrCat(path, ": the gzip data is damaged or cut short"));
  }
  return text;
}

}  // namespace rubato
