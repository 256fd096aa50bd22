#include "rubato/base/interval_set.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace rubato {

int64_t IntervalSet::Add(int64_t begin, int64_t end) {
  if (begin >= end) return 0;
  const int64_t before = size_;
  size_ += end - begin;
  // Swallow every interval that touches [begin, end); what they share was counted twice.
  auto it = intervals_.upper_bound(begin);
  if (it != intervals_.begin() && std::prev(it)->second >= begin) --it;
  while (it != intervals_.end() && it->first <= end) {
    size_ -= std::max<int64_t>(0, std::min(end, it->second) - std::max(begin, it->first));
    begin = std::min(begin, it->first);
    end = std::max(end, it->second);
    it = intervals_.erase(it);
  }
  intervals_.emplace(begin, end);
  return size_ - before;
}

bool IntervalSet::Contains(int64_t value) const { return Covers(value, value + 1); }

bool IntervalSet::Covers(int64_t begin, int64_t end) const {
  if (begin >= end) return true;
  auto it = intervals_.upper_bound(begin);
  return it != intervals_.begin() && std::prev(it)->second >= end;
}

std::vector<Interval> IntervalSet::Intervals() const {
  std::vector<Interval> result;
  for (const auto& [begin, end] : intervals_) result.push_back({begin, end});
  return result;
}

std::vector<Interval> IntervalSet::Gaps(int64_t begin, int64_t end) const {
  std::vector<Interval> gaps;
  for (const auto& [b, e] : intervals_) {
    if (e <= begin) continue;
    if (b >= end) break;
    if (b > begin) gaps.push_back({begin, b});
    begin = std::max(begin, e);
  }
  if (begin < end) gaps.push_back({begin, end});
  return gaps;
}

IntervalSet IntervalSet::Intersect(const IntervalSet& other) const {
  IntervalSet result;
  auto a = intervals_.begin();
  auto b = other.intervals_.begin();
  while (a != intervals_.end() && b != other.intervals_.end()) {
    result.Add(std::max(a->first, b->first), std::min(a->second, b->second));
    (a->second < b->second) ? ++a : ++b;
  }
  return result;
}

std::string IntervalSet::ToString() const {
  std::string text;
  for (const auto& [begin, end] : intervals_) {
    absl::StrAppend(&text, text.empty() ? "" : " ", "[", begin, ",", end, ")");
  }
  return text.empty() ? "{}" : text;
}

}  // namespace rubato
