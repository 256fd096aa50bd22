#include "rubato/params/memory.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <iterator>
#include <utility>

#include "absl/strings/str_cat.h"
#include "rubato/base/status.h"

namespace rubato {
namespace {

constexpr size_t kHugePage = size_t{2} << 20;
constexpr size_t kSmallPage = 4096;  // Or more: then there are fewer of them.
constexpr size_t RoundUp(size_t bytes) { return (bytes + kHugePage - 1) / kHugePage * kHugePage; }

#ifndef MADV_POPULATE_WRITE  // Of Linux 5.14.
#define MADV_POPULATE_WRITE 23
#endif
#ifndef MADV_COLLAPSE  // Of Linux 6.1.
#define MADV_COLLAPSE 25
#endif

// How much of a huge page is there.
size_t BytesThere(void* page) {
  unsigned char there[kHugePage / kSmallPage] = {};
  if (mincore(page, kHugePage, there) != 0) return 0;
  const auto count =
      std::count_if(std::begin(there), std::end(there), [](auto t) { return t & 1; });
  return static_cast<size_t>(count) * static_cast<size_t>(sysconf(_SC_PAGESIZE));
}

void PopulateHugePage(void* page) {
  const size_t there = BytesThere(page);
  madvise(page, kHugePage, MADV_HUGEPAGE);
  if (there == 0) madvise(page, kHugePage, MADV_POPULATE_WRITE);
  // Someone was faster, and got small pages. They become one once all are there; as long as more
  // are being asked for, that would keep whoever asks waiting.
  if (there == kHugePage) madvise(page, kHugePage, MADV_COLLAPSE);
}

}  // namespace

absl::StatusOr<char*> SystemMemory::Reserve(size_t bytes) {
  // One huge page more than asked, so that an aligned range lies within; the ends are given back.
  const size_t size = RoundUp(bytes);
  void* raw = mmap(nullptr, size + kHugePage, PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (raw == MAP_FAILED) {
    return absl::ResourceExhaustedError(
        absl::StrCat("the system refuses ", size, " bytes of address space: ", strerror(errno),
                     "; raise `ulimit -v`, or allow more by vm.overcommit_memory"));
  }
  char* begin = static_cast<char*>(raw);
  const size_t head =
      RoundUp(reinterpret_cast<uintptr_t>(begin)) - reinterpret_cast<uintptr_t>(begin);
  if (head > 0) munmap(begin, head);
  if (head < kHugePage) munmap(begin + head + size, kHugePage - head);
  // Advice only: a kernel without huge pages serves small ones.
  if (huge_pages_) madvise(begin + head, size, MADV_HUGEPAGE);
  return begin + head;
}

void SystemMemory::Release(char* begin, size_t bytes) { munmap(begin, RoundUp(bytes)); }

void HoldBack(const MemoryRange& range) {
  const uintptr_t begin = RoundUp(reinterpret_cast<uintptr_t>(range.begin));
  const uintptr_t end = RoundUp(reinterpret_cast<uintptr_t>(range.begin) + range.bytes);
  if (begin < end) madvise(reinterpret_cast<void*>(begin), end - begin, MADV_NOHUGEPAGE);
}

void Populate(const MemoryRange& range) {
  const auto begin = reinterpret_cast<uintptr_t>(range.begin) / kHugePage * kHugePage;
  const auto end = RoundUp(reinterpret_cast<uintptr_t>(range.begin) + range.bytes);
  // One by one: a huge page that is allowed and not yet there would be cleared by whoever needs it.
  for (uintptr_t page = begin; page < end; page += kHugePage) {
    PopulateHugePage(reinterpret_cast<void*>(page));
  }
}

absl::StatusOr<Region> Region::Reserve(Memory& memory, size_t bytes) {
  Region region;
  RUBATO_ASSIGN_OR_RETURN(region.data_, memory.Reserve(bytes));
  region.memory_ = &memory;
  region.size_ = bytes;
  return region;
}

Region& Region::operator=(Region&& other) noexcept {
  std::swap(memory_, other.memory_);
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  return *this;
}

Region::~Region() {
  if (data_ != nullptr) memory_->Release(data_, size_);
}

}  // namespace rubato
