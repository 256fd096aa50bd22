// What a shard tells of itself: what was applied, how much it holds, and all of it, byte by byte.
#include <algorithm>
#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "rubato/base/bytes.h"
#include "rubato/params/shard.h"

namespace rubato {

std::map<int64_t, IntervalSet> Shard::applied() const {
  std::map<int64_t, IntervalSet> applied;
  if (!histories_.empty()) applied = histories_[0].applied.by_epoch();
  for (const History& history : histories_) {
    for (auto& [epoch, set] : applied) {
      const auto other = history.applied.by_epoch().find(epoch);
      set =
          other == history.applied.by_epoch().end() ? IntervalSet() : set.Intersect(other->second);
    }
  }
  return applied;
}

int64_t Shard::uneven() const {
  int64_t all = 0;
  for (const auto& [epoch, set] : applied()) all += set.size();
  int64_t most = all;
  for (const History& history : histories_) most = std::max(most, history.samples());
  return most - all;
}

ShardCounters Shard::counters() const {
  ShardCounters counters = counters_;
  counters.pulls = pulls_.load(std::memory_order_relaxed);
  counters.rows_pulled = rows_pulled_.load(std::memory_order_relaxed);
  for (const auto& table : tables_) {
    counters.rows_admitted += table->counters().admitted;
    counters.rows_refused += table->counters().refused;
    counters.rows_evicted += table->counters().evicted;
  }
  return counters;
}

void Shard::TakeAhead(std::vector<MemoryRange>* memory) {
  for (const auto& table : tables_) table->TakeAhead(memory);
}

void Shard::Inspect(ServerInspection* out) const {
  const ShardCounters now = counters();
  out->server = options_.server;
  out->uncounted = counts_known_ ? 0 : 1;
  out->tables.clear();
  for (const auto& table : tables_) {
    const std::vector<OptimizerSpec> moves = table->optimizers();
    const RowsSpec& policy = table->policy();
    const auto name = [](std::string* text, const OptimizerSpec& spec) { text->append(spec.name); };
    out->tables.push_back({.name = table->name(),
                           .dim = static_cast<int64_t>(table->dim()),
                           .optimizer = absl::StrJoin(moves, "+", name),
                           .rows = static_cast<int64_t>(table->rows()),
                           .counted = static_cast<int64_t>(table->counted()),
                           .bytes = static_cast<int64_t>(table->bytes()),
                           .admitted = table->counters().admitted,
                           .refused = table->counters().refused,
                           .evicted = table->counters().evicted,
                           .learning_rate = moves.back().learning_rate,
                           .admit_count = policy.admit_count,
                           .admit_probability = policy.admit_probability,
                           .ttl_steps = policy.ttl_steps,
                           .capacity = policy.capacity});
  }
  out->dense = declared() ? static_cast<int64_t>(dense_floats()) : 0;
  out->bytes = bytes();
  out->partitions = PartitionsOf(histories_).size();
  out->steps = histories_.empty() ? 0 : histories_[0].steps;
  out->view = view_;
  out->pulls = now.pulls, out->rows_pulled = now.rows_pulled;
  out->pushes = now.pushes, out->rows_pushed = now.rows_pushed;
  out->duplicates = now.duplicates, out->fenced = now.fenced, out->not_finite = now.not_finite;
  out->refused_stale = now.stale;
  out->stale_pushes = now.stale_pushes, out->staleness_sum = now.staleness_sum;
  out->staleness_max = now.staleness_max;
}

int64_t Shard::rows() const {
  int64_t rows = 0;
  for (const auto& table : tables_) rows += static_cast<int64_t>(table->rows());
  return rows;
}

int64_t Shard::bytes() const {
  int64_t bytes = 0;
  for (const auto& [s, slice] : dense_) bytes += static_cast<int64_t>(slice.size() * sizeof(float));
  for (const auto& table : tables_) bytes += static_cast<int64_t>(table->bytes());
  return bytes;
}

std::string Shard::Export() const {
  std::string out;
  ByteWriter writer(out);
  writer.PutString(declaration_bytes_);
  writer.PutString(map_.Encode());
  PutHistories(writer, histories_);
  staged_.Visit([&](const StagedGradient& gradient) { writer.PutString(gradient.Encode()); });
  std::map<std::string, std::string> pieces;
  VisitState([&](const std::string& name, absl::string_view state) {
    pieces.emplace(name, std::string(state));
  });
  for (const auto& [name, state] : pieces) {
    writer.PutString(name);
    writer.PutString(state);
  }
  return out;
}

void Shard::VisitState(
    absl::FunctionRef<void(const std::string& name, absl::string_view state)> visit) const {
  const auto bytes = [](const float* values, size_t count) {
    return absl::string_view(reinterpret_cast<const char*>(values), count * sizeof(float));
  };
  for (const auto& [s, slice] : dense_) {
    visit(absl::StrCat("dense ", s), bytes(slice.data(), slice.size()));
  }
  for (const auto& table : tables_) {
    const auto owns = [&](uint64_t id) {
      return owned_[static_cast<size_t>(PartitionOf(PointOf(id)))];
    };
    table->Visit(0, UINT64_MAX, [&](uint64_t id, uint32_t number) {
      if (!owns(id)) return;
      visit(absl::StrCat(table->name(), " ", id), bytes(table->row(number), table->row_floats()));
    });
    table->VisitCounted(0, UINT64_MAX, [&](uint64_t id, uint32_t count) {
      if (!owns(id)) return;
      visit(absl::StrCat(table->name(), " counted ", id), absl::StrCat(count));
    });
  }
}

}  // namespace rubato
