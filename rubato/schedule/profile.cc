#include "rubato/schedule/profile.h"

#include <algorithm>

#include "absl/strings/str_format.h"
#include "rubato/schedule/policy.h"

namespace rubato {
namespace {

// So many steps are looked at together: a plain loop over them, which compilers turn into a few
// instructions.
constexpr size_t kBlock = 32;

bool AnyBelow(const int* free, int gpus) {
  int below = 0;
  for (size_t k = 0; k < kBlock; ++k) below |= free[k] < gpus ? 1 : 0;
  return below != 0;
}

}  // namespace

Profile::Profile(double start_s, int gpus) : from_s_{start_s}, free_{gpus} {}

void Profile::Reset(double start_s, int gpus) {
  from_s_.assign(1, start_s);
  free_.assign(1, gpus);
}

void Profile::Reset(double start_s, int gpus, Changes changes) {
  Reset(start_s, gpus);
  auto &begins = changes.begins_, &ends = changes.ends_;
  std::sort(begins.begin(), begins.end());
  if (!std::is_sorted(ends.begin(), ends.end())) std::sort(ends.begin(), ends.end());
  for (size_t b = 0, e = 0; b < begins.size() || e < ends.size();) {
    const double next_b = b < begins.size() ? begins[b].first : kNever;
    const double next_e = e < ends.size() ? ends[e].first : kNever;
    const double at_s = std::max(std::min(next_b, next_e), start_s);
    for (; b < begins.size() && begins[b].first <= at_s; ++b) gpus += begins[b].second;
    for (; e < ends.size() && ends[e].first <= at_s; ++e) gpus += ends[e].second;
    if (from_s_.back() == at_s) {
      free_.back() = gpus;
    } else if (free_.back() != gpus) {
      from_s_.push_back(at_s);
      free_.push_back(gpus);
    }
  }
}

size_t Profile::Find(double at_s) const {
  if (size() == 1 || at_s < from_s_[1]) return 0;  // Most ask for the present.
  const auto after = std::upper_bound(from_s_.begin() + 1, from_s_.end(), at_s);
  return static_cast<size_t>(after - from_s_.begin()) - 1;
}

int Profile::Min(double from_s, double to_s) const {
  size_t i = Find(from_s);
  int least = free_[i];
  for (++i; i < size() && from_s_[i] < to_s; ++i) least = std::min(least, free_[i]);
  return least;
}

size_t Profile::LastBelow(size_t first, size_t last, int gpus) const {
  size_t end = last;
  while (first + kBlock <= end && !AnyBelow(&free_[end - kBlock], gpus)) end -= kBlock;
  while (first < end && free_[end - 1] >= gpus) --end;
  return first < end ? end - 1 : last;
}

size_t Profile::Cut(double at_s) {
  if (at_s == kNever) return size();
  const size_t i = Find(at_s);
  if (from_s_[i] >= at_s) return i;
  const int free = free_[i];
  from_s_.insert(from_s_.begin() + static_cast<ptrdiff_t>(i) + 1, at_s);
  free_.insert(free_.begin() + static_cast<ptrdiff_t>(i) + 1, free);
  return i + 1;
}

void Profile::Merge(size_t i) {
  if (i == 0 || i >= size() || free_[i] != free_[i - 1]) return;
  from_s_.erase(from_s_.begin() + static_cast<ptrdiff_t>(i));
  free_.erase(free_.begin() + static_cast<ptrdiff_t>(i));
}

void Profile::Add(double from_s, double to_s, int gpus) {
  from_s = std::max(from_s, start_s());
  if (gpus == 0 || !(from_s < to_s)) return;
  const size_t first = Cut(from_s);
  const size_t last = Cut(to_s);
  for (size_t i = first; i < last; ++i) free_[i] += gpus;
  Merge(last);
  Merge(first);
}

std::string Profile::ToString() const {
  std::string text;
  for (size_t i = 0; i < size(); ++i) {
    absl::StrAppendFormat(&text, "%s%g:%d", text.empty() ? "" : " ", from_s_[i], free_[i]);
  }
  return text;
}

}  // namespace rubato
