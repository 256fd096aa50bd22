#include "rubato/params/shard.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "rubato/base/bytes.h"
#include "rubato/base/status.h"
#include "rubato/net/frame.h"
#include "rubato/params/learning_rate.h"

namespace rubato {
namespace {

std::string KeyText(const BatchKey& key) {
  return absl::StrFormat("epoch %d, positions [%d,%d)", key.epoch, key.begin, key.end);
}

// Names the first value that is not finite, for the message.
std::string FirstNotFinite(absl::Span<const float> values) {
  const auto it =
      std::find_if(values.begin(), values.end(), [](float v) { return !std::isfinite(v); });
  return absl::StrCat(std::isnan(*it) ? "NaN" : "infinity", " at element ", it - values.begin());
}

// The weights of a slice, of which its state is what comes behind.
size_t SliceFloats(int64_t dense_size, int64_t slice) {
  const Interval range = DenseSliceAt(dense_size, slice);
  return static_cast<size_t>(range.end - range.begin);
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
  if (declaration_.has_value()) return SameDeclaration(*declaration_, declaration);
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
    const size_t floats = SliceFloats(dense_size, s);
    DenseSlice& slice = dense_[s];
    slice.assign(weights.begin(), weights.begin() + static_cast<std::ptrdiff_t>(floats));
    weights.remove_prefix(floats);
    slice.resize(floats + optimizer_->dense_state_floats(floats));
    const auto all = absl::MakeSpan(slice);
    optimizer_->StartDense(all.subspan(0, floats), all.subspan(floats));
  }
}

size_t Shard::dense_floats() const {
  const int64_t dense_size = declaration_->signature.dense_size;
  size_t floats = 0;
  for (const auto& [s, slice] : dense_) floats += SliceFloats(dense_size, s);
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
    if (owned_[static_cast<size_t>(PartitionOfSlice(s))]) floats += SliceFloats(dense_size, s);
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
  std::vector<std::unique_ptr<EmbeddingTable>> tables;
  for (const TableSpec& spec : declaration.signature.tables) {
    EmbeddingTableOptions options;
    options.spec = spec;
    options.optimizer = declaration.optimizer;
    options.rows = declaration.rows;
    options.seed = declaration.seed;
    options.partitions = PartitionsOf(histories_);
    options.rows_max = options_.rows_max;
    RUBATO_ASSIGN_OR_RETURN(auto table, EmbeddingTable::Make(memory_, options));
    tables.push_back(std::move(table));
  }
  tables_ = std::move(tables);
  return absl::OkStatus();
}

bool Shard::PullChanges(absl::string_view body) const {
  if (InRounds() && PullRounds(body) > rounds()) return true;
  return histories_.size() > 1 && std::any_of(tables_.begin(), tables_.end(),
                                              [](const auto& t) { return t->decays_lazily(); });
}

absl::Status Shard::BeforePull(absl::string_view body) { return Whole(PullRounds(body)); }

absl::Status Shard::Pull(absl::string_view body, Buffer* reply, PullScratch* scratch) const {
  if (!declared()) return absl::FailedPreconditionError("pull before the model was declared");
  DecodedPull& pull = scratch->pull;
  RUBATO_RETURN_IF_ERROR(DecodePull(body, &pull));
  RUBATO_RETURN_IF_ERROR(CheckVersion(pull.version));
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
                                                   kFrameBytesMax, ": lower batch_size"));
  }
  reply->Put(PullReplyHead{dense, histories_.empty() ? 0 : histories_[0].steps});
  for (const auto& [s, slice] : dense_) {
    if (!pull.want_dense) break;
    const size_t floats = SliceFloats(declaration_->signature.dense_size, s);
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
  if (histories_.size() == 1 || !table.decays_lazily()) return table.Gather(ids, out);
  for (const History& history : histories_) {
    BeginStep(history, /*evict=*/false);
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

absl::StatusOr<PushOutcome> Shard::Push(absl::string_view body, RecordSink* log,
                                        absl::FunctionRef<void()> before_change) {
  if (InRounds()) before_change();
  absl::StatusOr<PushOutcome> outcome = CheckPush(body);
  const PushRequest& request = push_.request;
  const bool applies = outcome.ok() && *outcome == PushOutcome::kApplied;
  if (applies) RUBATO_RETURN_IF_ERROR(Whole(request.rounds));
  if (applies && log != nullptr) RUBATO_RETURN_IF_ERROR(log->Append(RecordKind::kPush, body));
  before_change();
  if (!applies) {
    counters_.not_finite += absl::IsOutOfRange(outcome.status());
    counters_.fenced += outcome.ok() && *outcome == PushOutcome::kFenced;
    counters_.duplicates += outcome.ok() && *outcome == PushOutcome::kDuplicate;
    counters_.stale += outcome.ok() && *outcome == PushOutcome::kStale;
    return outcome;
  }
  CountStaleness(push_.pulled);
  RUBATO_RETURN_IF_ERROR(Apply(request));
  ++counters_.pushes;
  for (const TablePush& part : request.tables) {
    counters_.rows_pushed += static_cast<int64_t>(part.ids.size());
  }
  return PushOutcome::kApplied;
}

// What is to become of a push, which is in `push_` from then on. Changes nothing else.
absl::StatusOr<PushOutcome> Shard::CheckPush(absl::string_view body) {
  if (!declared()) return absl::FailedPreconditionError("push before the model was declared");
  RUBATO_RETURN_IF_ERROR(DecodePush(body, &push_));
  const PushRequest& request = push_.request;
  const BatchKey& key = request.key;
  if (Fenced(request)) return PushOutcome::kFenced;
  if (!IsBatch(key)) {
    return absl::InvalidArgumentError(absl::StrCat("a push for no batch: ", KeyText(key)));
  }
  RUBATO_RETURN_IF_ERROR(CheckVersion(push_.version));
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
  if (Stale(request)) return PushOutcome::kStale;
  RUBATO_RETURN_IF_ERROR(CheckParts(push_));
  return PushOutcome::kApplied;
}

void Shard::CountStaleness(int64_t pulled) {
  const int64_t steps = histories_.empty() ? 0 : histories_[0].steps;
  if (pulled < 0 || pulled > steps) return;
  ++counters_.stale_pushes;
  counters_.staleness_sum += steps - pulled;
  counters_.staleness_max = std::max(counters_.staleness_max, steps - pulled);
}

// Everything that could go wrong in Apply is found here, before the push is logged.
absl::Status Shard::CheckParts(const DecodedPush& push) const {
  const PushRequest& request = push.request;
  const std::string from =
      absl::StrCat("push of ", request.worker.ToString(), " for ", KeyText(request.key), ": ");
  if (!request.dense.empty() && request.dense.size() != dense_floats()) {
    return absl::InvalidArgumentError(
        absl::StrCat(from, request.dense.size(), " dense gradients, not ", dense_floats()));
  }
  if (!request.tables.empty() && request.tables.size() != tables_.size()) {
    return absl::InvalidArgumentError(
        absl::StrCat(from, request.tables.size(), " tables, but there are ", tables_.size()));
  }
  const auto not_finite = [&](absl::string_view where, absl::Span<const float> values) {
    // Beyond the largest number of fp16 a gradient becomes infinite on its way.
    const bool overflows = push.format == WireFormat::kFp16;
    return absl::OutOfRangeError(
        absl::StrCat(from, where, ": gradient is ", FirstNotFinite(values),
                     overflows ? "; fp16 ends at 65504, params.wire: bf16 does not" : ""));
  };
  if (!(request.rate > 0 && request.rate <= 1)) {
    return absl::InvalidArgumentError(absl::StrCat(from, "learning rates times ", request.rate));
  }
  if (!AllFinite(request.dense)) return not_finite("dense weights", request.dense);
  for (size_t t = 0; t < request.tables.size(); ++t) {
    const TablePush& part = request.tables[t];
    const EmbeddingTable& table = *tables_[t];
    const std::string where = absl::StrCat("table ", table.name());
    if (!part.ids.empty() && push.dims[t] != table.dim()) {
      return absl::InvalidArgumentError(
          absl::StrCat(from, where, ": dim ", push.dims[t], ", not ", table.dim()));
    }
    if (!Owns(part.ids)) {
      return absl::InvalidArgumentError(absl::StrCat(from, where, ": ids of another server"));
    }
    if (!AllFinite(part.gradients)) return not_finite(where, part.gradients);
    const auto staged = static_cast<size_t>(staged_.ids());  // They may all become rows.
    RUBATO_RETURN_IF_ERROR(Annotate(table.CheckRoom(part.ids.size() + staged), from));
  }
  return absl::OkStatus();
}

// To those partitions that do not have it yet: all of them, but for a push that overtook a move.
absl::Status Shard::Apply(const PushRequest& request) {
  RUBATO_RETURN_IF_ERROR(Whole(request.rounds));
  for (History& history : histories_) {
    if (history.HeldOf(request.key) != History::Held::kNothing) continue;
    RUBATO_RETURN_IF_ERROR(InRounds() ? Stage(history, request) : ApplyTo(history, request));
  }
  if (histories_.size() > 1) JoinHistories(histories_);
  BeginNextStep();
  return absl::OkStatus();
}

absl::Status Shard::ApplyTo(History& history, const PushRequest& request) {
  const bool all = histories_.size() == 1;
  const double freshness = Freshness(history);
  if (!all || request.rate != history.rate || freshness != 1) {
    history.rate = request.rate;
    BeginStep(history, /*evict=*/false, freshness);
  }
  if (!request.dense.empty()) UpdateDense(history, request.dense, freshness);
  std::vector<uint64_t> ids;
  std::vector<float> gradients;
  for (size_t t = 0; t < request.tables.size(); ++t) {
    TablePush part = request.tables[t];
    const size_t dim = tables_[t]->dim();
    if (!all) {
      ids.clear();
      gradients.clear();
      for (size_t i = 0; i < part.ids.size(); ++i) {
        if (!history.partitions.Contains(PartitionOf(PointOf(part.ids[i])))) continue;
        const float* gradient = part.gradients.data() + i * dim;
        ids.push_back(part.ids[i]);
        gradients.insert(gradients.end(), gradient, gradient + dim);
      }
      part = {ids, gradients};
    }
    RUBATO_RETURN_IF_ERROR(tables_[t]->Update(part.ids, part.gradients.data()));
  }
  history.applied[request.key.epoch].Add(request.key.begin, request.key.end);
  ++history.steps;
  return absl::OkStatus();
}

// It follows from the push and what was applied before it, so a replay comes to the same.
double Shard::Freshness(const History& history) const {
  const bool known = push_.pulled >= 0 && push_.pulled <= history.steps;
  if (!declaration_->scale_stale || !known) return 1;
  return 1 / (1 + static_cast<double>(history.steps - push_.pulled));
}

void Shard::UpdateDense(const History& history, absl::Span<const float> gradient,
                        double freshness) {
  OptimizerStep step = DenseStep(history);
  step.learning_rate *= freshness;
  for (const auto& [s, slice] : dense_) {
    const size_t floats = SliceFloats(declaration_->signature.dense_size, s);
    if (histories_.size() == 1 || history.partitions.Contains(PartitionOfSlice(s))) {
      UpdateSlice(s, gradient.subspan(0, floats), step);
    }
    gradient.remove_prefix(floats);
  }
}

void Shard::UpdateSlice(int64_t s, absl::Span<const float> gradient, const OptimizerStep& step) {
  const auto all = absl::MakeSpan(dense_.at(s));
  optimizer_->UpdateDense(all.subspan(0, gradient.size()), all.subspan(gradient.size()), gradient,
                          step);
  if (changes_.known) changes_.MarkSlice(s);
}

OptimizerStep Shard::DenseStep(const History& history) const {
  const int64_t steps = InRounds() ? history.rounds : history.steps;
  const int64_t samples = InRounds() ? history.round_samples : history.samples();
  return {.number = static_cast<uint32_t>(steps + 1),
          .learning_rate = history.rate * LearningRateAt(optimizer_->spec(), samples)};
}

// Both the number and the rate follow from what was applied, so a replay comes to the same ones.
void Shard::BeginStep(const History& history, bool evict, double freshness) const {
  const bool sync = declared() && declaration_->mode == PushMode::kSync;
  const int64_t samples = sync ? history.round_samples : history.samples();
  for (const auto& table : tables_) {
    table->BeginStep(static_cast<uint32_t>(history.steps + 1), samples, history.rate * freshness,
                     evict);
  }
}

// Rows go only while all partitions count the same steps, so that they are as old everywhere, and
// none is between two servers.
void Shard::BeginNextStep() {
  if (histories_.size() == 1) BeginStep(histories_[0], /*evict=*/settled());
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

std::map<int64_t, IntervalSet> Shard::applied() const {
  std::map<int64_t, IntervalSet> applied;
  if (!histories_.empty()) applied = histories_[0].applied;
  for (const History& history : histories_) {
    for (auto& [epoch, set] : applied) {
      const auto other = history.applied.find(epoch);
      set = other == history.applied.end() ? IntervalSet() : set.Intersect(other->second);
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
    return Arrive(kind, body, nullptr);
  }
  if (kind != RecordKind::kPush) {
    return absl::DataLossError(
        absl::StrCat("a record of kind ", static_cast<uint32_t>(kind), " in a push log"));
  }
  if (!declared()) return absl::DataLossError("a push before the declaration");
  RUBATO_RETURN_IF_ERROR(DecodePush(body, &push_));
  RUBATO_RETURN_IF_ERROR(CheckParts(push_));
  if (!IsBatch(push_.request.key)) {
    return absl::DataLossError(absl::StrCat("a push for no batch: ", KeyText(push_.request.key)));
  }
  const bool news = std::any_of(histories_.begin(), histories_.end(), [&](const History& history) {
    return history.HeldOf(push_.request.key) == History::Held::kNothing;
  });
  if (!news) {
    return absl::DataLossError(absl::StrCat("applied twice: ", KeyText(push_.request.key)));
  }
  return Apply(push_.request);
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

void Shard::Inspect(ServerInspection* out) const {
  const ShardCounters now = counters();
  out->server = options_.server;
  out->tables.clear();
  for (const auto& table : tables_) {
    const EmbeddingTableOptions& made = table->options();
    out->tables.push_back({.name = table->name(),
                           .dim = static_cast<int64_t>(table->dim()),
                           .optimizer = made.spec.optimizer.value_or(made.optimizer).name,
                           .rows = static_cast<int64_t>(table->rows()),
                           .counted = static_cast<int64_t>(table->counted()),
                           .bytes = static_cast<int64_t>(table->bytes()),
                           .admitted = table->counters().admitted,
                           .refused = table->counters().refused,
                           .evicted = table->counters().evicted});
  }
  out->dense = declared() ? static_cast<int64_t>(dense_floats()) : 0;
  out->bytes = bytes();
  out->partitions = PartitionsOf(histories_).size();
  out->steps = histories_.empty() ? 0 : histories_[0].steps;
  out->view = view_;
  out->pulls = now.pulls, out->rows_pulled = now.rows_pulled;
  out->pushes = now.pushes, out->rows_pushed = now.rows_pushed;
  out->duplicates = now.duplicates, out->fenced = now.fenced, out->not_finite = now.not_finite;
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
