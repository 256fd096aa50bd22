#include "rubato/params/row_index.h"

#include <algorithm>
#include <utility>

#include "rubato/base/status.h"

namespace rubato {
namespace {

// Stretching begins at this load, and goes on to kGrowth times the groups: an entry takes between
// 12.8 / 0.72 and 12.8 / 0.6 bytes. Fuller would spill more often into a second line.
constexpr double kLoadMax = 0.72;
constexpr double kGrowth = 1.2;
// Groups moved with every insertion while stretching. Four would do to be in time.
constexpr uint64_t kGroupsPerInsert = 5;
// Room for what the last homes push on.
constexpr uint64_t kTailGroups = 4096;
// The next stretching is near when one in so many of the entries before it is missing.
constexpr uint64_t kNear = 10;
// Memory is named in pieces, and not at all if it is less than a quarter of one.
constexpr uint64_t kPieceGroups = (uint64_t{4} << 20) / sizeof(RowGroup);

}  // namespace

absl::StatusOr<RowIndex> RowIndex::Make(Memory& memory, uint64_t rows_max, double share) {
  RUBATO_CHECK(rows_max < kAbsent && share > 0 && share <= 1);
  RowIndex index;
  index.rows_asked_ = rows_max;
  const double groups_max = static_cast<double>(rows_max) * kGrowth / (kLoadMax * kSlots * share);
  RUBATO_ASSIGN_OR_RETURN(
      index.region_,
      Region::Reserve(memory,
                      (static_cast<uint64_t>(groups_max * kGrowth) + kTailGroups) * sizeof(Group)));
  index.groups_ = reinterpret_cast<Group*>(index.region_.data());
  index.groups_max_ = static_cast<uint64_t>(groups_max);
  index.SetShare(share);
  return index;
}

uint64_t RowIndex::RowsFor(uint64_t groups) const {
  return static_cast<uint64_t>(kLoadMax * kSlots * share_ * static_cast<double>(groups));
}

void RowIndex::SetShare(double share) {
  share_ = share;
  rows_max_ = std::min(rows_asked_, static_cast<uint64_t>(static_cast<double>(groups_max_) /
                                                          kGrowth * kLoadMax * kSlots * share_) +
                                        1);
  rows_max_ = std::max(rows_max_, size_);
  size_to_grow_ = RowsFor(groups_next_);
}

void RowIndex::Reserve(uint64_t rows) {
  rows = std::min(rows, rows_max_);
  const uint64_t wanted =
      static_cast<uint64_t>(static_cast<double>(rows) / (kLoadMax * kSlots * share_)) + 1;
  if (wanted <= groups_next_) return;
  if (size_ == 0) {
    groups_now_ = groups_next_ = wanted;
    frontier_ = 0;
    size_to_grow_ = RowsFor(wanted);
    return;
  }
  if (groups_now_ != groups_next_) Stretch(UINT64_MAX);
  StartStretch(wanted);
  Stretch(UINT64_MAX);
}

void RowIndex::Insert(uint64_t key, uint32_t row) {
  if (groups_now_ != groups_next_) {
    Stretch(kGroupsPerInsert);
  } else if (size_ >= size_to_grow_) {
    StartStretch(static_cast<uint64_t>(static_cast<double>(groups_now_) * kGrowth));
  }
  Put(key, row);
  ++size_;
}

void RowIndex::Put(uint64_t key, uint32_t row) {
  uint64_t g = Home(key);
  for (;; ++g) {
    Group& group = groups_[g];
    // Entries of the old layout may come to lie among those already moved.
    if (key < frontier_) cursor_ = std::max(cursor_, g + 1);
    if (group.count < kSlots) {
      group.keys[group.count] = key;
      group.rows[group.count] = row;
      ++group.count;
      break;
    }
    // Full: the largest key moves on, so that order is kept and no entry strays far.
    uint64_t* largest = std::max_element(group.keys, group.keys + kSlots);
    if (*largest > key) {
      std::swap(*largest, key);
      std::swap(group.rows[largest - group.keys], row);
    }
  }
  end_ = std::max(end_, g + 1);
}

void RowIndex::Replace(uint64_t key, uint32_t row) {
  for (Group* group = &groups_[Home(key)];; ++group) {
    if (const uint32_t match = group->Match(key); match != 0) {
      group->rows[std::countr_zero(match)] = row;
      return;
    }
    RUBATO_CHECK(group->count == kSlots);
  }
}

uint32_t RowIndex::Erase(uint64_t key) {
  for (uint64_t g = Home(key);; ++g) {
    Group& group = groups_[g];
    if (const uint32_t match = group.Match(key); match != 0) {
      const auto slot = static_cast<uint32_t>(std::countr_zero(match));
      const uint32_t row = group.rows[slot];
      RemoveSlot(g, slot);
      --size_;
      return row;
    }
    if (group.count < kSlots) return kAbsent;
  }
}

void RowIndex::RemoveSlot(uint64_t g, uint32_t slot) {
  Group& group = groups_[g];
  const bool was_full = group.count == kSlots;
  --group.count;
  group.keys[slot] = group.keys[group.count];
  group.rows[slot] = group.rows[group.count];
  if (was_full) CloseGap(g);
}

// Group `gap` has just got room, so entries beyond it that were pushed past it must come back:
// the smallest of the nearest takes the room and leaves its own to be closed in turn.
void RowIndex::CloseGap(uint64_t gap) {
  for (uint64_t g = gap + 1;; ++g) {
    Group& group = groups_[g];
    const bool full = group.count == kSlots;
    uint32_t best = kSlots;
    for (uint32_t i = 0; i < group.count; ++i) {
      if (Home(group.keys[i]) > gap) continue;
      if (best == kSlots || group.keys[i] < group.keys[best]) best = i;
    }
    if (best < kSlots) {
      Group& hole = groups_[gap];
      hole.keys[hole.count] = group.keys[best];
      hole.rows[hole.count] = group.rows[best];
      ++hole.count;
      --group.count;
      group.keys[best] = group.keys[group.count];
      group.rows[best] = group.rows[group.count];
      gap = g;
    }
    if (!full) return;
  }
}

void RowIndex::StartStretch(uint64_t groups) {
  // The frontier cannot lie above the largest key of all, so that one moves now.
  const uint32_t last = Erase(UINT64_MAX);
  groups_next_ = std::max(groups_now_ + 1, groups);
  size_to_grow_ = RowsFor(groups_next_);
  frontier_ = UINT64_MAX;
  cursor_ = end_;
  if (last != kAbsent) {
    Put(UINT64_MAX, last);
    ++size_;
  }
}

void RowIndex::TakeAhead(std::vector<MemoryRange>* memory) {
  uint64_t groups = groups_next_;
  if (groups_now_ == groups_next_) {
    const bool near = size_ + size_to_grow_ / kNear >= size_to_grow_;
    groups = near ? static_cast<uint64_t>(static_cast<double>(groups) * kGrowth) : 0;
  }
  // What it has grown into without waiting for this is named late: it was held back.
  const uint64_t begin = ahead_ > 0 ? ahead_ : end_;
  const uint64_t end =
      std::max(end_, std::min(static_cast<uint64_t>(static_cast<double>(groups) * share_),
                              region_.size() / sizeof(Group)));
  if (end < begin + kPieceGroups / 4) return;
  if (ahead_ == 0) {
    const uint64_t taken = begin * sizeof(Group);
    HoldBack({region_.data() + taken, region_.size() - taken});
  }
  ahead_ = end;
  // Entries move from the largest key down: they come last to what is named first.
  for (uint64_t at = begin; at < end; at += kPieceGroups) {
    const uint64_t some = std::min(end - at, kPieceGroups);
    memory->push_back({region_.data() + at * sizeof(Group), some * sizeof(Group)});
  }
}

void RowIndex::Stretch(uint64_t groups) {
  for (; groups > 0 && cursor_ > 0; --groups, --cursor_) {
    const uint64_t g = cursor_ - 1;
    uint64_t keys[kSlots];
    uint32_t rows[kSlots];
    uint32_t taken = 0;
    for (uint32_t i = 0; i < groups_[g].count;) {
      if (groups_[g].keys[i] >= frontier_) {
        ++i;
        continue;
      }
      keys[taken] = groups_[g].keys[i];
      rows[taken++] = groups_[g].rows[i];
      RemoveSlot(g, i);  // Brings another entry to slot i.
    }
    if (taken == 0) continue;
    frontier_ = *std::min_element(keys, keys + taken);
    for (uint32_t i = 0; i < taken; ++i) Put(keys[i], rows[i]);
  }
  if (cursor_ > 0) return;
  groups_now_ = groups_next_;
  frontier_ = 0;
}

bool RowIndex::Sound() const {
  uint64_t seen = 0;
  for (uint64_t g = 0; g < end_; ++g) {
    for (uint32_t i = 0; i < groups_[g].count; ++i, ++seen) {
      if (Find(groups_[g].keys[i]) != groups_[g].rows[i]) return false;
    }
  }
  return seen == size_;
}

}  // namespace rubato
