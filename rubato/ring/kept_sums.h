// What one that copies the state keeps meanwhile: the sums of the steps that pass, to be applied
// on top of the snapshot. It may take no more memory than it was given, however slow the copy.
//
//     asked for        the oldest sums go when there is no room: the snapshot will most likely be
//                      of a later step. If it is not, another is asked for, and all are kept until
//                      that arrives, room or not: a few steps, and there is an end to it
//     arriving         sums up to the snapshot's step go; those after it stay, all of them, and
//                      when there is no room for more no further step is taken: the others wait
//
// So the group is held up only by a copy that is slower than the memory lasts, for as long as the
// rest of it takes, and every copy that is waited for is of use.
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
  // Take no further step until the snapshot is there.
  bool full() const { return snapshot_ >= 0 && bytes_ >= bytes_max_ && !steps_.empty(); }
  void Clear() { *this = KeptSums(bytes_max_); }

  size_t bytes() const { return bytes_; }
  // Calls `what(step, sums)` for those after the snapshot, in order.
  template <typename F>
  void ForEach(F what) const {
    for (const auto& [step, kept] : steps_) what(step, kept.first);
  }

 private:
  void Trim() {
    while (!steps_.empty()) {
      const auto first = steps_.begin();
      const bool in_snapshot = first->first <= snapshot_;
      const bool no_room = snapshot_ < 0 && !keeps_all_ && bytes_ > bytes_max_ && steps_.size() > 1;
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
