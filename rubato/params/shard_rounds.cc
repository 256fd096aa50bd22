// Modes sync and hybrid: what a push does when it does not move the weights at once.
#include <algorithm>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "rubato/base/bytes.h"
#include "rubato/base/status.h"
#include "rubato/params/shard.h"

namespace rubato {

// A round that moved the weights, or that is said to be whole, has all its gradients, so what comes
// for it now is from elsewhere.
// In mode async the word of the client counts: what it had pulled from here, if it says so.
bool Shard::Stale(const DecodedPush& push) const {
  const PushRequest& request = push.request;
  if (!InRounds()) {
    return declaration_->tolerance > 0 && push.pulled >= 0 &&
           std::any_of(histories_.begin(), histories_.end(), [&](const History& history) {
             return history.HeldOf(request.key) == History::Held::kNothing &&
                    history.steps - push.pulled > declaration_->tolerance;
           });
  }
  return request.round < std::max(rounds(), request.rounds) ||
         request.round - request.rounds > declaration_->tolerance;
}

int64_t Shard::rounds() const {
  if (histories_.empty()) return 0;
  return std::min_element(histories_.begin(), histories_.end(),
                          [](const History& a, const History& b) { return a.rounds < b.rounds; })
      ->rounds;
}

StagedGradient Shard::StagedOf(const PushRequest& request) const {
  StagedGradient gradient;
  gradient.round = request.round;
  gradient.key = request.key;
  gradient.records = request.records;
  gradient.rate = request.rate;
  absl::Span<const float> dense = request.dense;
  for (const auto& [s, slice] : dense_) {
    if (dense.empty()) break;
    const size_t floats = SliceFloats(s);
    gradient.dense[s].assign(dense.begin(), dense.begin() + static_cast<std::ptrdiff_t>(floats));
    dense.remove_prefix(floats);
  }
  for (const TablePush& table : request.tables) {
    StagedGradient::Table& copy = gradient.tables.emplace_back();
    copy.ids.assign(table.ids.begin(), table.ids.end());
    copy.gradients.assign(table.gradients.begin(), table.gradients.end());
  }
  return gradient;
}

// As one part, whatever the histories: each part that came by itself would be copied with those
// before it.
void Shard::Stage(const DecodedPush& push) {
  const PushRequest& request = push.request;
  const bool hybrid = declaration_->mode == PushMode::kHybrid;
  IntervalSet lacking;
  for (History& history : histories_) {
    if (history.HeldOf(request.key) != History::Held::kNothing) continue;
    for (const Interval& run : history.partitions.Intervals()) lacking.Add(run.begin, run.end);
    if (hybrid) {
      PushRequest rows = request;
      rows.dense = {};
      ApplyTo(history, rows, push.pulled, nullptr);
    } else {
      history.applied.Add(request.key.epoch, request.key.begin, request.key.end);
    }
  }
  StagedGradient gradient = StagedOf(request);
  if (hybrid) gradient.tables.clear();
  if (histories_.size() > 1) gradient = gradient.Of(lacking);
  staged_.Add(std::move(gradient));
}

absl::Status Shard::CheckStaged(const StagedGradient& gradient,
                                const IntervalSet& partitions) const {
  bool fits = InRounds() && (gradient.tables.empty() || gradient.tables.size() == tables_.size());
  for (size_t t = 0; fits && t < gradient.tables.size(); ++t) {
    const StagedGradient::Table& table = gradient.tables[t];
    fits = table.gradients.size() == table.ids.size() * tables_[t]->dim() &&
           AllFinite(table.gradients) &&
           std::all_of(table.ids.begin(), table.ids.end(),
                       [&](uint64_t id) { return partitions.Contains(PartitionOf(PointOf(id))); });
  }
  const int64_t dense_size = declared() ? declaration_->signature.dense_size : 0;
  for (const auto& [s, values] : gradient.dense) {
    fits = fits && s >= 0 && s < DenseSliceCount(dense_size) &&
           partitions.Contains(PartitionOfSlice(s));
    if (!fits) break;
    const Interval range = DenseSliceAt(dense_size, s);
    fits = values.size() == static_cast<size_t>(range.end - range.begin) && AllFinite(values);
  }
  if (fits) return absl::OkStatus();
  return absl::DataLossError("a staged gradient that does not fit the model");
}

absl::Status Shard::RestoreStaged(const StagedGradient& gradient) {
  RUBATO_RETURN_IF_ERROR(CheckStaged(gradient, AllPartitions()));
  StagedGradient part = gradient.Of(PartitionsOf(histories_));
  if (staged_.Clashes(part)) return absl::DataLossError("a gradient that is staged twice");
  staged_.Add(std::move(part));
  return absl::OkStatus();
}

absl::Status Shard::EvenRounds() {
  int64_t most = 0;
  for (const History& history : histories_) most = std::max(most, history.rounds);
  return Whole(most);
}

absl::Status Shard::LogRounds(RecordSink& log) const {
  if (!InRounds() || rounds() == 0) return absl::OkStatus();
  std::string body;
  ByteWriter(body).Put<int64_t>(rounds());
  return log.Append(RecordKind::kRounds, body);
}

absl::Status Shard::ReplayRounds(absl::string_view body) {
  ByteReader reader(body);
  const auto rounds = reader.Get<int64_t>();
  if (!reader.ok() || reader.remaining() > 0) return absl::DataLossError("no number of rounds");
  return Whole(rounds);
}

absl::Status Shard::Whole(int64_t whole) {
  if (!InRounds() || rounds() >= whole || histories_.empty()) return absl::OkStatus();
  for (int64_t round = rounds(); round < whole; ++round) {
    if (!staged_.Has(round)) {
      return absl::FailedPreconditionError(absl::StrCat(
          "round ", round, " is said to be whole, but no gradient of it has come here"));
    }
    RUBATO_RETURN_IF_ERROR(ApplyRound(round));
    staged_.DropBefore(round + 1);
    if (histories_.size() > 1) JoinHistories(histories_);
    BeginNextStep();
  }
  return absl::OkStatus();
}

// To all that have yet to move by it, or to nobody: RESOURCE_EXHAUSTED if a table has no room,
// which was looked at when each gradient came, but not by a log's replay.
absl::Status Shard::ApplyRound(int64_t round) {
  std::vector<std::pair<History*, StagedRounds::Merged>> parts;
  for (History& history : histories_) {
    if (history.rounds != round) continue;
    parts.emplace_back(&history, staged_.Merge(round, history.partitions));
  }
  for (size_t t = 0; t < tables_.size(); ++t) {
    if (staged_.ids(t) <= tables_[t]->room()) continue;
    uint64_t missing = 0;
    for (const auto& [history, merged] : parts) {
      const auto& tables = merged.gradient.tables;
      if (t < tables.size()) missing += tables_[t]->CountMissing(tables[t].ids);
    }
    RUBATO_RETURN_IF_ERROR(Annotate(tables_[t]->CheckRoom(missing), absl::StrCat("round ", round)));
  }
  for (const auto& [history, merged] : parts) ApplyMerged(*history, merged);
  return absl::OkStatus();
}

void Shard::ApplyMerged(History& history, const StagedRounds::Merged& merged) {
  if (histories_.size() > 1 || merged.gradient.rate != history.rate) {
    history.rate = merged.gradient.rate;
    BeginStep(StepOf(history), /*evict=*/false);
  }
  const OptimizerStep step = DenseStep(history);
  for (const auto& [s, gradient] : merged.gradient.dense) UpdateSlice(s, gradient, step);
  for (size_t t = 0; t < merged.gradient.tables.size(); ++t) {
    const StagedGradient::Table& part = merged.gradient.tables[t];
    // There is room: that was looked at for the whole round.
    RUBATO_CHECK_OK(tables_[t]->Update(part.ids, part.gradients.data()));
  }
  ++history.rounds;
  history.round_samples += merged.samples;
  if (declaration_->mode == PushMode::kSync) CountStep(history);
}

}  // namespace rubato
