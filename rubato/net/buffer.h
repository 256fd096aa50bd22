// Bytes that grow without being cleared and keep their room for the next message: what frames are
// built in. Starts at a cache line.
#ifndef RUBATO_NET_BUFFER_H_
#define RUBATO_NET_BUFFER_H_

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <memory>
#include <new>

#include "absl/strings/string_view.h"

namespace rubato {

class Buffer {
 public:
  char* data() { return bytes_.get(); }
  size_t size() const { return size_; }
  absl::string_view view() const { return {bytes_.get(), size_}; }
  void clear() { size_ = 0; }

  // `bytes` more, with whatever is in them. Moves what is there: pointers into it end.
  char* Extend(size_t bytes) {
    Reserve(size_ + bytes);
    char* begin = bytes_.get() + size_;
    size_ += bytes;
    return begin;
  }
  // Zeros up to a multiple of 8.
  void Pad() {
    while (size_ % 8 != 0) *Extend(1) = 0;
  }
  template <typename T>
  void Put(const T& value) {
    std::memcpy(Extend(sizeof(T)), &value, sizeof(T));
  }
  void Append(const void* from, size_t bytes) {
    if (bytes > 0) std::memcpy(Extend(bytes), from, bytes);
  }
  void Reserve(size_t bytes) {
    if (bytes <= capacity_) return;
    const size_t capacity = std::max({bytes, capacity_ * 2, size_t{256}});
    std::unique_ptr<char[], Free> grown(new (std::align_val_t{64}) char[capacity]);
    if (size_ > 0) std::memcpy(grown.get(), bytes_.get(), size_);
    bytes_ = std::move(grown);
    capacity_ = capacity;
  }

 private:
  struct Free {
    void operator()(char* p) const { ::operator delete[](p, std::align_val_t{64}); }
  };
  std::unique_ptr<char[], Free> bytes_;
  size_t size_ = 0;
  size_t capacity_ = 0;
};

}  // namespace rubato

#endif  // RUBATO_NET_BUFFER_H_
