#include "rubato/params/staged_rounds.h"

#include <algorithm>

#include "absl/container/flat_hash_map.h"
#include "rubato/base/bytes.h"
#include "rubato/base/status.h"
#include "rubato/params/partition.h"

namespace rubato {
namespace {

constexpr uint32_t kTablesMax = 1 << 16;

// sum += weight x values
void AddScaled(absl::Span<const float> values, float weight, float* sum) {
  for (size_t i = 0; i < values.size(); ++i) sum[i] += weight * values[i];
}

size_t DimOf(const StagedGradient::Table& table) {
  return table.ids.empty() ? 0 : table.gradients.size() / table.ids.size();
}

// One table's ids and gradients of many batches, each id once.
class TableSum {
 public:
  void Add(const StagedGradient::Table& table, float weight) {
    const size_t dim = DimOf(table);
    for (size_t i = 0; i < table.ids.size(); ++i) {
      const auto [it, news] = places_.emplace(table.ids[i], sum_.ids.size());
      if (news) {
        sum_.ids.push_back(table.ids[i]);
        sum_.gradients.resize(sum_.gradients.size() + dim);
      }
      AddScaled({table.gradients.data() + i * dim, dim}, weight,
                sum_.gradients.data() + it->second * dim);
    }
  }
  StagedGradient::Table Take() { return std::move(sum_); }

