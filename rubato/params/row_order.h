// A table's rows in the order of their last push, the oldest first: a list through an array.
//
// Which row goes first when a table is full must not depend on anything but the pushes, so the
// order is also written into the rows (step and place within the push), and the list can be
// made again from there.
#ifndef RUBATO_PARAMS_ROW_ORDER_H_
#define RUBATO_PARAMS_ROW_ORDER_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "rubato/params/memory.h"

namespace rubato {

class RowOrder {
 public:
  // For row numbers below `rows_max`.
  static absl::StatusOr<RowOrder> Make(Memory& memory, uint64_t rows_max);

  bool empty() const { return links_[0].next == 0; }
  uint32_t oldest() const { return links_[0].next - 1; }

  // `row` is now the newest; it must not be in the list.
  void Append(uint32_t row);
  // `row` must be in the list.
  void Remove(uint32_t row);
  void Clear() { links_[0] = {}; }

  static constexpr uint64_t kBytesPerRow = 8;

 private:
  // Row r's link is links_[r + 1]; links_[0] closes the ring. Zeros are an empty ring.
  struct Link {
    uint32_t older, next;
  };
  Region region_;
  Link* links_ = nullptr;
};

}  // namespace rubato

#endif  // RUBATO_PARAMS_ROW_ORDER_H_
