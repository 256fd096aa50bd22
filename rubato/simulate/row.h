// A vector that lets go of any element by moving the shorter side over its place, so that those who
// leave near either end cost little however many stay. The elements lie side by side, in order.
#ifndef RUBATO_SIMULATE_ROW_H_
#define RUBATO_SIMULATE_ROW_H_

#include <algorithm>
#include <cstddef>
#include <utility>
#include <vector>

#include "absl/types/span.h"

namespace rubato {

template <typename T>
class Row {
 public:
  size_t size() const { return items_.size() - begin_; }
  bool empty() const { return size() == 0; }
  T& operator[](size_t i) { return items_[begin_ + i]; }
  const T& operator[](size_t i) const { return items_[begin_ + i]; }
  T& back() { return items_.back(); }
  // Valid until the next push or erase.
  absl::Span<const T> span() const { return absl::MakeConstSpan(items_).subspan(begin_); }
  auto begin() const { return items_.begin() + Offset(begin_); }
  auto end() const { return items_.end(); }

  void push_back(T item) { items_.push_back(std::move(item)); }

  void erase(size_t i) {
    const auto first = items_.begin() + Offset(begin_), at = first + Offset(i);
    if (i >= size() / 2) {
      items_.erase(at);
      return;
    }
    std::move_backward(first, at, at + 1);
    // What lies before the row is given up when it is most of the memory: O(1) an element.
    if (++begin_ <= size()) return;
    items_.erase(items_.begin(), items_.begin() + Offset(begin_));
    begin_ = 0;
  }

 private:
  static ptrdiff_t Offset(size_t i) { return static_cast<ptrdiff_t>(i); }

  std::vector<T> items_;
  size_t begin_ = 0;  // Those before it have left.
};

}  // namespace rubato

#endif  // RUBATO_SIMULATE_ROW_H_
