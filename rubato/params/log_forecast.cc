#include "rubato/params/log_forecast.h"

#include <algorithm>

#include "rubato/params/partition.h"
#include "rubato/params/shard.h"
#include "rubato/params/wire.h"

namespace rubato {

void LogForecast::Add(RecordKind kind, absl::string_view body) {
  if (kind != RecordKind::kPush) {
    moves_ |= kind != RecordKind::kDeclare;
    return;
  }
  PushIds(body, &ids_);
  sample_.resize(std::max(sample_.size(), ids_.size()));
  for (size_t t = 0; t < ids_.size(); ++t) {
    for (const uint64_t id : ids_[t]) {
      if (PointOf(id) % kOneOf == 0) sample_[t].insert(id);
    }
  }
}

std::vector<MemoryRange> Shard::Expect(const LogForecast& forecast) {
  std::vector<MemoryRange> memory;
  const size_t tables = forecast.moves() ? 0 : std::min(forecast.sample().size(), tables_.size());
  for (size_t t = 0; t < tables; ++t) {
    const auto& sample = forecast.sample()[t];
    const auto news = std::count_if(sample.begin(), sample.end(), [&](uint64_t id) {
      if (!owned_[static_cast<size_t>(PartitionOf(PointOf(id)))]) return false;
      const EmbeddingTable::Found found = tables_[t]->Find(id);
      return !found.row.has_value() && found.count == 0;
    });
    tables_[t]->Expect(static_cast<uint64_t>(news) * LogForecast::kOneOf, &memory);
  }
  return memory;
}

}  // namespace rubato
