#include "rubato/metrics/score_counts.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

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
  pending_.push_back({KeyOf(score), positive ? 0u : 1u, positive ? 1u : 0u});
  SettleNowAndThen();
}

void ScoreCounts::Add(const ScoreCounts& other) {
  other.Settle();
  dropped_bits_ = std::max(dropped_bits_, other.dropped_bits_);
  pending_.insert(pending_.end(), other.entries_.begin(), other.entries_.end());
  SettleNowAndThen();
}

void ScoreCounts::SettleNowAndThen() {
  constexpr size_t kFew = 4096;
  if (pending_.size() >= std::max(kFew, entries_.size())) Settle();
}

void ScoreCounts::Append(int32_t key, Count count, std::vector<Entry>* entries) {
  constexpr int64_t kFull = std::numeric_limits<uint32_t>::max();
  do {
    const int64_t negatives = std::min(count.negatives, kFull);
    const int64_t positives = std::min(count.positives, kFull);
    entries->push_back({key, static_cast<uint32_t>(negatives), static_cast<uint32_t>(positives)});
    count.negatives -= negatives;
    count.positives -= positives;
  } while (count.negatives > 0 || count.positives > 0);
}

template <typename F>
void ScoreCounts::ForEach(F f) const {
  Settle();
  for (size_t i = 0; i < entries_.size();) {
    const int32_t key = entries_[i].key;
    Count count;
    for (; i < entries_.size() && entries_[i].key == key; ++i) {
      count.negatives += entries_[i].negatives;
      count.positives += entries_[i].positives;
    }
    f(key, count);
  }
}

void ScoreCounts::Settle() const {
  if (pending_.empty()) return;
  const auto by_key = [](const Entry& a, const Entry& b) { return a.key < b.key; };
  std::sort(pending_.begin(), pending_.end(), by_key);
  std::vector<Entry> both(entries_.size() + pending_.size());
  std::merge(entries_.begin(), entries_.end(), pending_.begin(), pending_.end(), both.begin(),
             by_key);
  entries_ = std::move(both);
  pending_ = {};
  Merge(dropped_bits_);
  while (entries_.size() > distinct_max_ && dropped_bits_ < 31) Merge(dropped_bits_ + 1);
  if (entries_.size() < entries_.capacity() / 2) entries_.shrink_to_fit();
}

// Makes one of neighbours that are the same without so many bits.
void ScoreCounts::Merge(int dropped_bits) const {
  dropped_bits_ = dropped_bits;
  size_t kept = 0;
  std::vector<Entry> grown;  // Of one score, in the end at the place where it began.
  for (size_t i = 0; i < entries_.size();) {
    const int32_t key = Coarse(entries_[i].key, dropped_bits);
    Count count;
    for (; i < entries_.size() && Coarse(entries_[i].key, dropped_bits) == key; ++i) {
      count.negatives += entries_[i].negatives;
      count.positives += entries_[i].positives;
    }
    grown.clear();
    Append(key, count, &grown);  // Never more entries than were added up.
    kept = std::copy(grown.begin(), grown.end(), entries_.begin() + kept) - entries_.begin();
  }
  entries_.resize(kept);
}

bool operator==(const ScoreCounts& a, const ScoreCounts& b) {
  a.Settle();
  b.Settle();
  return a.dropped_bits_ == b.dropped_bits_ && a.entries_ == b.entries_;
}

bool ScoreCounts::exact() const {
  Settle();
  return dropped_bits_ == 0;
}

int64_t ScoreCounts::records() const {
  int64_t records = 0;
  ForEach([&](int32_t, Count count) { records += count.negatives + count.positives; });
  return records;
}

bool ScoreCounts::has_both() const {
  int64_t negatives = 0, positives = 0;
  ForEach([&](int32_t, Count count) {
    negatives += count.negatives;
    positives += count.positives;
  });
  return negatives > 0 && positives > 0;
}

double ScoreCounts::Auc() const {
  double negatives = 0, positives = 0, won = 0;  // Doubles: counts squared pass 64 bits.
  ForEach([&](int32_t, Count count) {
    const auto n = static_cast<double>(count.negatives), p = static_cast<double>(count.positives);
    won += p * (negatives + 0.5 * n);
    negatives += n;
    positives += p;
  });
  return negatives > 0 && positives > 0 ? won / (negatives * positives) : 0.5;
}

double ScoreCounts::AucError() const {
  if (exact()) return 0;
  double negatives = 0, positives = 0, tied = 0;
  ForEach([&](int32_t, Count count) {
    const auto n = static_cast<double>(count.negatives), p = static_cast<double>(count.positives);
    tied += n * p;
    negatives += n;
    positives += p;
  });
  return tied > 0 ? 0.5 * tied / (negatives * positives) : 0;
}

void ScoreCounts::Encode(ByteWriter& out) const {
  int64_t scores = 0;
  ForEach([&](int32_t, Count) { ++scores; });
  out.PutVarint(dropped_bits_);
  out.PutVarint(scores);
  int64_t last = 0;
  ForEach([&](int32_t key, Count count) {
    out.PutVarint((key - last) >> dropped_bits_);
    out.PutVarint(count.negatives);
    out.PutVarint(count.positives);
    last = key;
  });
}

ScoreCounts ScoreCounts::Decode(ByteReader& in) {
  ScoreCounts counts;
  counts.dropped_bits_ = static_cast<int>(std::clamp<int64_t>(in.GetVarint(), 0, 31));
  int64_t key = 0;
  for (int64_t n = in.GetVarint(); n > 0 && in.ok(); --n) {
    key += in.GetVarint() << counts.dropped_bits_;
    const int64_t negatives = std::max<int64_t>(in.GetVarint(), 0);
    const int64_t positives = std::max<int64_t>(in.GetVarint(), 0);
    if (in.ok()) Append(static_cast<int32_t>(key), {negatives, positives}, &counts.pending_);
  }
  counts.Settle();
  return counts;
}

}  // namespace rubato
