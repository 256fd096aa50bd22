#include "rubato/params/history.h"

#include <algorithm>
#include <utility>

#include "rubato/base/status.h"
#include "rubato/params/partition.h"

namespace rubato {
namespace {

// More pushes and records than anybody has.
constexpr int64_t kMost = int64_t{1} << 48;

void Join(IntervalSet& set, const IntervalSet& more) {
  for (const Interval& run : more.Intervals()) set.Add(run.begin, run.end);
}

void PutApplied(ByteWriter& writer, const std::map<int64_t, IntervalSet>& applied) {
  writer.Put<uint32_t>(static_cast<uint32_t>(applied.size()));
  for (const auto& [epoch, set] : applied) {
    const std::vector<Interval> intervals = set.Intervals();
    writer.Put<int64_t>(epoch);
    writer.Put<uint32_t>(static_cast<uint32_t>(intervals.size()));
    for (const Interval& interval : intervals) {
      writer.Put<int64_t>(interval.begin);
      writer.Put<int64_t>(interval.end);
    }
  }
}

absl::StatusOr<AppliedPositions> GetApplied(ByteReader& reader) {
  AppliedPositions applied;
  for (uint32_t epochs = reader.Get<uint32_t>(); epochs > 0 && reader.ok(); --epochs) {
    const auto epoch = reader.Get<int64_t>();
    for (uint32_t n = reader.Get<uint32_t>(); n > 0 && reader.ok(); --n) {
      const auto begin = reader.Get<int64_t>();
      const auto end = reader.Get<int64_t>();
      if (epoch < 0 || begin < 0 || begin >= end || end > kMost) {
        return absl::DataLossError("impossible positions");
      }
      applied.Add(epoch, begin, end);
    }
  }
  return applied;
}

}  // namespace

History::Held History::HeldOf(const BatchKey& key) const {
  const auto epoch = applied.by_epoch().find(key.epoch);
  if (epoch == applied.by_epoch().end()) return Held::kNothing;
  if (epoch->second.Covers(key.begin, key.end)) return Held::kAll;
  const auto gaps = epoch->second.Gaps(key.begin, key.end);
  const bool nothing = gaps.size() == 1 && gaps[0] == Interval{key.begin, key.end};
  return nothing ? Held::kNothing : Held::kPart;
}

void JoinHistories(std::vector<History>& histories) {
  for (size_t i = 0; i < histories.size(); ++i) {
    for (size_t j = histories.size(); --j > i;) {
      if (!histories[i].SamePast(histories[j])) continue;
      Join(histories[i].partitions, histories[j].partitions);
      histories.erase(histories.begin() + static_cast<std::ptrdiff_t>(j));
    }
  }
}

std::vector<History> HistoriesOf(const std::vector<History>& histories,
                                 const IntervalSet& partitions) {
  std::vector<History> kept;
  for (const History& history : histories) {
    const IntervalSet left = history.partitions.Intersect(partitions);
    if (left.empty()) continue;
    kept.push_back(history);
    kept.back().partitions = left;
  }
  return kept;
}

IntervalSet PartitionsOf(const std::vector<History>& histories) {
  IntervalSet partitions;
  for (const History& history : histories) Join(partitions, history.partitions);
  return partitions;
}

void PutHistories(ByteWriter& writer, const std::vector<History>& histories) {
  writer.Put<uint32_t>(static_cast<uint32_t>(histories.size()));
  for (const History& history : histories) {
    writer.PutString(EncodePartitions(history.partitions));
    PutApplied(writer, history.applied.by_epoch());
    writer.Put<int64_t>(history.steps);
    writer.Put<double>(history.rate);
    writer.Put<int64_t>(history.rounds);
    writer.Put<int64_t>(history.round_samples);
  }
}

absl::StatusOr<std::vector<History>> GetHistories(ByteReader& reader) {
  std::vector<History> histories;
  int64_t partitions = 0;
  for (uint32_t n = reader.Get<uint32_t>(); n > 0 && reader.ok(); --n) {
    History& history = histories.emplace_back();
    RUBATO_ASSIGN_OR_RETURN(history.partitions, DecodePartitions(reader.GetString()));
    RUBATO_ASSIGN_OR_RETURN(history.applied, GetApplied(reader));
    history.steps = reader.Get<int64_t>();
    history.rate = reader.Get<double>();
    history.rounds = reader.Get<int64_t>();
    history.round_samples = reader.Get<int64_t>();
    if (!reader.ok()) break;
    if (!(history.rate > 0 && history.rate <= 1)) {
      return absl::DataLossError("a history with an impossible rate");
    }
    const auto [fewest, most] = std::minmax(history.rounds, history.round_samples);
    if (fewest < 0 || most > kMost) return absl::DataLossError("a history of impossible rounds");
    if (history.steps < 0 || history.steps > kMost || history.partitions.empty()) {
      return absl::DataLossError("a history of nothing");
    }
    partitions += history.partitions.size();
  }
  RUBATO_RETURN_IF_ERROR(reader.Check("histories"));
  if (partitions != PartitionsOf(histories).size()) {
    return absl::DataLossError("a partition with two histories");
  }
  return histories;
}

}  // namespace rubato
