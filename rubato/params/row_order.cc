#include "rubato/params/row_order.h"

#include <algorithm>

#include "rubato/base/status.h"

namespace rubato {

absl::StatusOr<RowOrder> RowOrder::Make(Memory& memory, uint64_t rows_max) {
  RUBATO_CHECK(rows_max < kStep);
  RowOrder order;
  RUBATO_ASSIGN_OR_RETURN(order.region_, Region::Reserve(memory, (rows_max + 1) * sizeof(Link)));
  order.links_ = reinterpret_cast<Link*>(order.region_.data());
  return order;
}

void RowOrder::Put(uint32_t row, uint32_t step, uint32_t place) {
  Remove(row);
  if (list_ == kNone || steps_[list_].step != step) FindList(step);
  Step& into = steps_[list_];
  into.in_order &= into.ends.newer == (list_ | kStep) || place > into.last;
  into.last = place;
  Append(row + 1, list_);
}

void RowOrder::FindList(uint32_t step) {
  const auto [found, is_new] = by_step_.try_emplace(step, 0);
  if (is_new && spare_.empty()) {
    spare_.push_back(static_cast<uint32_t>(steps_.size()));
    steps_.emplace_back();
  }
  if (is_new) {
    const uint32_t list = found->second = spare_.back();
    spare_.pop_back();
    steps_[list] = {.ends = {list | kStep, list | kStep}, .step = step};
  }
  list_ = found->second;
}

void RowOrder::Append(uint32_t at, uint32_t list) {
  Link& ends = steps_[list].ends;
  links_[at] = {ends.older, list | kStep};
  At(ends.older).newer = at;
  ends.older = at;
}

void RowOrder::Remove(uint32_t row) {
  const Link link = links_[row + 1];
  if (link.newer == 0) return;
  links_[row + 1] = {};
  At(link.older).newer = link.newer;
  At(link.newer).older = link.older;
  if (link.older != link.newer) return;  // Only of the last row of a step are both the same.
  const uint32_t list = link.older ^ kStep;
  by_step_.erase(steps_[list].step);
  if (list == list_) list_ = kNone;
  spare_.push_back(list);
}

std::optional<uint32_t> RowOrder::AnyOf(uint32_t step) const {
  const auto found = by_step_.find(step);
  if (found == by_step_.end()) return std::nullopt;
  return steps_[found->second].ends.newer - 1;
}

uint32_t RowOrder::Oldest(absl::FunctionRef<Place(uint32_t row)> place_of) {
  const uint32_t list = by_step_.begin()->second;
  if (!steps_[list].in_order) Sort(list, place_of);
  return steps_[list].ends.newer - 1;
}

void RowOrder::Sort(uint32_t list, absl::FunctionRef<Place(uint32_t row)> place_of) {
  Step& step = steps_[list];
  std::vector<uint32_t> rows;
  for (uint32_t at = step.ends.newer; (at & kStep) == 0; at = links_[at].newer) {
    rows.push_back(at - 1);
  }
  std::vector<std::pair<Place, uint32_t>> places;  // Apart: one look-up need not wait for another.
  places.reserve(rows.size());
  for (const uint32_t row : rows) places.emplace_back(place_of(row), row);
  std::sort(places.begin(), places.end());
  step.ends = {list | kStep, list | kStep};
  for (const auto& [place, row] : places) Append(row + 1, list);
  step.last = places.back().first.place;
  step.in_order = true;
}

}  // namespace rubato