 private:
  StagedGradient::Table sum_;
  absl::flat_hash_map<uint64_t, size_t> places_;  // Looked up only: its order reaches nothing.
};

}  // namespace

StagedGradient StagedGradient::Of(const IntervalSet& partitions) const {
  StagedGradient part;
  part.round = round;
  part.key = key;
  part.records = records;
  part.rate = rate;
  for (const auto& [slice, values] : dense) {
    if (partitions.Contains(PartitionOfSlice(slice))) part.dense.emplace(slice, values);
  }
  for (const Table& table : tables) {
    Table& some = part.tables.emplace_back();
    const size_t dim = DimOf(table);
    for (size_t i = 0; i < table.ids.size(); ++i) {
      if (!partitions.Contains(PartitionOf(PointOf(table.ids[i])))) continue;
      some.ids.push_back(table.ids[i]);
      const float* gradient = table.gradients.data() + i * dim;
      some.gradients.insert(some.gradients.end(), gradient, gradient + dim);
    }
  }
  return part;
}

int64_t StagedGradient::bytes() const {
  size_t bytes = sizeof(StagedGradient);
  for (const auto& [slice, values] : dense) bytes += values.size() * sizeof(float);
  for (const Table& table : tables) {
    bytes += table.ids.size() * sizeof(uint64_t) + table.gradients.size() * sizeof(float);
  }
  return static_cast<int64_t>(bytes);
}

std::string StagedGradient::Encode() const {
  std::string encoded;
  encoded.reserve(static_cast<size_t>(bytes()));
  ByteWriter writer(encoded);
  for (const int64_t value : {round, key.epoch, key.task, key.begin, key.end, records}) {
    writer.Put<int64_t>(value);
  }
  writer.Put<double>(rate);
  writer.Put<uint32_t>(static_cast<uint32_t>(dense.size()));
  for (const auto& [slice, values] : dense) {
    writer.Put<int64_t>(slice);
    writer.Put<uint64_t>(values.size());
    writer.PutSpan<float>(values);
  }
  writer.Put<uint32_t>(static_cast<uint32_t>(tables.size()));
  for (const Table& table : tables) {
    writer.Put<uint64_t>(table.ids.size());
    writer.PutSpan<uint64_t>(table.ids);
    writer.Put<uint64_t>(table.gradients.size());
    writer.PutSpan<float>(table.gradients);
  }
  return encoded;
}

absl::StatusOr<StagedGradient> StagedGradient::Decode(absl::string_view bytes) {
  ByteReader reader(bytes);
  StagedGradient gradient;
  for (int64_t* value : {&gradient.round, &gradient.key.epoch, &gradient.key.task,
                         &gradient.key.begin, &gradient.key.end, &gradient.records}) {
    *value = reader.Get<int64_t>();
  }
  gradient.rate = reader.Get<double>();
  for (uint32_t n = reader.Get<uint32_t>(); n > 0 && reader.ok(); --n) {
    const auto slice = reader.Get<int64_t>();
    gradient.dense[slice] = reader.GetVector<float>(reader.Get<uint64_t>());
  }
  for (uint32_t n = std::min(reader.Get<uint32_t>(), kTablesMax); n > 0 && reader.ok(); --n) {
    Table& table = gradient.tables.emplace_back();
    table.ids = reader.GetVector<uint64_t>(reader.Get<uint64_t>());
    table.gradients = reader.GetVector<float>(reader.Get<uint64_t>());
  }
  const bool odd = gradient.round < 0 || gradient.records < 0 || gradient.key.begin < 0 ||
                   gradient.key.begin >= gradient.key.end || gradient.key.epoch < 0 ||
                   !(gradient.rate > 0 && gradient.rate <= 1);
  if (!reader.ok() || reader.remaining() > 0 || odd) {
    return absl::DataLossError("bytes that are no staged gradient");
  }
  return gradient;
}

void StagedRounds::Count(const StagedGradient& gradient, int64_t sign) {
  bytes_ += sign * gradient.bytes();
  if (ids_.size() < gradient.tables.size()) ids_.resize(gradient.tables.size());
  for (size_t t = 0; t < gradient.tables.size(); ++t) {
    ids_[t] += static_cast<uint64_t>(sign) * gradient.tables[t].ids.size();
  }
}

bool StagedRounds::Clashes(const StagedGradient& gradient) const {
  const auto round = rounds_.find(gradient.round);
  if (round == rounds_.end()) return false;
  const auto found = round->second.find({gradient.key.epoch, gradient.key.begin});
  if (found == round->second.end()) return false;
  const StagedGradient& staged = *found->second;
  return staged.key.end != gradient.key.end || staged.records != gradient.records ||
         std::any_of(gradient.dense.begin(), gradient.dense.end(),
                     [&](const auto& slice) { return staged.dense.contains(slice.first); });
}

void StagedRounds::Add(StagedGradient gradient) {
  Staged& staged = rounds_[gradient.round][{gradient.key.epoch, gradient.key.begin}];
  if (staged == nullptr) {
    Count(gradient, 1);
    staged = std::make_shared<const StagedGradient>(std::move(gradient));
    return;
  }
  Count(*staged, -1);
  auto both = std::make_shared<StagedGradient>(*staged);
  for (auto& [slice, values] : gradient.dense) {
    const bool fresh = both->dense.emplace(slice, std::move(values)).second;
    RUBATO_CHECK(fresh);
  }
  if (both->tables.size() < gradient.tables.size()) both->tables.resize(gradient.tables.size());
  for (size_t t = 0; t < gradient.tables.size(); ++t) {
    const StagedGradient::Table& more = gradient.tables[t];
    StagedGradient::Table& table = both->tables[t];
    table.ids.insert(table.ids.end(), more.ids.begin(), more.ids.end());
    table.gradients.insert(table.gradients.end(), more.gradients.begin(), more.gradients.end());
  }
  Count(*both, 1);
  staged = std::move(both);
}

StagedRounds::Merged StagedRounds::Merge(int64_t number, const IntervalSet& partitions) const {
  Merged merged;
  merged.gradient.round = number;
  const auto round = rounds_.find(number);
  if (round == rounds_.end()) return merged;
  double records = 0;
  std::vector<StagedGradient> parts;  // Those with a gradient, here or on another server.
  // The rate falls with an evaluation, which may come between two batches of a round.
  for (const auto& [place, gradient] : round->second) {
    merged.samples += gradient->key.end - gradient->key.begin;
    merged.gradient.rate = std::min(merged.gradient.rate, gradient->rate);
    if (gradient->records == 0) continue;
    records += static_cast<double>(gradient->records);
    parts.push_back(gradient->Of(partitions));
  }
  if (parts.size() == 1) {
    merged.gradient.dense = std::move(parts[0].dense);
    merged.gradient.tables = std::move(parts[0].tables);
    return merged;
  }
  std::vector<TableSum> tables;
  for (const StagedGradient& part : parts) {
    const auto weight = static_cast<float>(static_cast<double>(part.records) / records);
    for (const auto& [slice, values] : part.dense) {
      std::vector<float>& sum = merged.gradient.dense[slice];
      sum.resize(values.size());
      AddScaled(values, weight, sum.data());
    }
    tables.resize(std::max(tables.size(), part.tables.size()));
    for (size_t t = 0; t < part.tables.size(); ++t) tables[t].Add(part.tables[t], weight);
  }
  for (TableSum& table : tables) merged.gradient.tables.push_back(table.Take());
  return merged;
}

void StagedRounds::DropBefore(int64_t round) {
  while (!rounds_.empty() && rounds_.begin()->first < round) {
    for (const auto& [place, gradient] : rounds_.begin()->second) Count(*gradient, -1);
    rounds_.erase(rounds_.begin());
  }
}

void StagedRounds::Forget(const IntervalSet& partitions) {
  IntervalSet others;
  int64_t next = 0;
  for (const Interval& run : partitions.Intervals()) {
    if (next < run.begin) others.Add(next, run.begin);
    next = run.end;
  }
  if (next < kPartitions) others.Add(next, kPartitions);
  for (auto& [number, round] : rounds_) {
    for (auto& [place, gradient] : round) {
      Count(*gradient, -1);
      gradient = std::make_shared<const StagedGradient>(gradient->Of(others));
      Count(*gradient, 1);
    }
  }
}

std::vector<StagedRounds::Staged> StagedRounds::All() const {
  std::vector<Staged> all;
  for (const auto& [number, round] : rounds_) {
    for (const auto& [place, gradient] : round) all.push_back(gradient);
  }
  return all;
}

void StagedRounds::Visit(absl::FunctionRef<void(const StagedGradient& gradient)> visit) const {
  for (const Staged& gradient : All()) visit(*gradient);
}

}  // namespace rubato
