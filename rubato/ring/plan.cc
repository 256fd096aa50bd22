#include "rubato/ring/plan.h"

#include <bit>
#include <utility>

#include "rubato/base/status.h"

namespace rubato {
namespace {

std::vector<Exchange> MakeRing(int rank, int size, int64_t elements) {
  const int next = (rank + 1) % size;
  const int previous = (rank + size - 1) % size;
  const auto slice = [&](int index) {
    return CutSlice(elements, size, ((index % size) + size) % size);
  };
  std::vector<Exchange> plan;
  for (int s = 0; s + 1 < size; ++s) {
    plan.push_back({next, slice(rank - s), previous, slice(rank - s - 1), /*reduce=*/true});
  }
  for (int s = 0; s + 1 < size; ++s) {
    plan.push_back({next, slice(rank + 1 - s), previous, slice(rank - s), /*reduce=*/false});
  }
  return plan;
}

// Each time, half of what this rank still works on goes to a partner for the partner's half of
// ours. The nearest first: the largest halves stay among neighbours, who may share a machine.
std::vector<Exchange> MakeHalving(int rank, int size, int64_t elements) {
  std::vector<Exchange> plan, back;
  Slice range{0, elements};
  for (int bit = 1; bit < size; bit *= 2) {
    const int partner = rank ^ bit;
    const int64_t middle = range.begin + range.size() / 2;
    Slice keep{range.begin, middle}, give{middle, range.end};
    if ((rank & bit) != 0) std::swap(keep, give);
    plan.push_back({partner, give, partner, keep, /*reduce=*/true});
    back.push_back({partner, keep, partner, give, /*reduce=*/false});
    range = keep;
  }
  plan.insert(plan.end(), back.rbegin(), back.rend());
  return plan;
}

std::vector<Exchange> MakeTree(int rank, int size, int64_t elements) {
  const Slice all{0, elements};
  std::vector<Exchange> plan;
  const std::vector<int> children = TreeChildren(rank, size);
  for (int child : children) plan.push_back({-1, {}, child, all, /*reduce=*/true});
  if (rank > 0) {
    plan.push_back({TreeParent(rank), all, -1, {}, /*reduce=*/true});
    plan.push_back({-1, {}, TreeParent(rank), all, /*reduce=*/false});
  }
  // The deepest subtree first: it has the longest way to go.
  for (auto child = children.rbegin(); child != children.rend(); ++child) {
    plan.push_back({*child, all, -1, {}, /*reduce=*/false});
  }
  return plan;
}

}  // namespace

std::vector<Exchange> MakePlan(Algorithm algorithm, int rank, int size, int64_t elements) {
  RUBATO_CHECK(rank >= 0 && rank < size && elements >= 0);
  if (size == 1) return {};
  if (algorithm == Algorithm::kTree) return MakeTree(rank, size, elements);
  const bool halves = algorithm == Algorithm::kHalving && std::has_single_bit<unsigned>(size);
  return halves ? MakeHalving(rank, size, elements) : MakeRing(rank, size, elements);
}

Algorithm ChooseAlgorithm(int64_t bytes, int size) {
  constexpr int64_t kTreeBytesMax = 16 << 10;  // Of each member's part.
  constexpr int64_t kHalvingBytesMax = 16 << 20;
  if (bytes / size < kTreeBytesMax) return Algorithm::kTree;
  return bytes < kHalvingBytesMax ? Algorithm::kHalving : Algorithm::kRing;
}

Slice CutSlice(int64_t elements, int count, int index) {
  const int64_t base = elements / count;
  const int64_t longer = elements % count;  // The first ones have one element more.
  const auto begin = [&](int64_t i) { return i * base + (i < longer ? i : longer); };
  return {begin(index), begin(index + 1)};
}

int TreeParent(int rank) { return rank == 0 ? -1 : rank & (rank - 1); }

std::vector<int> TreeChildren(int rank, int size) {
  std::vector<int> children;
  for (int bit = 1; rank + bit < size && (rank & bit) == 0; bit <<= 1) {
    children.push_back(rank + bit);
  }
  return children;
}

}  // namespace rubato
