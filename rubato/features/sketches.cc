#include "rubato/features/sketches.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

namespace rubato {
namespace {

constexpr double kGrowth = 1.002;
constexpr int kSmall = 4096;
// Values below the least are counted as it, and beyond the most bins grow faster, so that they stay
// few: about 31,000 a sign, and 34,000 for what is rarely more than a slip of the pen.
constexpr double kLeast = 1e-9, kMost = 1e18, kGrowthBeyond = 1.02;

int FineBinOf(double size) {
  return static_cast<int>(std::ceil(std::log(size) / std::log(kGrowth)));
}
const int kLastFine = FineBinOf(kMost);

double UpperEdge(int bin) {
  if (bin <= kLastFine) return std::pow(kGrowth, bin);
  const double edge = std::pow(kGrowth, kLastFine) * std::pow(kGrowthBeyond, bin - kLastFine);
  return std::min(edge, std::numeric_limits<double>::max());
}

int BinOf(double size) {
  if (size <= kMost) return FineBinOf(std::max(size, kLeast));
  const double beyond = std::log(size / UpperEdge(kLastFine)) / std::log(kGrowthBeyond);
  return kLastFine + std::max(0, static_cast<int>(std::ceil(beyond)));
}

double Middle(int bin) { return UpperEdge(bin) * (2 / (1 + UpperEdge(bin) / UpperEdge(bin - 1))); }

}  // namespace

void QuantileSketch::Add(double x) {
  ++count_;
  if (x >= 0 && x < kSmall && x == std::floor(x)) {
    if (small_.empty()) small_.resize(kSmall);
    ++small_[static_cast<size_t>(x)];
  } else {
    ++(x < 0 ? negative_ : positive_)[BinOf(std::abs(x))];
  }
}

void QuantileSketch::Merge(const QuantileSketch& other) {
  count_ += other.count_;
  if (small_.size() < other.small_.size()) small_.resize(other.small_.size());
  for (size_t i = 0; i < other.small_.size(); ++i) small_[i] += other.small_[i];
  for (const auto& [bin, count] : other.positive_) positive_[bin] += count;
  for (const auto& [bin, count] : other.negative_) negative_[bin] += count;
}

std::vector<QuantileSketch::Bin> QuantileSketch::Bins() const {
  std::vector<Bin> bins;
  for (const auto& [bin, count] : negative_) {
    bins.push_back({-UpperEdge(bin), -UpperEdge(bin - 1), -Middle(bin), count});
  }
  for (const auto& [bin, count] : positive_) {
    bins.push_back({UpperEdge(bin - 1), UpperEdge(bin), Middle(bin), count});
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
  return value;
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
