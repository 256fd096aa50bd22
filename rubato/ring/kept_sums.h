// What one that copies the state keeps meanwhile: the sums of the steps that pass, to be applied
// on top of the snapshot. They may take no more memory than was given, however slow the copy:
//
//     asked for        the oldest sums go when there is no room: the snapshot will most likely be
//                      of a later step. If it is not, another is asked for, and none goes any more
//     arriving         sums up to the snapshot's step go; those after it stay, all of them
//     there            the first is taken, applied, and gone, until none is left
//
// When none may go and there is no room (full), the owner keeps the next elsewhere, and here where
// that is: nobody waits for a slow copy. It is caught up with a few sums at a time, for the others
// wait for as long as that takes.
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
    steps_.insert_or_assign(step, std::make_pair(std::move(sums), bytes));
    bytes_ += bytes;
    Trim();
  }
  // A snapshot of the state after `step` has begun to arrive.
  void Began(int64_t step) {
    snapshot_ = step;
    Trim();
  }
  // Whether what is kept leads from the snapshot to the last step; if not, BeginAnew() and ask for
  // another.
  bool useful() const { return snapshot_ < 0 || snapshot_ >= dropped_; }
  void BeginAnew() {
    Clear();
    keeps_all_ = true;
  }
  // The next must be kept elsewhere.
  bool full() const { return MustKeep() && bytes_ >= bytes_max_ && bytes_ > 0; }
  void Clear() { *this = KeptSums(bytes_max_); }

  bool empty() const { return steps_.empty(); }
  size_t bytes() const { return bytes_; }
  // The first after the snapshot, which is gone with it; empty() must not hold.
  std::pair<int64_t, Sums> TakeFirst() {
    auto first = steps_.extract(steps_.begin());
    bytes_ -= first.mapped().second;
    return {first.key(), std::move(first.mapped().first)};
  }

 private:
  bool MustKeep() const { return snapshot_ >= 0 || keeps_all_; }
  void Trim() {
    while (!steps_.empty()) {
      const auto first = steps_.begin();
      const bool in_snapshot = first->first <= snapshot_;
      const bool no_room = !MustKeep() && bytes_ > bytes_max_ && steps_.size() > 1;
      if (!in_snapshot && !no_room) return;
      if (no_room) dropped_ = first->first;
      bytes_ -= first->second.second;
      steps_.erase(first);
    }
  }

  size_t bytes_max_;
  size_t bytes_ = 0;
  int64_t snapshot_ = -1;  // None yet.
  int64_t dropped_ = -1;   // The last that went for want of room.
  bool keeps_all_ = false;
  std::map<int64_t, std::pair<Sums, size_t>> steps_;
};

}  // namespace rubato

#endif  // RUBATO_RING_KEPT_SUMS_H_
