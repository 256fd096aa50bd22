#include "rubato/metrics/score_counts.h"

#include <algorithm>
#include <bit>
#include <cmath>

namespace rubato {
namespace {

// Integers in the order of the floats they stand for; both zeros are one.
int32_t KeyOf(float score) {
  if (std::isnan(score)) return INT32_MIN;
  const int32_t bits = std::bit_cast<int32_t>(score);
  return bits >= 0 ? bits : INT32_MIN - bits;
}

int32_t Coarse(int32_t key, int dropped_bits) { return key >> dropped_bits << dropped_bits; }

}  // namespace

void ScoreCounts::Add(float score, bool positive) {
  Count& count = counts_[Coarse(KeyOf(score), dropped_bits_)];
  ++(positive ? count.positives : count.negatives);
  Fit();
}

void ScoreCounts::Add(const ScoreCounts& other) {
  Coarsen(other.dropped_bits_);
  for (const auto& [key, count] : other.counts_) {
    Count& sum = counts_[Coarse(key, dropped_bits_)];
    sum.negatives += count.negatives;
    sum.positives += count.positives;
  }
  Fit();
}

void ScoreCounts::Coarsen(int dropped_bits) {
  if (dropped_bits <= dropped_bits_) return;
  dropped_bits_ = dropped_bits;
  std::map<int32_t, Count> coarse;
  for (const auto& [key, count] : counts_) {
    Count& sum = coarse[Coarse(key, dropped_bits)];
    sum.negatives += count.negatives;
    sum.positives += count.positives;
  }
  counts_ = std::move(coarse);
}

void ScoreCounts::Fit() {
  while (counts_.size() > distinct_max_ && dropped_bits_ < 31) Coarsen(dropped_bits_ + 1);
}

int64_t ScoreCounts::records() const {
  int64_t records = 0;
  for (const auto& [key, count] : counts_) records += count.negatives + count.positives;
  return records;
}

bool ScoreCounts::has_both() const {
  int64_t negatives = 0, positives = 0;
  for (const auto& [key, count] : counts_) {
    negatives += count.negatives;
    positives += count.positives;
  }
  return negatives > 0 && positives > 0;
}

double ScoreCounts::Auc() const {
  double negatives = 0, positives = 0, won = 0;  // Doubles: counts squared pass 64 bits.
  for (const auto& [key, count] : counts_) {
    const auto n = static_cast<double>(count.negatives), p = static_cast<double>(count.positives);
    won += p * (negatives + 0.5 * n);
    negatives += n;
    positives += p;
  }
  return negatives > 0 && positives > 0 ? won / (negatives * positives) : 0.5;
}

void ScoreCounts::Encode(ByteWriter& out) const {
  out.PutVarint(dropped_bits_);
  out.PutVarint(static_cast<int64_t>(counts_.size()));
  int64_t last = 0;
  for (const auto& [key, count] : counts_) {
    out.PutVarint((key - last) >> dropped_bits_);
    out.PutVarint(count.negatives);
    out.PutVarint(count.positives);
    last = key;
  }
}

ScoreCounts ScoreCounts::Decode(ByteReader& in) {
  ScoreCounts counts;
  counts.dropped_bits_ = static_cast<int>(std::clamp<int64_t>(in.GetVarint(), 0, 31));
  int64_t key = 0;
  for (int64_t n = in.GetVarint(); n > 0 && in.ok(); --n) {
    key += in.GetVarint() << counts.dropped_bits_;
    const int64_t negatives = in.GetVarint();
    counts.counts_[static_cast<int32_t>(key)] = {negatives, in.GetVarint()};
  }
  return counts;
}

}  // namespace rubato
