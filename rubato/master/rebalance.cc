#include "rubato/master/rebalance.h"

#include <algorithm>
#include <vector>

namespace rubato {

std::optional<MoveOrder> NextMove(const PartitionMap& map, int64_t servers) {
  std::vector<int64_t> counts(static_cast<size_t>(std::max(servers, map.servers())));
  for (int64_t p = 0; p < kPartitions; ++p) ++counts[static_cast<size_t>(map.OwnerOf(p))];
  const auto staying = counts.begin() + servers;
  const auto least = std::min_element(counts.begin(), staying);
  // Those that are to go give first, the last of them before the others.
  auto from = std::find_if(counts.rbegin(), std::make_reverse_iterator(staying),
                           [](int64_t count) { return count > 0; });
  int64_t amount = 0;
  MoveOrder move = {.to = least - counts.begin()};
  if (from != std::make_reverse_iterator(staying)) {
    move.from = counts.rend() - from - 1;
    // Nobody shall get more than its share, unless all have that.
    amount = std::max<int64_t>(1, kPartitions / servers - *least);
    amount = std::min(amount, *from);
  } else {
    const auto most = std::max_element(counts.begin(), staying);
    if (*most - *least <= 1) return std::nullopt;
    move.from = most - counts.begin();
    amount = std::max<int64_t>(
        1, std::min(*most - (kPartitions + servers - 1) / servers, kPartitions / servers - *least));
  }
  amount = std::min(amount, kMovePartitionsMax);
  for (int64_t p = kPartitions; p-- > 0 && move.partitions.size() < amount;) {
    if (map.OwnerOf(p) == move.from) move.partitions.Add(p, p + 1);
  }
  return move;
}

}  // namespace rubato
