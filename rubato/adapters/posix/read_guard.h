// What the disk does not give back of a file that is mapped is no error that a reader could return:
// the process gets a SIGBUS wherever it happens to touch that page, as it does when the file is cut
// meanwhile. Unguarded it dies without a word; with this it names the file and the byte first, as
// the last line on stderr, and exits. It does not go on: what was checked may be read again, and
// other bytes in its place would then be taken for checked.
#ifndef RUBATO_ADAPTERS_POSIX_READ_GUARD_H_
#define RUBATO_ADAPTERS_POSIX_READ_GUARD_H_

#include <string>
#include <utility>

#include "absl/strings/string_view.h"

namespace rubato {

class ReadGuard {
 public:
  static constexpr int kExitCode = 74;  // EX_IOERR of sysexits.h.

  ReadGuard() = default;
  // While it lives, `bytes` are those of the file at `path`.
  ReadGuard(const std::string& path, absl::string_view bytes);
  ~ReadGuard();
  ReadGuard(ReadGuard&& other) noexcept : place_(std::exchange(other.place_, nullptr)) {}

 private:
  struct Place;
  static void Hear();
  static void Touched(int signal, void* at);

  Place* place_ = nullptr;
};

}  // namespace rubato

#endif  // RUBATO_ADAPTERS_POSIX_READ_GUARD_H_
