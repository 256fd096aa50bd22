// Free GPUs of one pool over time: the planner's one data structure.
//
//   free
//    64 |            ________
//    32 |____   ____|        |______ ... for ever
//     0 |    |_|
//       +------------------------------ t
//      start
//
// A sorted step function in two flat arrays, when and how many, so that walking back from a
// deadline is a walk over neighbours, a copy to try something out on is two memcpys, and what looks
// at, or changes, the GPUs of many steps does several at once.
//
// Neighbouring steps with the same value are one step. O(log n) to find, O(n) memmove to change,
// n being at most twice the planned pieces. Not thread-safe.
#ifndef RUBATO_SCHEDULE_PROFILE_H_
#define RUBATO_SCHEDULE_PROFILE_H_

#include <cstddef>
#include <limits>
#include <string>
#include <utility>
#include <vector>

namespace rubato {

class Profile {
 public:
  Profile(double start_s, int gpus);
  // Forgets everything, keeping the memory.
  void Reset(double start_s, int gpus);
  // Many additions to be made at once, in any order.
  class Changes {
   public:
    void Add(double from_s, double to_s, int gpus) {
      begins_.push_back({from_s, gpus});
      ends_.push_back({to_s, -gpus});
    }

   private:
    friend class Profile;
    std::vector<std::pair<double, int>> begins_, ends_;  // When, and how many more from then on.
  };
  // Forgets everything and then makes `changes`: O(n log n) for n of them, less if those who end
  // later come later.
  void Reset(double start_s, int gpus, Changes changes);

  double start_s() const { return from_s_.front(); }
  size_t size() const { return from_s_.size(); }
  double from_s(size_t i) const { return from_s_[i]; }
  int free(size_t i) const { return free_[i]; }
  // Where step i ends: the next one's start, or never.
  double EndOf(size_t i) const {
    return i + 1 < size() ? from_s_[i + 1] : std::numeric_limits<double>::infinity();
  }
  // The step that holds `at_s`; the first if it lies before the start.
  size_t Find(double at_s) const;

  int At(double at_s) const { return free_[Find(at_s)]; }
  // The least free in [from_s, to_s); of an empty range, the value at from_s.
  int Min(double from_s, double to_s) const;
  // Adds `gpus` in [from_s, to_s), which may reach to kNever. What lies before the start is cut.
  void Add(double from_s, double to_s, int gpus);
  // Of steps [first, last) the last with fewer than `gpus` free; `last` if none has.
  size_t LastBelow(size_t first, size_t last, int gpus) const;

  friend bool operator==(const Profile&, const Profile&) = default;
  std::string ToString() const;  // "0:32 60:0 90:32", for tests and messages.

 private:
  // Makes a step begin at `at_s` and returns it; size() if at_s is kNever.
  size_t Cut(double at_s);
  void Merge(size_t i);  // Drops step i if it equals its left neighbour.

  std::vector<double> from_s_;  // Of each step; never empty.
  std::vector<int> free_;       // And what is free in it.
};

}  // namespace rubato

#endif  // RUBATO_SCHEDULE_PROFILE_H_
