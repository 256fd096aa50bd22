#include "rubato/master/rebalance.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

namespace rubato {
namespace {

using Loads = absl::Span<const double>;

// By server.
std::vector<double> LoadsOf(const PartitionMap& map, int64_t servers, Loads loads) {
  std::vector<double> sums(static_cast<size_t>(std::max(servers, map.servers())));
  for (size_t p = 0; p < loads.size(); ++p) {
    sums[static_cast<size_t>(map.OwnerOf(static_cast<int64_t>(p)))] += loads[p];
  }
  return sums;
}

std::vector<int64_t> LastFirst(const PartitionMap& map, int64_t server) {
  std::vector<int64_t> partitions;
  for (int64_t p = kPartitions; p-- > 0;) {
    if (map.OwnerOf(p) == server) partitions.push_back(p);
  }
  return partitions;
}

// Those nearest to the load that each would have to have for load and number to be even at once.
void OrderByUse(const PartitionMap& map, const MoveOrder& move, Loads loads,
                std::vector<int64_t>& partitions) {
  const auto from = static_cast<double>(partitions.size());
  const auto to = static_cast<double>(map.PartitionsOf(move.to).size());
  if (loads.empty() || from <= to) return;
  const std::vector<double> sums = LoadsOf(map, std::max(move.from, move.to) + 1, loads);
  const double gap = sums[static_cast<size_t>(move.from)] - sums[static_cast<size_t>(move.to)];
  const double each = std::max(0.0, gap / (from - to));
  const auto off = [&](int64_t p) { return std::abs(loads[static_cast<size_t>(p)] - each); };
  std::stable_sort(partitions.begin(), partitions.end(),
                   [&](int64_t a, int64_t b) { return off(a) < off(b); });
}

// Exchanged for as many of the idlest of `to`, these make the two equally busy, or nearly: one by
// one, what comes nearest to half of what is left of the gap.
MoveOrder Exchange(const PartitionMap& map, int64_t from, int64_t to, Loads loads, double gap) {
  MoveOrder move = {.from = from, .to = to};
  const auto load = [&](int64_t p) { return loads[static_cast<size_t>(p)]; };
  std::vector<int64_t> mine = LastFirst(map, from), theirs = LastFirst(map, to);
  std::stable_sort(theirs.begin(), theirs.end(),
                   [&](int64_t a, int64_t b) { return load(a) < load(b); });
  const double enough = gap / 16;
  for (size_t n = 0; n < std::min<size_t>(theirs.size(), kMovePartitionsMax) && gap > enough; ++n) {
    const double back = load(theirs[n]);
    const auto off = [&](int64_t p) { return std::abs(load(p) - back - gap / 2); };
    const auto best = std::min_element(mine.begin(), mine.end(),
                                       [&](int64_t a, int64_t b) { return off(a) < off(b); });
    const double less = best == mine.end() ? 0 : load(*best) - back;
    if (less <= 0 || less >= gap) break;
    move.partitions.Add(*best, *best + 1);
    mine.erase(best);
    gap -= 2 * less;
  }
  return move;
}

double SquaresOf(const std::vector<double>& sums) {
  return std::inner_product(sums.begin(), sums.end(), sums.begin(), 0.0);
}

// Whether it is worth it when numbers are even again.
bool Mends(PartitionMap map, int64_t servers, Loads loads, const MoveOrder& move, double gain) {
  const std::vector<double> before = LoadsOf(map, servers, loads);
  map.Move(move.partitions, move.to);
  while (const auto even = NextMove(map, servers, loads)) map.Move(even->partitions, even->to);
  const std::vector<double> after = LoadsOf(map, servers, loads);
  const auto from = static_cast<size_t>(move.from), to = static_cast<size_t>(move.to);
  return std::max(after[from], after[to]) <= (1 - gain) * before[from] &&
         SquaresOf(after) < SquaresOf(before);
}

}  // namespace

std::optional<MoveOrder> NextMove(const PartitionMap& map, int64_t servers, Loads loads) {
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
  std::vector<int64_t> partitions = LastFirst(map, move.from);
  OrderByUse(map, move, loads, partitions);
  partitions.resize(static_cast<size_t>(std::min(amount, kMovePartitionsMax)));
  for (const int64_t p : partitions) move.partitions.Add(p, p + 1);
  return move;
}

std::optional<BusyMove> NextBusyMove(const PartitionMap& map, int64_t servers, Loads loads,
                                     const BusyOptions& options) {
  if (loads.empty() || NextMove(map, servers).has_value()) return std::nullopt;
  const std::vector<double> sums = LoadsOf(map, servers, loads);
  const auto busy = [&](int64_t server) { return sums[static_cast<size_t>(server)]; };
  const double mean = std::accumulate(sums.begin(), sums.end(), 0.0) / static_cast<double>(servers);
  std::vector<int64_t> order(static_cast<size_t>(servers));  // The busiest first.
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(),
                   [&](int64_t a, int64_t b) { return busy(a) > busy(b); });
  const int64_t idlest = order.back();
  for (const int64_t server : order) {
    if (busy(server) <= options.times_mean * mean || busy(server) < options.keys_min) break;
    MoveOrder move = Exchange(map, server, idlest, loads, busy(server) - busy(idlest));
    if (move.partitions.empty() || !Mends(map, servers, loads, move, options.gain)) continue;
    return BusyMove{std::move(move), busy(server) / mean};
  }
  return std::nullopt;
}

}  // namespace rubato
