// A file descriptor that closes itself.
#ifndef RUBATO_ADAPTERS_TLS_FD_H_
#define RUBATO_ADAPTERS_TLS_FD_H_

#include <unistd.h>

#include <utility>

namespace rubato {

class Fd {
 public:
  Fd() = default;
  explicit Fd(int fd) : fd_(fd) {}
  ~Fd() { Close(); }
  Fd(Fd&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Fd& operator=(Fd&& other) noexcept {
    if (this != &other) {
      Close();
      fd_ = std::exchange(other.fd_, -1);
    }
    return *this;
  }

  int get() const { return fd_; }
  bool valid() const { return fd_ >= 0; }
  void Close() {
    if (fd_ >= 0) ::close(std::exchange(fd_, -1));
  }

 private:
  int fd_ = -1;
};

}  // namespace rubato

#endif  // RUBATO_ADAPTERS_TLS_FD_H_
