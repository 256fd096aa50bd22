#include "rubato/adapters/ring/sum_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "rubato/base/status.h"

namespace rubato {
namespace {

std::string FolderOr(std::string folder) {
  std::error_code none;
  if (folder.empty()) folder = std::filesystem::temp_directory_path(none).string();
  return folder.empty() ? "/tmp" : folder;
}

// Whether all of `bytes` went through `move`, which may take less at a time.
template <typename Move>
bool MoveAll(Move move, int64_t bytes) {
  for (int64_t done = 0; done < bytes;) {
    const ssize_t moved = move(done);
    if (moved < 0 && errno == EINTR) continue;
    if (moved == 0) errno = EIO;
    if (moved <= 0) return false;
    done += moved;
  }
  return true;
}

}  // namespace

SumFile::SumFile(std::string folder) : folder_(FolderOr(std::move(folder))) {}

absl::Status SumFile::Open() {
  file_ = Fd(open(folder_.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600));
  if (file_.valid()) return absl::OkStatus();
  std::string name = absl::StrCat(folder_, "/sums.XXXXXX");  // Not every file system knows those.
  file_ = Fd(mkostemp(name.data(), O_CLOEXEC));
  if (!file_.valid()) return Fail("made");
  unlink(name.c_str());
  return absl::OkStatus();
}

absl::Status SumFile::Fail(const char* what) const {
  return absl::ResourceExhaustedError(absl::StrCat(
      "the state is being copied, and the sums of the steps since have outgrown their ",
      "memory; the file for them in ", folder_, " cannot be ", what, ": ", std::strerror(errno)));
}

absl::StatusOr<int64_t> SumFile::Append(absl::Span<const float> values) {
  if (!file_.valid()) RUBATO_RETURN_IF_ERROR(Open());
  const auto bytes = static_cast<int64_t>(values.size() * sizeof(float));
  const auto* const from = reinterpret_cast<const char*>(values.data());
  const auto write = [&](int64_t done) {
    return pwrite(file_.get(), from + done, bytes - done, bytes_ + done);
  };
  if (!MoveAll(write, bytes)) return Fail("written");
  return std::exchange(bytes_, bytes_ + bytes);
}

absl::Status SumFile::Read(int64_t at, absl::Span<float> values) const {
  const auto bytes = static_cast<int64_t>(values.size() * sizeof(float));
  auto* const to = reinterpret_cast<char*>(values.data());
  const auto read = [&](int64_t done) {
    return pread(file_.get(), to + done, bytes - done, at + done);
  };
  return MoveAll(read, bytes) ? absl::OkStatus() : Fail("read");
}

void SumFile::Clear() {
  file_.Close();
  bytes_ = 0;
}

}  // namespace rubato
