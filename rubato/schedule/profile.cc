#include "rubato/schedule/profile.h"

#include <algorithm>

#include "absl/strings/str_format.h"
#include "rubato/schedule/policy.h"

namespace rubato {

Profile::Profile(double start_s, int gpus) : steps_{{start_s, gpus}} {}

void Profile::Reset(double start_s, int gpus) { steps_.assign(1, {start_s, gpus}); }

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
    if (steps_.back().from_s == at_s) {
      steps_.back().free = gpus;
    } else if (steps_.back().free != gpus) {
      steps_.push_back({at_s, gpus});
    }
  }
}

size_t Profile::Find(double at_s) const {
  const auto after = std::upper_bound(steps_.begin() + 1, steps_.end(), at_s,
                                      [](double t, const Step& step) { return t < step.from_s; });
  return static_cast<size_t>(after - steps_.begin()) - 1;
}

int Profile::Min(double from_s, double to_s) const {
  size_t i = Find(from_s);
  int least = steps_[i].free;
  for (++i; i < steps_.size() && steps_[i].from_s < to_s; ++i) {
    least = std::min(least, steps_[i].free);
  }
  return least;
}

size_t Profile::Cut(double at_s) {
  if (at_s == kNever) return steps_.size();
  const size_t i = Find(at_s);
  if (steps_[i].from_s >= at_s) return i;
  steps_.insert(steps_.begin() + static_cast<ptrdiff_t>(i) + 1, {at_s, steps_[i].free});
  return i + 1;
}

void Profile::Merge(size_t i) {
  if (i == 0 || i >= steps_.size() || steps_[i].free != steps_[i - 1].free) return;
  steps_.erase(steps_.begin() + static_cast<ptrdiff_t>(i));
}

void Profile::Add(double from_s, double to_s, int gpus) {
  from_s = std::max(from_s, start_s());
  if (gpus == 0 || !(from_s < to_s)) return;
  const size_t first = Cut(from_s);
  const size_t last = Cut(to_s);
  for (size_t i = first; i < last; ++i) steps_[i].free += gpus;
  Merge(last);
  Merge(first);
}

void Profile::Take(absl::Span<const Piece> pieces) {
  if (pieces.empty()) return;
  const size_t first = Find(pieces.front().from_s);
  scratch_.clear();
  bool opens = first == 0;  // The very first step has no neighbour to be one with.
  int left = opens ? 0 : steps_[first - 1].free;
  const auto put = [&](double from_s, int free) {
    if (opens || free != left) scratch_.push_back({from_s, free});
    opens = false;
    left = free;
  };
  size_t i = first;
  for (const Piece& piece : pieces) {
    if (piece.gpus == 0 || !(piece.from_s < piece.to_s)) continue;
    for (; EndOf(i) <= piece.from_s; ++i) put(steps_[i].from_s, steps_[i].free);
    const Step step = steps_[i];
    if (step.from_s < piece.from_s) put(step.from_s, step.free);
    put(piece.from_s, step.free - piece.gpus);
    if (piece.to_s < EndOf(i)) put(piece.to_s, step.free);
    ++i;
  }
  if (i == first) return;
  if (i < steps_.size() && steps_[i].free == left) ++i;
  const size_t replaced = std::min(scratch_.size(), i - first);
  const auto at =
      std::copy_n(scratch_.begin(), replaced, steps_.begin() + static_cast<ptrdiff_t>(first));
  const auto rest = scratch_.begin() + static_cast<ptrdiff_t>(replaced);
  if (rest != scratch_.end()) {
    steps_.insert(at, rest, scratch_.end());
  } else {
    steps_.erase(at, steps_.begin() + static_cast<ptrdiff_t>(i));
  }
}

std::string Profile::ToString() const {
  std::string text;
  for (const Step& step : steps_) {
    absl::StrAppendFormat(&text, "%s%g:%d", text.empty() ? "" : " ", step.from_s, step.free);
  }
  return text;
}

}  // namespace rubato
