// Bytes that grow without being cleared and keep their room for the next message: what frames are
// built in. Starts at a cache line. Lies in the heap, unless a BufferMemory has room for it.
#ifndef RUBATO_NET_BUFFER_H_
#define RUBATO_NET_BUFFER_H_

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <memory>
#include <new>
#include <utility>

#include "absl/strings/string_view.h"

namespace rubato {

// Memory that is better than the heap's for what is built in it. Outlives what it gave; who uses it
// says from which threads.
class BufferMemory {
 public:
  virtual ~BufferMemory() = default;
  // At a multiple of 64; null if there is no room.
  virtual char* Take(size_t bytes) = 0;
  virtual void Give(char* begin, size_t bytes) = 0;
};

class Buffer {
 public:
  explicit Buffer(std::shared_ptr<BufferMemory> memory = nullptr) : memory_(std::move(memory)) {}

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
    Bytes grown = Allocate(capacity);
    if (size_ > 0) std::memcpy(grown.get(), bytes_.get(), size_);
    bytes_ = std::move(grown);
    capacity_ = capacity;
  }

 private:
  struct Free {
    std::shared_ptr<BufferMemory> from;  // Null: the heap.
    size_t bytes;
    void operator()(char* p) const {
      if (from != nullptr) return from->Give(p, bytes);
      ::operator delete[](p, std::align_val_t{64});
    }
  };
  using Bytes = std::unique_ptr<char[], Free>;

  Bytes Allocate(size_t bytes) const {
    if (char* place = memory_ == nullptr ? nullptr : memory_->Take(bytes)) {
      return Bytes(place, {memory_, bytes});
    }
    return Bytes(new (std::align_val_t{64}) char[bytes]);
  }

  std::shared_ptr<BufferMemory> memory_;
  Bytes bytes_;
  size_t size_ = 0;
  size_t capacity_ = 0;
};

}  // namespace rubato

#endif  // RUBATO_NET_BUFFER_H_
