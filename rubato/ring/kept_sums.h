// What one that copies the state keeps meanwhile: the sums of the steps that pass, to be applied
// on top of the snapshot. Those up to the snapshot's step go as soon as that is known; those after
// it stay, all of them, until each is taken and applied.
//
// They may take no more memory than was given, however slow the copy: when there is no room (full)
// the owner keeps the next elsewhere, and here where that is. So nobody waits for a slow copy.
#ifndef RUBATO_RING_KEPT_SUMS_H_
#define RUBATO_RING_KEPT_SUMS_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <utility>

namespace rubato {

template <typename Sums>
class KeptSums {
 public:
  // Room for one step there always is.
  explicit KeptSums(size_t bytes_max) : bytes_max_(bytes_max) {}

  // `bytes` of memory; 0: they are elsewhere.
  void Keep(int64_t step, Sums sums, size_t bytes) {
    if (step <= snapshot_) return;
    steps_.insert_or_assign(step, std::make_pair(std::move(sums), bytes));
    bytes_ += bytes;
  }
  // A snapshot of the state after `step` has begun to arrive.
  void Began(int64_t step) {
    snapshot_ = step;
    while (!steps_.empty() && steps_.begin()->first <= step) TakeFirst();
  }
  // The next must be kept elsewhere.
  bool full() const { return bytes_ >= bytes_max_ && bytes_ > 0; }
  void Clear() { *this = KeptSums(bytes_max_); }

  bool empty() const { return steps_.empty(); }
  size_t bytes() const { return bytes_; }
  // The first, which is gone with it; empty() must not hold.
  std::pair<int64_t, Sums> TakeFirst() {
    auto first = steps_.extract(steps_.begin());
    bytes_ -= first.mapped().second;
    return {first.key(), std::move(first.mapped().first)};
  }

 private:
  size_t bytes_max_;
  size_t bytes_ = 0;
  int64_t snapshot_ = -1;  // None yet.
  std::map<int64_t, std::pair<Sums, size_t>> steps_;
};

}  // namespace rubato

#endif  // RUBATO_RING_KEPT_SUMS_H_
