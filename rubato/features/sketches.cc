#include "rubato/features/sketches.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <utility>

namespace rubato {
namespace {

constexpr int kSmall = 4096;
// Bins are kept this few for as long as they stay as narrow as 0.2 % of a value, and after that
// below what it takes for all sizes a column may sensibly have.
constexpr size_t kFew = 8192, kMost = 65536;
constexpr int kNarrow = 9;

size_t MostOf(int bits) { return bits > kNarrow ? kFew : kMost; }

// The least number with these leading bits, or the one that is `below` it.
double Edge(uint64_t leading, int bits, uint64_t below = 0) {
  const uint64_t edge = (leading << (52 - bits)) - below;
  return std::min(std::bit_cast<double>(edge), std::numeric_limits<double>::max());
}

uint64_t LeadingOf(double size, int bits) { return std::bit_cast<uint64_t>(size) >> (52 - bits); }

}  // namespace

void QuantileSketch::Add(double x) {
  least_ = count_ == 0 ? x : std::min(least_, x);
  most_ = count_ == 0 ? x : std::max(most_, x);
  ++count_;
  if (x >= 0 && x < kSmall && x == std::floor(x)) {
    if (small_.empty()) small_.resize(kSmall);
    ++small_[static_cast<size_t>(x)];
    return;
  }
  ++(x < 0 ? negative_ : positive_)[LeadingOf(std::abs(x), bits_)];
  Coarsen();
}

void QuantileSketch::Merge(const QuantileSketch& other) {
  if (other.count_ == 0) return;
  least_ = count_ == 0 ? other.least_ : std::min(least_, other.least_);
  most_ = count_ == 0 ? other.most_ : std::max(most_, other.most_);
  count_ += other.count_;
  if (small_.size() < other.small_.size()) small_.resize(other.small_.size());
  for (size_t i = 0; i < other.small_.size(); ++i) small_[i] += other.small_[i];
  const auto merge = [&](Counts& counts, const Counts& others, int coarser) {
    for (const auto& [leading, count] : others) counts[leading >> coarser] += count;
  };
  if (bits_ > other.bits_) {
    const Counts positive = std::exchange(positive_, {}), negative = std::exchange(negative_, {});
    const int coarser = bits_ - other.bits_;
    merge(positive_, positive, coarser);
    merge(negative_, negative, coarser);
    bits_ = other.bits_;
  }
  merge(positive_, other.positive_, other.bits_ - bits_);
  merge(negative_, other.negative_, other.bits_ - bits_);
  Coarsen();
}

// What is too much for some of the values is so for all of them, so that however they come there
// are as many bits in the end.
void QuantileSketch::Coarsen() {
  while (positive_.size() + negative_.size() > MostOf(bits_) && bits_ > 0) {
    for (Counts* counts : {&positive_, &negative_}) {
      Counts coarser;
      for (const auto& [leading, count] : *counts) coarser[leading >> 1] += count;
      *counts = std::move(coarser);
    }
    --bits_;
  }
}

std::vector<QuantileSketch::Bin> QuantileSketch::Bins() const {
  std::vector<Bin> bins;
  const auto add = [&](double low, double high, double nearest, double farthest, int64_t count) {
    bins.push_back({low, high, nearest + (farthest - nearest) / 2, count});
  };
  for (const auto& [leading, count] : negative_) {
    const double nearest = -Edge(leading, bits_), farthest = -Edge(leading + 1, bits_, 1);
    const double high = leading == 0 ? 0 : -Edge(leading, bits_, 1);
    add(farthest, high, nearest, farthest, count);
  }
  for (const auto& [leading, count] : positive_) {
    const double nearest = Edge(leading, bits_), farthest = Edge(leading + 1, bits_, 1);
    add(nearest, Edge(leading + 1, bits_), nearest, farthest, count);
  }
  for (size_t i = 0; i < small_.size(); ++i) {
    const double value = static_cast<double>(i);
    if (small_[i] > 0) bins.push_back({value, value + 1, value, small_[i]});
  }
  std::sort(bins.begin(), bins.end(), [](const Bin& a, const Bin& b) { return a.low < b.low; });
  return bins;
}

double QuantileSketch::Quantile(double q) const {
  const double wanted = std::max(1.0, q * static_cast<double>(count_));
  int64_t seen = 0;
  double value = 0;
  for (const Bin& bin : Bins()) {
    value = bin.value;
    seen += bin.count;
    if (static_cast<double>(seen) >= wanted) break;
  }
  return std::clamp(value, least_, most_);
}

std::vector<double> QuantileSketch::Boundaries(int bins) const {
  const std::vector<Bin> all = Bins();
  const double part = static_cast<double>(count_) / bins;
  const auto is_heavy = [&](const Bin& bin) { return static_cast<double>(bin.count) >= part; };
  double light = 0;
  int parts = bins;
  for (const Bin& bin : all) {
    if (is_heavy(bin)) {
      --parts;
    } else {
      light += static_cast<double>(bin.count);
    }
  }
  const double light_part = light / std::max(1, parts);
  std::vector<double> boundaries;
  double filled = 0;
  bool closed = false;  // The bin before ended a part.
  for (size_t i = 0; i < all.size(); ++i) {
    if (i > 0 && (closed || is_heavy(all[i]))) {
      // What is so common stands alone, also among values not seen yet.
      const bool after_heavy = is_heavy(all[i - 1]) && !is_heavy(all[i]);
      boundaries.push_back(after_heavy ? std::min(all[i].low, all[i - 1].high) : all[i].low);
      filled = 0;
    }
    filled += static_cast<double>(all[i].count);
    closed = is_heavy(all[i]) || filled >= light_part;
  }
  // Heavy values split the light ones between them, which can make some parts too many.
  while (static_cast<int>(boundaries.size()) > std::max(1, bins - 1)) boundaries.pop_back();
  return boundaries;
}

void DistinctSketch::Add(uint64_t hash) {
  uint8_t& at = registers_[hash >> (64 - kBits)];
  const int zeros = std::countl_zero(hash << kBits | (uint64_t{1} << (kBits - 1)));
  at = std::max(at, static_cast<uint8_t>(zeros + 1));
}

void DistinctSketch::Merge(const DistinctSketch& other) {
  for (size_t i = 0; i < registers_.size(); ++i) {
    registers_[i] = std::max(registers_[i], other.registers_[i]);
  }
}

double DistinctSketch::Estimate() const {
  const double m = static_cast<double>(registers_.size());
  double sum = 0, empty = 0;
  for (const uint8_t r : registers_) {
    sum += std::ldexp(1.0, -r);
    empty += r == 0;
  }
  const double raw = 0.7213 / (1 + 1.079 / m) * m * m / sum;
  return raw <= 2.5 * m && empty > 0 ? m * std::log(m / empty) : raw;
}

void CommonTexts::Add(absl::string_view text) {
  const auto found = counts_.find(text);
  if (found != counts_.end()) {
    ++found->second;
    return;
  }
  counts_.emplace(text, 1);
  if (counts_.size() > 2 * capacity_) Prune();
}

void CommonTexts::Merge(const CommonTexts& other) {
  for (const auto& [text, count] : other.counts_) counts_[text] += count;
  error_ += other.error_;
  if (counts_.size() > 2 * capacity_) Prune();
}

void CommonTexts::Prune() {
  std::vector<int64_t> sorted;
  for (const auto& [text, count] : counts_) sorted.push_back(count);
  const auto cut = sorted.begin() + static_cast<int64_t>(capacity_);
  std::nth_element(sorted.begin(), cut, sorted.end(), std::greater<>());
  const int64_t taken = *cut;
  error_ += taken;
  for (auto it = counts_.begin(); it != counts_.end();) {
    const auto here = it++;
    here->second -= taken;
    if (here->second <= 0) counts_.erase(here);
  }
}

std::vector<CommonTexts::Item> CommonTexts::Items() const {
  std::vector<Item> items;
  for (const auto& [text, count] : counts_) items.push_back({text, count});
  std::sort(items.begin(), items.end(), [](const Item& a, const Item& b) {
    return a.count != b.count ? a.count > b.count : a.text < b.text;
  });
  return items;
}

}  // namespace rubato
