// From a well-mixed 64-bit key to a row number, in one cache line most of the time.
//
// Entries sit in groups of five, one group a cache line, and a group's place in the array follows
// the order of the keys it holds: home = key * groups / 2^64. An entry that finds its home full
// pushes the largest of the six on to the next group. So at every moment
//
//     an entry found beyond its home has only full groups before it,
//
// and a search may stop at the first group with room.
//
// The array grows by stretching in place. To go from n groups to m > n, entries are moved from the
// largest key down to their new homes, a few with every insertion; `frontier_` is the smallest
// key moved so far, and says which of the two layouts to search:
//
//     keys      0 ............ frontier_ ............ 2^64
//     layout    n groups           |       m groups
//
// Nobody ever waits for a rehash, nothing is held twice, and a range of keys is always one
// stretch of memory. Lives in address space reserved once for `rows_max` rows.
#ifndef RUBATO_PARAMS_ROW_INDEX_H_
#define RUBATO_PARAMS_ROW_INDEX_H_

#include <algorithm>
#include <bit>
#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "rubato/params/memory.h"
#include "rubato/params/row_probe.h"

namespace rubato {

class RowIndex {
 public:
  static constexpr uint32_t kAbsent = UINT32_MAX;

  // For at most `rows_max` keys from the lowest `share` (0 to 1) of all keys.
  static absl::StatusOr<RowIndex> Make(Memory& memory, uint64_t rows_max, double share);

  uint32_t Find(uint64_t key) const {
    for (const Group* group = &groups_[Home(key)];; ++group) {
      const uint32_t match = group->Match(key);
      if (match != 0) [[likely]]
        return group->rows[std::countr_zero(match)];
      if (group->count < kSlots) return kAbsent;
    }
  }

  // For looking up many at once: how keys lie at this moment.
  RowPlaces places(const uint16_t* slots) const {
    return {groups_, frontier_, groups_now_, groups_next_, slots};
  }

  // `key` must be absent, and size() below rows_max.
  void Insert(uint64_t key, uint32_t row);
  // Another row for a `key` that is there.
  void Replace(uint64_t key, uint32_t row);
  // The row that was there, or kAbsent.
  uint32_t Erase(uint64_t key);
  // Makes room for `rows` in all, at once. Before rows are inserted in the order of their keys:
  // they would crowd the first groups while the array still grows.
  void Reserve(uint64_t rows);
  // From now on keys are of another share of all keys, as evenly spread as before.
  void SetShare(double share);

  // What its entries fill, now or when the stretching at hand is over.
  MemoryRange memory() const {
    const auto groups = static_cast<uint64_t>(static_cast<double>(groups_next_) * share_);
    return {region_.data(), groups * sizeof(Group)};
  }

  // Adds the memory that the stretching at hand, or the next if it is near, will touch for the
  // first time: what it touches first comes first. Each stretch is named once.
  void TakeAhead(std::vector<MemoryRange>* memory);

  uint64_t size() const { return size_; }
  uint64_t bytes() const { return end_ * sizeof(Group); }
  uint64_t bytes_reserved() const { return region_.size(); }
  // Less than asked for if the share has become smaller.
  uint64_t rows_max() const { return rows_max_; }

  // Every entry with first <= key <= last, group by group: nearly in the order of the keys.
  template <typename Visitor>  // void(uint64_t key, uint32_t row)
  void Visit(uint64_t first, uint64_t last, Visitor visit) const {
    if (first < frontier_) Scan(first, std::min(last, frontier_ - 1), groups_now_, visit);
    if (last >= frontier_) Scan(std::max(first, frontier_), last, groups_next_, visit);
  }

  // Whether every entry can be found and the counts agree. For tests: visits everything.
  bool Sound() const;

 private:
  using Group = RowGroup;
  static constexpr uint32_t kSlots = Group::kSlots;

  uint64_t Home(uint64_t key) const {
    return PlaceOf(key, key < frontier_ ? groups_now_ : groups_next_);
  }
  template <typename Visitor>
  void Scan(uint64_t first, uint64_t last, uint64_t groups, Visitor& visit) const {
    const uint64_t home_last = PlaceOf(last, groups);
    for (uint64_t g = PlaceOf(first, groups);; ++g) {
      const Group& group = groups_[g];
      for (uint32_t i = 0; i < group.count; ++i) {
        if (group.keys[i] >= first && group.keys[i] <= last) {
          visit(group.keys[i], group.rows[i]);
        }
      }
      if (g >= home_last && group.count < kSlots) return;
    }
  }

  void Put(uint64_t key, uint32_t row);
  void RemoveSlot(uint64_t group, uint32_t slot);
  void CloseGap(uint64_t group);
  void StartStretch(uint64_t groups);
  void Stretch(uint64_t groups);
  uint64_t RowsFor(uint64_t groups) const;

  Region region_;
  Group* groups_ = nullptr;
  double share_ = 1;
  uint64_t rows_asked_ = 0;
  uint64_t rows_max_ = 0;
  uint64_t groups_max_ = 0;  // That the region holds.
  uint64_t size_ = 0;
  uint64_t size_to_grow_ = 0;  // Stretching starts beyond this many entries.
  uint64_t groups_now_ = 1;    // The layout of keys below frontier_.
  uint64_t groups_next_ = 1;   // The layout of the others; the same while not stretching.
  uint64_t frontier_ = 0;
  uint64_t cursor_ = 0;  // While stretching: no entry below frontier_ sits at or after it.
  uint64_t end_ = 0;     // No group at or after it was ever touched.
  uint64_t ahead_ = 0;   // Groups before it were named by TakeAhead.
};

}  // namespace rubato

#endif  // RUBATO_PARAMS_ROW_INDEX_H_
