#include "rubato/params/shard.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "rubato/base/status.h"
#include "rubato/net/frame.h"

namespace rubato {
namespace {

std::string KeyText(const BatchKey& key) {
  return absl::StrFormat("epoch %d, positions [%d,%d)", key.epoch, key.begin, key.end);
}

std::string From(const PushRequest& request) {
  return absl::StrCat("push of ", request.worker.ToString(), " for ", KeyText(request.key), ": ");
}

// Names the first value that is not finite, for the message.
std::string FirstNotFinite(absl::Span<const float> values) {
  const auto it =
      std::find_if(values.begin(), values.end(), [](float v) { return !std::isfinite(v); });
  return absl::StrCat(std::isnan(*it) ? "NaN" : "infinity", " at element ", it - values.begin());
}

}  // namespace

Shard::Shard(Memory& memory, ShardOptions options)
    : memory_(memory), options_(options), map_(PartitionMap::Even(options.servers)) {
  const IntervalSet owned = map_.PartitionsOf(options.server);
  if (!owned.empty()) SetOwned({{.partitions = owned}});
}

void Shard::SetOwned(std::vector<History> histories) {
  histories_ = std::move(histories);
  owned_.fill(false);
  for (const History& history : histories_) {
    for (const Interval& run : history.partitions.Intervals()) {
      std::fill(owned_.begin() + run.begin, owned_.begin() + run.end, true);
    }
  }
}

absl::Status Shard::Declare(absl::string_view body, RecordSink* log) {
  RUBATO_ASSIGN_OR_RETURN(Declaration declaration, DecodeDeclaration(body));
  if (declaration_.has_value()) {
    RUBATO_RETURN_IF_ERROR(SameDeclaration(*declaration_, declaration));
    // How stale a push may be goes by the number of workers, which may change. A log has none that
    // was refused, so it replays whatever the bound.
    declaration_->tolerance = declaration.tolerance;
    return absl::OkStatus();
  }
  RUBATO_RETURN_IF_ERROR(MakeTables(declaration));
  if (absl::Status status =
          log == nullptr ? absl::OkStatus() : log->Append(RecordKind::kDeclare, body);
      !status.ok()) {
    tables_.clear();
    return status;
  }
  const std::vector<float> dense = std::exchange(declaration.dense, {});
  declaration_bytes_ = EncodeDeclaration(declaration, {});
  declaration_ = std::move(declaration);
  MakeDense(dense);
  BeginNextStep();
  return absl::OkStatus();
}

void Shard::MakeDense(absl::Span<const float> weights) {
  const int64_t dense_size = declaration_->signature.dense_size;
  for (int64_t s = 0; s < DenseSliceCount(dense_size); ++s) {
    if (!owned_[static_cast<size_t>(PartitionOfSlice(s))]) continue;
    const size_t floats = SliceFloats(s);
    DenseSlice& slice = dense_[s];
    slice.assign(weights.begin(), weights.begin() + static_cast<std::ptrdiff_t>(floats));
    weights.remove_prefix(floats);
    slice.resize(floats + optimizer_->dense_state_floats(floats));
    const auto all = absl::MakeSpan(slice);
    optimizer_->StartDense(all.subspan(0, floats), all.subspan(floats));
  }
}

size_t Shard::SliceFloats(int64_t slice) const {
  const Interval range = DenseSliceAt(declaration_->signature.dense_size, slice);
  return static_cast<size_t>(range.end - range.begin);
}

size_t Shard::dense_floats() const {
  size_t floats = 0;
  for (const auto& [s, slice] : dense_) floats += SliceFloats(s);
  return floats;
}

absl::Status Shard::MakeTables(const Declaration& declaration) {
  const int64_t dense_size = declaration.signature.dense_size;
  size_t floats = 0;
  // A claim far from what came is not worth counting out: each partition has nearly as much.
  const int64_t likely = static_cast<int64_t>(declaration.dense.size() / kDenseSliceFloats) + 1;
  if (dense_size < 0 || DenseSliceCount(dense_size) / kPartitions > likely) {
    return absl::InvalidArgumentError(absl::StrCat(dense_size, " dense weights are impossible"));
  }
  for (int64_t s = 0; s < DenseSliceCount(dense_size); ++s) {
    if (!owned_[static_cast<size_t>(PartitionOfSlice(s))]) continue;
    const Interval range = DenseSliceAt(dense_size, s);
    floats += static_cast<size_t>(range.end - range.begin);
  }
  if (declaration.dense.size() != floats && histories_.empty()) {
    return absl::AbortedError(absl::StrCat("server ", options_.server, " owns nothing"));
  }
  if (declaration.dense.size() != floats) {
    return absl::InvalidArgumentError(
        absl::StrFormat("%d dense weights declared, but server %d holds %d of %d",
                        declaration.dense.size(), options_.server, floats, dense_size));
  }
  if (!AllFinite(declaration.dense)) {
    return absl::InvalidArgumentError("initial dense weights: " +
                                      FirstNotFinite(declaration.dense));
  }
  RUBATO_ASSIGN_OR_RETURN(optimizer_, Optimizer::Make(declaration.optimizer));
  std::vector<EmbeddingTableOptions> all;
  for (const TableSpec& spec : declaration.signature.tables) {
    EmbeddingTableOptions& options = all.emplace_back();
    options.spec = spec;
    options.optimizer = declaration.optimizer;
    options.rows = declaration.rows;
    options.seed = declaration.seed;
    options.partitions = PartitionsOf(histories_);
    options.rows_max = options_.rows_max;
    options.late_max = options_.late_max;
  }
  RUBATO_ASSIGN_OR_RETURN(tables_, EmbeddingTable::MakeAll(memory_, std::move(all)));
  return absl::OkStatus();
}

bool Shard::PullChanges(absl::string_view body) const {
  if (InRounds() && PullRounds(body) > rounds()) return true;
  return histories_.size() > 1 && std::any_of(tables_.begin(), tables_.end(),
                                              [](const auto& t) { return t->moves_meanwhile(); });
}

absl::Status Shard::BeforePull(absl::string_view body) { return Whole(PullRounds(body)); }

absl::Status Shard::Pull(absl::string_view body, Buffer* reply, PullScratch* scratch) const {
  DecodedPull& pull = scratch->pull;
  RUBATO_RETURN_IF_ERROR(DecodePull(body, &pull));
  // First: one that gave all away and died since knows of no model, and is asked by an older map.
  RUBATO_RETURN_IF_ERROR(CheckVersion(pull.version));
  if (!declared()) return absl::FailedPreconditionError("pull before the model was declared");
  if (pull.rounds > rounds() && InRounds()) {
    return absl::FailedPreconditionError("pull of rounds that have not moved the weights");
  }
  if (!pull.tables.empty() && pull.tables.size() != tables_.size()) {
    return absl::InvalidArgumentError(
        absl::StrCat("pull of ", pull.tables.size(), " tables, but there are ", tables_.size()));
  }
  const auto wire_bytes = static_cast<size_t>(WireBytes(pull.format));
  const uint64_t dense = pull.want_dense ? dense_floats() : 0;
  uint64_t bytes = sizeof(PullReplyHead) + Padded(dense * wire_bytes);
  int64_t rows = 0;
  for (size_t t = 0; t < pull.tables.size(); ++t) {
    const TableIds& part = pull.tables[t];
    if (!part.ids.empty() && part.dim != tables_[t]->dim()) {
      return absl::InvalidArgumentError(absl::StrCat("pull of table ", tables_[t]->name(), ": dim ",
                                                     part.dim, ", not ", tables_[t]->dim()));
    }
    if (!Owns(part.ids)) {
      return absl::InvalidArgumentError(
          absl::StrCat("pull of table ", tables_[t]->name(), ": ids of another server"));
    }
    bytes += Padded(part.ids.size() * tables_[t]->dim() * wire_bytes);
    rows += static_cast<int64_t>(part.ids.size());
  }
  if (bytes > kFrameBytesMax) {
    return absl::InvalidArgumentError(absl::StrCat("pull of ", bytes, " bytes, but a reply holds ",
                                                   kFrameBytesMax, ": ",
                                                   WayToFit(dense * wire_bytes, kFrameBytesMax)));
  }
  reply->Reserve(reply->size() + bytes);
  reply->Put(PullReplyHead{dense, histories_.empty() ? 0 : histories_[0].steps});
  for (const auto& [s, slice] : dense_) {
    if (!pull.want_dense) break;
    const size_t floats = SliceFloats(s);
    PackFloats(pull.format, slice.data(), floats, reply->Extend(floats * wire_bytes));
  }
  reply->Pad();
  for (size_t t = 0; t < pull.tables.size(); ++t) {
    const auto ids = pull.tables[t].ids;
    const size_t dim = tables_[t]->dim();
    char* out = reply->Extend(ids.size() * dim * wire_bytes);
    if (pull.format == WireFormat::kFp32) {
      GatherRows(t, ids, reinterpret_cast<float*>(out));
    } else {
      // In pieces that stay in the cache between the two loops.
      constexpr size_t kPiece = 1024;
      scratch->rows.resize(std::max(scratch->rows.size(), std::min(kPiece, ids.size()) * dim));
      for (size_t begin = 0; begin < ids.size(); begin += kPiece) {
        const auto piece = ids.subspan(begin, kPiece);
        GatherRows(t, piece, scratch->rows.data());
        PackFloats(pull.format, scratch->rows.data(), piece.size() * dim,
                   out + begin * dim * wire_bytes);
      }
    }
    reply->Pad();
  }
  pulls_.fetch_add(1, std::memory_order_relaxed);
  rows_pulled_.fetch_add(rows, std::memory_order_relaxed);
  return absl::OkStatus();
}

// Rows whose decay is due read as of the next step of their own partition.
void Shard::GatherRows(size_t t, absl::Span<const uint64_t> ids, float* out) const {
  const EmbeddingTable& table = *tables_[t];
  if (histories_.size() == 1 || !table.moves_meanwhile()) return table.Gather(ids, out);
  for (const History& history : histories_) {
    BeginStep(StepOf(history), /*evict=*/false);
    for (size_t i = 0; i < ids.size(); ++i) {
      if (!history.partitions.Contains(PartitionOf(PointOf(ids[i])))) continue;
      table.Gather(ids.subspan(i, 1), out + i * table.dim());
    }
  }
}

absl::Status Shard::CheckVersion(int64_t version) const {
  const int64_t mine = map_.VersionOf(options_.server);
  if (version == mine) return absl::OkStatus();
  return absl::AbortedError(absl::StrCat("server ", options_.server, " owns what map ", mine,
                                         " gave it, not what map ", version, " did"));
}

bool Shard::Owns(absl::Span<const uint64_t> ids) const {
  bool all = true;
  for (const uint64_t id : ids) all &= owned_[static_cast<size_t>(PartitionOf(PointOf(id)))];
  return all;
}

bool Shard::Fenced(const PushRequest& request) const {
  if (std::binary_search(workers_.begin(), workers_.end(), request.worker)) return false;
  // A newcomer may have heard of a view that has not reached us; a name from the past has not.
  return request.view <= view_;
}

absl::StatusOr<PushOutcome> Shard::Push(absl::string_view body, RecordSink* log) {
  RUBATO_RETURN_IF_ERROR(DecodePush(body, &push_));
  PushTurn turn;
  return Push(push_, body, log, turn);
}

absl::StatusOr<PushOutcome> Shard::Push(const DecodedPush& push, absl::string_view body,
                                        RecordSink* log, PushTurn& turn) {
  if (InRounds()) turn.Write();
  absl::StatusOr<PushOutcome> outcome = CheckPush(push);
  const PushRequest& request = push.request;
  const bool applies = outcome.ok() && *outcome == PushOutcome::kApplied;
  if (applies) {
    if (!turn.Alone() && !RoomBeside(request)) turn.Write();
    RUBATO_RETURN_IF_ERROR(Whole(request.rounds));
    if (turn.Alone()) RUBATO_RETURN_IF_ERROR(CheckRoom(request));
    if (log != nullptr) RUBATO_RETURN_IF_ERROR(log->Append(RecordKind::kPush, body));
  }
  turn.Write();
  if (!applies) {
    counters_.not_finite += absl::IsOutOfRange(outcome.status());
    counters_.fenced += outcome.ok() && *outcome == PushOutcome::kFenced;
    counters_.duplicates += outcome.ok() && *outcome == PushOutcome::kDuplicate;
    counters_.stale += outcome.ok() && *outcome == PushOutcome::kStale;
    return outcome;
  }
  CountStaleness(push.pulled);
  ++counters_.pushes;
  for (const TablePush& part : request.tables) {
    counters_.rows_pushed += static_cast<int64_t>(part.ids.size());
  }
  RUBATO_RETURN_IF_ERROR(Apply(push, turn));
  return PushOutcome::kApplied;
}

// What is to become of a push, but for the room it needs. Looks at nothing that a push changes
// after it has passed its turn on.
absl::StatusOr<PushOutcome> Shard::CheckPush(const DecodedPush& push) const {
  const PushRequest& request = push.request;
  const BatchKey& key = request.key;
  if (Fenced(request)) return PushOutcome::kFenced;
  if (!IsBatch(key)) {
    return absl::InvalidArgumentError(absl::StrCat("a push for no batch: ", KeyText(key)));
  }
  RUBATO_RETURN_IF_ERROR(CheckVersion(push.version));
  if (!declared()) return absl::FailedPreconditionError("push before the model was declared");
  size_t held = 0;
  for (const History& history : histories_) {
    const History::Held how = history.HeldOf(key);
    if (how == History::Held::kPart) {
      return absl::FailedPreconditionError(absl::StrCat(
          request.worker.ToString(), " pushed ", KeyText(key),
          ", of which part is applied already: batches must be cut the same way every time"));
    }
    held += how == History::Held::kAll;
  }
  if (held == histories_.size()) return PushOutcome::kDuplicate;
  if (Stale(push)) return PushOutcome::kStale;
  RUBATO_RETURN_IF_ERROR(CheckParts(push));
  return PushOutcome::kApplied;
}

void Shard::CountStaleness(int64_t pulled) {
  const int64_t steps = histories_.empty() ? 0 : histories_[0].steps;
  if (pulled < 0 || pulled > steps) return;
  ++counters_.stale_pushes;
  counters_.staleness_sum += steps - pulled;
  counters_.staleness_max = std::max(counters_.staleness_max, steps - pulled);
}

// Everything that could go wrong in Apply is found here and in CheckRoom, before the push is
// logged.
absl::Status Shard::CheckParts(const DecodedPush& push) const {
  const PushRequest& request = push.request;
  const std::string from = From(request);
  if (!request.dense.empty() && request.dense.size() != dense_floats()) {
    return absl::InvalidArgumentError(
        absl::StrCat(from, request.dense.size(), " dense gradients, not ", dense_floats()));
  }
  if (!request.tables.empty() && request.tables.size() != tables_.size()) {
    return absl::InvalidArgumentError(
        absl::StrCat(from, request.tables.size(), " tables, but there are ", tables_.size()));
  }
  if (!(request.rate > 0 && request.rate <= 1)) {
    return absl::InvalidArgumentError(absl::StrCat(from, "learning rates times ", request.rate));
  }
  for (size_t t = 0; t < request.tables.size(); ++t) {
    const TablePush& part = request.tables[t];
    const EmbeddingTable& table = *tables_[t];
    if (!part.ids.empty() && push.dims[t] != table.dim()) {
      return absl::InvalidArgumentError(absl::StrCat(from, "table ", table.name(), ": dim ",
                                                     push.dims[t], ", not ", table.dim()));
    }
    if (!Owns(part.ids)) {
      return absl::InvalidArgumentError(
          absl::StrCat(from, "table ", table.name(), ": ids of another server"));
    }
  }
  return push.finite ? absl::OkStatus() : CheckFinite(push);
}

absl::Status Shard::CheckFinite(const DecodedPush& push) const {
  const auto check = [&](absl::string_view where, absl::Span<const float> values) -> absl::Status {
    if (AllFinite(values)) return absl::OkStatus();
    // Beyond the largest number of fp16 a gradient becomes infinite on its way.
    const bool overflows = push.format == WireFormat::kFp16;
    return absl::OutOfRangeError(
        absl::StrCat(From(push.request), where, ": gradient is ", FirstNotFinite(values),
                     overflows ? "; fp16 ends at 65504, params.wire: bf16 does not" : ""));
  };
  RUBATO_RETURN_IF_ERROR(check("dense weights", push.request.dense));
  for (size_t t = 0; t < push.request.tables.size(); ++t) {
    RUBATO_RETURN_IF_ERROR(
        check(absl::StrCat("table ", tables_[t]->name()), push.request.tables[t].gradients));
  }
  return absl::OkStatus();
}

absl::Status Shard::CheckRoom(const PushRequest& request) const {
  for (size_t t = 0; t < request.tables.size(); ++t) {
    RUBATO_RETURN_IF_ERROR(Annotate(CheckRoomIn(t, request.tables[t].ids), From(request)));
  }
  return absl::OkStatus();
}

// Only where not every id could be a new one are they looked up. What is counted stays true until
// a gradient is applied: an id that loses its row meanwhile leaves the room that it will need.
absl::Status Shard::CheckRoomIn(size_t t, absl::Span<const uint64_t> ids, uint64_t more) const {
  const EmbeddingTable& table = *tables_[t];
  uint64_t most = ids.size() + more + staged_.ids(t);
  const auto visit_arriving = [&](auto count) {
    if (!arrival_.has_value()) return;
    for (const StagedGradient& gradient : arrival_->staged) {
      if (t < gradient.tables.size()) count(gradient);
    }
  };
  visit_arriving([&](const StagedGradient& gradient) { most += gradient.tables[t].ids.size(); });
  if (most <= table.room()) return absl::OkStatus();
  uint64_t missing = table.CountMissing(ids) + more;
  const auto count = [&](const StagedGradient& gradient) {
    if (t < gradient.tables.size()) missing += table.CountMissing(gradient.tables[t].ids);
  };
  staged_.Visit(count);
  visit_arriving(count);
  return table.CheckRoom(missing);
}

bool Shard::RoomBeside(const PushRequest& request) const {
  for (size_t t = 0; t < request.tables.size(); ++t) {
    if (request.tables[t].ids.size() > room_[t]) return false;
  }
  return true;
}

void Shard::NoteRoom(const PushRequest& request) {
  room_.clear();
  for (const auto& table : tables_) room_.push_back(table->room());
  for (size_t t = 0; t < request.tables.size(); ++t) {
    room_[t] -= std::min<uint64_t>(room_[t], request.tables[t].ids.size());
  }
}

bool Shard::changes_known() const {
  return declared() && changes_.known &&
         std::all_of(tables_.begin(), tables_.end(),
                     [](const auto& table) { return table->changes().known(); });
}

void Shard::BeginChanges() {
  (void)changes_.Cut();
  for (const auto& table : tables_) (void)table->changes().Cut(table->row_numbers());
}

void Shard::SetView(int64_t number, std::vector<WorkerId> workers) {
  if (number <= view_) return;
  view_ = number;
  workers_ = std::move(workers);
  std::sort(workers_.begin(), workers_.end());
}

absl::Status Shard::Replay(RecordKind kind, absl::string_view body) {
  if (kind == RecordKind::kDeclare) return Declare(body, nullptr);
  if (kind == RecordKind::kOwn) {
    RUBATO_ASSIGN_OR_RETURN(const PartitionMap map, PartitionMap::Decode(body));
    RUBATO_RETURN_IF_ERROR(SetMap(map, nullptr));
    while (Tidy()) {
    }
    return absl::OkStatus();
  }
  if (kind >= RecordKind::kArriveBegin && kind <= RecordKind::kArriveEnd) {
    return Arrive(kind, body, nullptr, /*replay=*/true);
  }
  if (kind == RecordKind::kRounds) return ReplayRounds(body);
  if (kind == RecordKind::kArriveDropped) {
    DropArrival();
    while (Tidy()) {
    }
    return absl::OkStatus();
  }
  if (kind != RecordKind::kPush) {
    return absl::DataLossError(
        absl::StrCat("a record of kind ", static_cast<uint32_t>(kind), " in a push log"));
  }
  if (!declared()) return absl::DataLossError("a push before the declaration");
  RUBATO_RETURN_IF_ERROR(DecodePush(body, &push_));
  RUBATO_RETURN_IF_ERROR(CheckParts(push_));
  // In mode sync rows are made with their round, which looks for itself; what waits here may have
  // been rows when this was pushed, for a log tells later which rounds are whole.
  const bool now = declaration_->mode != PushMode::kSync;
  if (now) RUBATO_RETURN_IF_ERROR(CheckRoom(push_.request));
  if (!IsBatch(push_.request.key)) {
    return absl::DataLossError(absl::StrCat("a push for no batch: ", KeyText(push_.request.key)));
  }
  const bool news = std::any_of(histories_.begin(), histories_.end(), [&](const History& history) {
    return history.HeldOf(push_.request.key) == History::Held::kNothing;
  });
  if (!news) {
    return absl::DataLossError(absl::StrCat("applied twice: ", KeyText(push_.request.key)));
  }
  PushTurn turn;
  return Apply(push_, turn);
}

}  // namespace rubato
