// Free GPUs of one pool over time: the planner's one data structure.
//
//   free
//    64 |            ________
//    32 |____   ____|        |______ ... for ever
//     0 |    |_|
//       +------------------------------ t
//      start
//
// A sorted step function in one flat array, so that walking back from a deadline is a walk over
// neighbours, and a copy to try something out on is one memcpy.
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

#include "absl/types/span.h"

namespace rubato {

class Profile {
 public:
  struct Step {
    double from_s = 0;
    int free = 0;
    friend bool operator==(const Step&, const Step&) = default;
  };

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

  double start_s() const { return steps_.front().from_s; }
  size_t size() const { return steps_.size(); }
  const std::vector<Step>& steps() const { return steps_; }
  // Where step i ends: the next one's start, or never.
  double EndOf(size_t i) const {
    return i + 1 < steps_.size() ? steps_[i + 1].from_s : std::numeric_limits<double>::infinity();
  }
  // The step that holds `at_s`; the first if it lies before the start.
  size_t Find(double at_s) const;

  int At(double at_s) const { return steps_[Find(at_s)].free; }
  // The least free in [from_s, to_s); of an empty range, the value at from_s.
  int Min(double from_s, double to_s) const;
  // Adds `gpus` in [from_s, to_s), which may reach to kNever. What lies before the start is cut.
  void Add(double from_s, double to_s, int gpus);
  struct Piece {
    double from_s, to_s;
    int gpus;
  };
  // Takes each piece's GPUs, all in one walk. Ascending; each within one step, and no two in one.
  void Take(absl::Span<const Piece> pieces);

  std::string ToString() const;  // "0:32 60:0 90:32", for tests and messages.

 private:
  // Makes a step begin at `at_s` and returns it; size() if at_s is kNever.
  size_t Cut(double at_s);
  void Merge(size_t i);  // Drops step i if it equals its left neighbour.

  std::vector<Step> steps_;    // Never empty.
  std::vector<Step> scratch_;  // For Take; a member to keep its memory.
};

}  // namespace rubato

#endif  // RUBATO_SCHEDULE_PROFILE_H_
