// A table's rows in the order of their last push, the oldest first.
//
//     steps    17 ───────── 18 ───────── 23 ...      a list each, through one array
//     rows     4, 9, 7      12, 3        1, 15 ...   by their place in the push
//
// Which row goes first when a table is full must not depend on anything but the pushes, so what
// says it is also written into the rows: the step, and the place within the push. Rows that are
// restored, in any order, go to the lists of their steps; a list that they left out of order is
// put in order when it has become the oldest of all and a row of it is to go. So nobody ever waits
// for more than what one push touched, however many rows were restored or came with a move.
#ifndef RUBATO_PARAMS_ROW_ORDER_H_
#define RUBATO_PARAMS_ROW_ORDER_H_

#include <cstdint>
#include <deque>
#include <optional>
#include <tuple>
#include <vector>

#include "absl/container/btree_map.h"
#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "rubato/params/memory.h"

namespace rubato {

class RowOrder {
 public:
  // Where a row is among those of its step. Rows that were pushed to on different servers may have
  // the same place; then their points, which nobody chose, decide.
  struct Place {
    uint32_t place = 0;
    uint64_t point = 0;
    bool operator<(const Place& other) const {
      return std::tie(place, point) < std::tie(other.place, other.point);
    }
  };

  // For row numbers below `rows_max`.
  static absl::StatusOr<RowOrder> Make(Memory& memory, uint64_t rows_max);

  // Into the list of `step`, at the end of it for now, from wherever it was.
  void Put(uint32_t row, uint32_t step, uint32_t place);
  // Out of its list, if it is in one.
  void Remove(uint32_t row);
  // Asks for the memory that Put of a row will need.
  void Fetch(uint32_t row) const { __builtin_prefetch(links_ + row + 1, 1, 1); }

  bool empty() const { return by_step_.empty(); }
  // Some row whose last push was in this step, if there is one.
  std::optional<uint32_t> AnyOf(uint32_t step) const;
  // What follows must not be asked for when it is empty.
  uint32_t oldest_step() const { return by_step_.begin()->first; }
  // Asks for places of rows of the oldest step, all of them, unless they are known to be in order.
  uint32_t Oldest(absl::FunctionRef<Place(uint32_t row)> place_of);

  static constexpr uint64_t kBytesPerRow = 8;
  // Beside those of rows.
  uint64_t bytes() const { return steps_.size() * (sizeof(Step) + kBytesInMap); }
  uint64_t bytes_reserved() const { return region_.size(); }

 private:
  // Row r is r + 1 here, and list n is n | kStep; 0 is nothing, so that zeros are rows in no list.
  static constexpr uint32_t kStep = uint32_t{1} << 31;
  static constexpr uint32_t kNone = UINT32_MAX;
  static constexpr uint64_t kBytesInMap = 12;  // About.
  struct Link {
    uint32_t older = 0, newer = 0;
  };
  struct Step {
    Link ends;  // Closes the ring: `newer` is its oldest row.
    uint32_t step = 0;
    uint32_t last = 0;  // The place put last, if that is in order.
    bool in_order = true;
  };

  Link& At(uint32_t at) { return (at & kStep) != 0 ? steps_[at ^ kStep].ends : links_[at]; }
  void FindList(uint32_t step);
  void Append(uint32_t at, uint32_t list);
  void Sort(uint32_t list, absl::FunctionRef<Place(uint32_t row)> place_of);

  Region region_;
  Link* links_ = nullptr;
  std::deque<Step> steps_;  // Grows without moving what it holds.
  std::vector<uint32_t> spare_;
  uint32_t list_ = kNone;                        // That of the last Put, unless it is empty.
  absl::btree_map<uint32_t, uint32_t> by_step_;  // Lists that are not empty.
};

}  // namespace rubato

#endif  // RUBATO_PARAMS_ROW_ORDER_H_
