#include "rubato/params/row_order.h"

#include "rubato/base/status.h"

namespace rubato {

absl::StatusOr<RowOrder> RowOrder::Make(Memory& memory, uint64_t rows_max) {
  RowOrder order;
  RUBATO_ASSIGN_OR_RETURN(order.region_, Region::Reserve(memory, (rows_max + 1) * sizeof(Link)));
  order.links_ = reinterpret_cast<Link*>(order.region_.data());
  return order;
}

void RowOrder::Append(uint32_t row) {
  const uint32_t at = row + 1;
  const uint32_t newest = links_[0].older;
  links_[at] = {newest, 0};
  links_[newest].next = at;
  links_[0].older = at;
}

void RowOrder::Remove(uint32_t row) {
  const Link link = links_[row + 1];
  links_[link.older].next = link.next;
  links_[link.next].older = link.older;
}

}  // namespace rubato
