// Memory that two processes of one machine see: made by one, and handed to the other over a Unix
// socket as a file that has no name.
//
// Neither needs to trust the other. The file is sealed, so its size is for ever what was looked at,
// and no touch of it can fail (SIGBUS). What lies in it may change at any time: whoever did not
// write it copies it before looking at it.
#ifndef RUBATO_ADAPTERS_POSIX_SHARED_AREA_H_
#define RUBATO_ADAPTERS_POSIX_SHARED_AREA_H_

#include <cstddef>
#include <map>
#include <memory>
#include <optional>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "rubato/adapters/files/files.h"
#include "rubato/base/mutex.h"
#include "rubato/net/buffer.h"
#include "rubato/params/wire.h"

namespace rubato {

inline constexpr size_t kSharedAreaBytesMax = size_t{64} << 20;
inline constexpr size_t kSharedGrain = 4096;  // Where places begin: no page is of two.

class SharedArea {
 public:
  enum class Others { kRead, kWrite };  // What who is handed it may do.

  // Memory is taken as it is touched. UNAVAILABLE where the system has no such files.
  static absl::StatusOr<std::unique_ptr<SharedArea>> Make(size_t bytes, Others others);
  // One that came from somewhere. INVALID_ARGUMENT, saying why, unless it is sealed memory of at
  // most kSharedAreaBytesMax.
  static absl::StatusOr<std::unique_ptr<SharedArea>> Open(FileDescriptor file, Others others);
  ~SharedArea();
  SharedArea(const SharedArea&) = delete;
  SharedArea& operator=(const SharedArea&) = delete;

  int file() const { return file_.get(); }
  char* data() const { return data_; }
  size_t size() const { return size_; }
  // What lies there, or nothing if that is not within the area.
  std::optional<absl::Span<char>> At(const SharedPlace& place) const {
    return PlaceIn({data_, size_}, place);
  }
  // Where `bytes` lie, if that is here.
  std::optional<SharedPlace> Find(absl::string_view bytes) const;

 private:
  SharedArea(FileDescriptor file, char* data, size_t size)
      : file_(std::move(file)), data_(data), size_(size) {}
  static absl::StatusOr<std::unique_ptr<SharedArea>> Map(FileDescriptor file, size_t bytes,
                                                         bool writable);

  const FileDescriptor file_;
  char* const data_;
  const size_t size_;
};

// The free places of an area. Thread-safe.
class SharedHeap : public BufferMemory {
 public:
  explicit SharedHeap(std::unique_ptr<SharedArea> area);
  const SharedArea& area() const { return *area_; }

  char* Take(size_t bytes) override;
  void Give(char* begin, size_t bytes) override;

 private:
  const std::unique_ptr<SharedArea> area_;
  Mutex mu_;
  std::map<size_t, size_t> free_ ABSL_GUARDED_BY(mu_);  // Bytes by offset, no two adjacent.
};

}  // namespace rubato

#endif  // RUBATO_ADAPTERS_POSIX_SHARED_AREA_H_
