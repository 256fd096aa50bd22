#include "rubato/ring/canonical.h"

#include <bit>

#include "rubato/base/status.h"
#include "rubato/ring/kernels.h"

namespace rubato {
namespace {

void Collect(const Subtree& node, int begin, int end, std::vector<Subtree>& out) {
  if (node.end <= begin || node.begin >= end || node.begin >= node.end) return;
  if (begin <= node.begin && node.end <= end) {
    out.push_back(node);
    return;
  }
  const int cut = CutOf(node);
  Collect({node.begin, cut}, begin, end, out);
  Collect({cut, node.end}, begin, end, out);
}

// Sums the parts from `next` on that lie within `node`; returns where the sum is.
size_t SumWithin(const Subtree& node, absl::Span<const Subtree> subtrees,
                 absl::Span<const absl::Span<float>> parts, size_t& next) {
  RUBATO_CHECK(next < subtrees.size() && subtrees[next].begin == node.begin);
  if (subtrees[next] == node) return next++;
  const int cut = CutOf(node);
  const size_t left = SumWithin({node.begin, cut}, subtrees, parts, next);
  const size_t right = SumWithin({cut, node.end}, subtrees, parts, next);
  AddTo(parts[left], parts[right].data());
  return left;
}

}  // namespace

int CutOf(const Subtree& subtree) {
  const unsigned size = static_cast<unsigned>(subtree.end - subtree.begin);
  return subtree.begin + static_cast<int>(std::bit_floor(size - 1));
}

std::vector<Subtree> WholeSubtrees(int count, int begin, int end) {
  std::vector<Subtree> subtrees;
  Collect({0, count}, begin, end, subtrees);
  return subtrees;
}

void CanonicalSum::Add(absl::Span<const float> gradient) {
  RUBATO_CHECK(next_ < count_);
  subtrees_.push_back({next_, next_ + 1});
  sums_.emplace_back(gradient.begin(), gradient.end());
  // A sum of one has the same bits alone and among zeros: -0 becomes 0 in both.
  for (float& value : sums_.back()) value += 0.0f;
  ++next_;
  while (subtrees_.size() > 1) {
    const Subtree node{subtrees_[subtrees_.size() - 2].begin, next_};
    const std::vector<Subtree> whole = WholeSubtrees(count_, node.begin, node.end);
    if (whole.size() > 1) return;
    AddTo(absl::MakeSpan(sums_[sums_.size() - 2]), sums_.back().data());
    sums_.pop_back();
    subtrees_.pop_back();
    subtrees_.back() = node;
  }
}

void SumCanonical(absl::Span<const Subtree> subtrees, absl::Span<const absl::Span<float>> parts,
                  int count) {
  size_t next = 0;
  SumWithin({0, count}, subtrees, parts, next);
  RUBATO_CHECK(next == subtrees.size());
}

}  // namespace rubato
