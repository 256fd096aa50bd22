// A list that grows without moving what it holds. A vector that doubles copies all of it while
// somebody waits; this one takes another block.
#ifndef RUBATO_PARAMS_STILL_LIST_H_
#define RUBATO_PARAMS_STILL_LIST_H_

#include <cstddef>
#include <memory>
#include <utility>
#include <vector>

namespace rubato {

template <typename T>
class StillList {
 public:
  StillList() = default;
  StillList(StillList&& other) noexcept { *this = std::move(other); }
  StillList& operator=(StillList&& other) noexcept {
    blocks_ = std::exchange(other.blocks_, {});
    size_ = std::exchange(other.size_, 0);
    return *this;
  }

  size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  const T& operator[](size_t at) const { return blocks_[at / kBlock][at % kBlock]; }
  T& operator[](size_t at) { return blocks_[at / kBlock][at % kBlock]; }
  const T& back() const { return (*this)[size_ - 1]; }

  void push_back(const T& value) {
    if (size_ == blocks_.size() * kBlock) blocks_.push_back(std::make_unique<T[]>(kBlock));
    blocks_[size_ / kBlock][size_ % kBlock] = value;
    ++size_;
  }
  // Makes it so long, by T(), unless something was taken back from it before.
  void Extend(size_t size) {
    while (blocks_.size() * kBlock < size) blocks_.push_back(std::make_unique<T[]>(kBlock));
    if (size_ < size) size_ = size;
  }
  // Keeps its blocks: what went will come again.
  void pop_back() { --size_; }

 private:
  static constexpr size_t kBlock = 4096;

  std::vector<std::unique_ptr<T[]>> blocks_;
  size_t size_ = 0;
};

}  // namespace rubato

#endif  // RUBATO_PARAMS_STILL_LIST_H_
