// Address space for tables: reserved wide, paid for only where it is touched.
//
// A table that never moves can hand out row numbers instead of pointers and grow in place; what it
// needs for that is a long range of zeros, on huge pages where the system has them, since a random
// row on 4 KiB pages costs two to three times as much.
#ifndef RUBATO_PARAMS_MEMORY_H_
#define RUBATO_PARAMS_MEMORY_H_

#include <cstddef>

#include "absl/status/statusor.h"

namespace rubato {

class Memory {
 public:
  virtual ~Memory() = default;
  // `bytes` of zeros starting at a multiple of 2 MiB. RESOURCE_EXHAUSTED if the system refuses.
  virtual absl::StatusOr<char*> Reserve(size_t bytes) = 0;
  virtual void Release(char* begin, size_t bytes) = 0;
};

// Memory of the operating system. The one file of the core that calls it, memory.cc, does so
// because address space is a resource like `new`, not an effect that a simulation would replace.
class SystemMemory : public Memory {
 public:
  explicit SystemMemory(bool huge_pages = true) : huge_pages_(huge_pages) {}
  absl::StatusOr<char*> Reserve(size_t bytes) override;
  void Release(char* begin, size_t bytes) override;

 private:
  bool huge_pages_;
};

// A stretch of a reservation.
struct MemoryRange {
  char* begin = nullptr;
  size_t bytes = 0;
};

// Small pages in a stretch until it is populated. Whoever comes before Populate then waits for the
// few small pages that it touches, not for huge ones to be cleared.
void HoldBack(const MemoryRange& range);

// Makes a stretch real before it is used, on huge pages, so that nobody waits for zeros later. It
// may be in use meanwhile, by any thread. Advice only: a system that cannot does nothing.
void Populate(const MemoryRange& range);

// A reservation that gives itself back.
class Region {
 public:
  Region() = default;
  static absl::StatusOr<Region> Reserve(Memory& memory, size_t bytes);
  Region(Region&& other) noexcept { *this = std::move(other); }
  Region& operator=(Region&& other) noexcept;
  ~Region();

  char* data() const { return data_; }
  size_t size() const { return size_; }

 private:
  Memory* memory_ = nullptr;
  char* data_ = nullptr;
  size_t size_ = 0;
};

}  // namespace rubato

#endif  // RUBATO_PARAMS_MEMORY_H_
