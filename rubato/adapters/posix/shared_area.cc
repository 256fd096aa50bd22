#include "rubato/adapters/posix/shared_area.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <functional>
#include <iterator>
#include <utility>

#include "absl/strings/str_cat.h"
#include "rubato/base/status.h"

namespace rubato {
namespace {

size_t Rounded(size_t bytes) { return (bytes + kSharedGrain - 1) / kSharedGrain * kSharedGrain; }

absl::Status Unavailable(absl::string_view what) {
  return absl::UnavailableError(absl::StrCat("shared memory: ", what, ": ", std::strerror(errno)));
}

absl::Status Refused(absl::string_view why) {
  return absl::InvalidArgumentError(absl::StrCat("memory that cannot be shared: ", why));
}

}  // namespace

absl::StatusOr<std::unique_ptr<SharedArea>> SharedArea::Map(FileDescriptor file, size_t bytes,
                                                            bool writable) {
  void* data = mmap(nullptr, bytes, writable ? PROT_READ | PROT_WRITE : PROT_READ, MAP_SHARED,
                    file.get(), 0);
  if (data == MAP_FAILED) return Unavailable("mmap");
  return std::unique_ptr<SharedArea>(
      new SharedArea(std::move(file), static_cast<char*>(data), bytes));
}

absl::StatusOr<std::unique_ptr<SharedArea>> SharedArea::Make(size_t bytes, Others others) {
  FileDescriptor file(memfd_create("rubato", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!file.valid()) return Unavailable("memfd_create");
  if (ftruncate(file.get(), static_cast<off_t>(bytes)) != 0) return Unavailable("ftruncate");
  RUBATO_ASSIGN_OR_RETURN(auto area, Map(std::move(file), bytes, /*writable=*/true));
  // After our own mapping, which stays writable.
  int seals = F_SEAL_SHRINK | F_SEAL_GROW;
  if (others == Others::kRead) seals |= F_SEAL_FUTURE_WRITE;
  if (fcntl(area->file(), F_ADD_SEALS, seals | F_SEAL_SEAL) != 0) return Unavailable("F_ADD_SEALS");
  return area;
}

absl::StatusOr<std::unique_ptr<SharedArea>> SharedArea::Open(FileDescriptor file, Others others) {
  const int seals = fcntl(file.get(), F_GET_SEALS);
  if (seals < 0) return Refused("it is no file of memory");
  if ((seals & F_SEAL_SHRINK) == 0) return Refused("it is not sealed against shrinking");
  // Huge pages may run out when they are touched.
  struct statfs system {};
  if (fstatfs(file.get(), &system) != 0 || system.f_type != TMPFS_MAGIC) {
    return Refused("it is not of ordinary pages");
  }
  struct stat stat {};
  if (fstat(file.get(), &stat) != 0) return Unavailable("fstat");
  const auto bytes = static_cast<size_t>(stat.st_size);
  if (bytes == 0 || bytes % kSharedGrain != 0 || bytes > kSharedAreaBytesMax) {
    return Refused(absl::StrCat("it has ", bytes, " bytes, which is not whole pages of at most ",
                                kSharedAreaBytesMax, " bytes"));
  }
  return Map(std::move(file), bytes, others == Others::kWrite);
}

SharedArea::~SharedArea() { munmap(data_, size_); }

std::optional<SharedPlace> SharedArea::Find(absl::string_view bytes) const {
  const std::less<const char*> before;  // Also of pointers that have nothing to do with each other.
  if (before(bytes.data(), data_) || !before(bytes.data(), data_ + size_)) return std::nullopt;
  return SharedPlace{static_cast<uint64_t>(bytes.data() - data_), bytes.size()};
}

// ---- SharedHeap ----

SharedHeap::SharedHeap(std::unique_ptr<SharedArea> area) : area_(std::move(area)) {
  free_[0] = area_->size();
}

// The first that fits, so that the same few pages are used again and again.
char* SharedHeap::Take(size_t bytes) {
  bytes = Rounded(bytes);
  MutexLock lock(mu_);
  for (auto it = free_.begin(); it != free_.end(); ++it) {
    const auto [offset, size] = *it;
    if (size < bytes) continue;
    free_.erase(it);
    if (size > bytes) free_[offset + bytes] = size - bytes;
    return area_->data() + offset;
  }
  return nullptr;
}

void SharedHeap::Give(char* begin, size_t bytes) {
  auto offset = static_cast<size_t>(begin - area_->data());
  bytes = Rounded(bytes);
  MutexLock lock(mu_);
  const auto next = free_.find(offset + bytes);
  if (next != free_.end()) {
    bytes += next->second;
    free_.erase(next);
  }
  const auto after = free_.lower_bound(offset);
  if (after != free_.begin()) {
    const auto before = std::prev(after);
    if (before->first + before->second == offset) {
      before->second += bytes;
      return;
    }
  }
  free_[offset] = bytes;
}

}  // namespace rubato
