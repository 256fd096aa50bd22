#include "rubato/ring/canonical.h"

#include <algorithm>
#include <bit>

#include "rubato/base/status.h"
#include "rubato/ring/kernels.h"

namespace rubato {
namespace {

constexpr size_t kPlacesMax = size_t{1} << 20;  // Floats.

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

CanonicalPlaces::CanonicalPlaces(int count, absl::Span<const Quota> quotas, int rank)
    : count_(count) {
  for (size_t i = 0; i < quotas.size(); ++i) {
    if (static_cast<int>(i) == rank) first_ = subtrees_.size();
    const std::vector<Subtree> whole = WholeSubtrees(count, quotas[i].begin, quotas[i].end);
    subtrees_.insert(subtrees_.end(), whole.begin(), whole.end());
  }
  piece_ = std::max<size_t>(1, kPlacesMax / subtrees_.size());
}

std::vector<absl::Span<float>> CanonicalPlaces::Parts(size_t length) {
  std::vector<absl::Span<float>> parts;
  for (size_t i = 0; i < subtrees_.size(); ++i) {
    parts.push_back(absl::MakeSpan(places_).subspan(i * length, length));
  }
  return parts;
}

absl::Span<float> CanonicalPlaces::Fill(const CanonicalSum& mine, size_t begin, size_t length) {
  places_.assign(subtrees_.size() * length, 0.0f);
  const std::vector<absl::Span<float>> parts = Parts(length);
  for (size_t i = 0; i < mine.subtrees().size(); ++i) {
    RUBATO_CHECK(mine.subtrees()[i] == subtrees_[first_ + i]);
    const absl::Span<const float> part = mine.sum(i).subspan(begin, length);
    std::copy(part.begin(), part.end(), parts[first_ + i].begin());
  }
  return absl::MakeSpan(places_);
}

void CanonicalPlaces::Sum(absl::Span<float> into) {
  const std::vector<absl::Span<float>> parts = Parts(into.size());
  SumCanonical(subtrees_, parts, count_);
  std::copy(parts[0].begin(), parts[0].end(), into.begin());
}

}  // namespace rubato
