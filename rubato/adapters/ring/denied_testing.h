// For tests: what a thread meets that may not open the memory of others.
#ifndef RUBATO_ADAPTERS_RING_DENIED_TESTING_H_
#define RUBATO_ADAPTERS_RING_DENIED_TESTING_H_

#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstdarg>

#include "absl/strings/match.h"

// This thread may not.
inline thread_local bool memory_is_denied = false;

// In place of the system's, so to be included by one source of a program.
extern "C" int open(const char* path, int flags, ...) {
  if (memory_is_denied && absl::StartsWith(path, "/proc/") && absl::StrContains(path, "/fd/")) {
    errno = EACCES;
    return -1;
  }
  va_list rest;
  va_start(rest, flags);
  const int mode = va_arg(rest, int);
  va_end(rest);
  return static_cast<int>(syscall(SYS_openat, AT_FDCWD, path, flags, mode));
}

#endif  // RUBATO_ADAPTERS_RING_DENIED_TESTING_H_
