// A set of integers kept as disjoint, non-touching intervals: which batches are applied, which
// records are committed. Small when the set is nearly a prefix, as ours always are.
#ifndef RUBATO_BASE_INTERVAL_SET_H_
#define RUBATO_BASE_INTERVAL_SET_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace rubato {

struct Interval {
  int64_t begin = 0;
  int64_t end = 0;  // One past the last.
  friend bool operator==(const Interval&, const Interval&) = default;
};

class IntervalSet {
 public:
  IntervalSet() = default;

  // Adds [begin, end); returns how many of its members were new.
  int64_t Add(int64_t begin, int64_t end);
  bool Contains(int64_t value) const;
  // Whether all of [begin, end) is in the set.
  bool Covers(int64_t begin, int64_t end) const;
  // How many members the set has.
  int64_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  std::vector<Interval> Intervals() const;
  // The members of [begin, end) that are missing.
  std::vector<Interval> Gaps(int64_t begin, int64_t end) const;
  IntervalSet Intersect(const IntervalSet& other) const;
  // "[0,5) [7,9)", for messages.
  std::string ToString() const;

  friend bool operator==(const IntervalSet& a, const IntervalSet& b) {
    return a.intervals_ == b.intervals_;
  }

 private:
  std::map<int64_t, int64_t> intervals_;  // begin -> end
  int64_t size_ = 0;
};

}  // namespace rubato

#endif  // RUBATO_BASE_INTERVAL_SET_H_
