// Ids that are counted and do not come again.
//
// A hand goes round all ids, in the order of their points, once in as many steps as an id may wait.
// It leaves a mark on every count, which the next push of the id takes away, and drops the counts
// that still have its mark from the last time: so an id is forgotten when it was not pushed for one
// to two rounds. Where the hand is follows from the steps of a partition alone, so a log replays to
// the same counts, wherever their partitions live; and a step looks at its share of the ids, no
// more.
#include <algorithm>
#include <utility>
#include <vector>

#include "rubato/params/embedding_table.h"

namespace rubato {
namespace {

// Of a table whose rows stay for ever.
constexpr uint64_t kRoundSteps = 100'000;

// Where the part of all points begins that is number `part` of `parts`.
uint64_t PartBegin(uint64_t part, uint64_t parts) {
  return static_cast<uint64_t>((static_cast<unsigned __int128>(part) << 64) / parts);
}

}  // namespace

void EmbeddingTable::ForgetCounted(int64_t step, const IntervalSet& partitions) {
  if (policy_.admit_count <= 1 || counted() == 0) return;
  const uint64_t round =
      policy_.ttl_steps > 0 ? static_cast<uint64_t>(policy_.ttl_steps) : kRoundSteps;
  const uint64_t part = static_cast<uint64_t>(step) % round;
  const uint64_t first = PartBegin(part, round), last = PartBegin(part + 1, round) - 1;
  std::vector<std::pair<uint64_t, uint32_t>> counts;  // Key, number.
  for (int64_t p = PartitionOf(first); p <= PartitionOf(last); ++p) {
    // What is on its way here is none of them, and swept where it comes from.
    if (!Has(p) || !partitions.Contains(p)) continue;
    const auto [begin, end] = KeysOf(p);
    const uint64_t from = p == PartitionOf(first) ? begin | (first & kWithin) : begin;
    const uint64_t to = p == PartitionOf(last) ? begin | (last & kWithin) : end;
    index_.Visit(from, to, [&](uint64_t key, uint32_t number) {
      if (number >= kCounted) counts.emplace_back(key, number);
    });
  }
  for (const auto& [key, number] : counts) {
    const uint64_t id = IdOfKey(key);
    if (observer_ != nullptr) observer_->BeforeCount(id, key, number - kCounted);
    if (((number - kCounted) & kOld) == 0) {
      index_.Replace(key, number + kOld);
      if (changes_.known()) changes_.Counted(id, NotesMost());
      continue;
    }
    Remove(key, number);
    if (changes_.known()) changes_.Gone(id, NotesMost());
    ++counters_.forgotten;
  }
}

}  // namespace rubato
