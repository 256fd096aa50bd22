#include "rubato/params/shard.h"

#include <algorithm>
#include <cmath>
#include <cstring>

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

// How much of a batch a set holds: a batch is applied whole, so anything between is an error.
enum class Held { kNothing, kAll, kPart };
Held HeldOf(const std::map<int64_t, IntervalSet>& applied, const BatchKey& key) {
  const auto epoch = applied.find(key.epoch);
  if (epoch == applied.end()) return Held::kNothing;
  if (epoch->second.Covers(key.begin, key.end)) return Held::kAll;
  const auto gaps = epoch->second.Gaps(key.begin, key.end);
  const bool nothing = gaps.size() == 1 && gaps[0] == Interval{key.begin, key.end};
  return nothing ? Held::kNothing : Held::kPart;
}

// Names the first value that is not finite, for the message.
std::string FirstNotFinite(absl::Span<const float> values) {
  const auto it =
      std::find_if(values.begin(), values.end(), [](float v) { return !std::isfinite(v); });
  return absl::StrCat(std::isnan(*it) ? "NaN" : "infinity", " at element ", it - values.begin());
}

}  // namespace

Shard::Shard(Memory& memory, ShardOptions options) : memory_(memory), options_(options) {
  const auto owned = PartitionMap::Even(options.servers).PartitionsOf(options.server).Intervals();
  RUBATO_CHECK(owned.size() == 1);
  partitions_ = owned[0];
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
  dense_size_ = declaration.dense.size();
  dense_ = std::move(declaration.dense);
  declaration.dense.clear();
  dense_.resize(dense_size_ + optimizer_->dense_state_floats(dense_size_));
  const auto dense = absl::MakeSpan(dense_);
  optimizer_->StartDense(dense.subspan(0, dense_size_), dense.subspan(dense_size_));
  BeginStep();
  declaration_bytes_ = EncodeDeclaration(declaration, {0, 0});
  declaration_ = std::move(declaration);
  return absl::OkStatus();
}

absl::Status Shard::MakeTables(const Declaration& declaration) {
  const Interval slice =
      DenseSlice(declaration.signature.dense_size, options_.server, options_.servers);
  if (static_cast<int64_t>(declaration.dense.size()) != slice.end - slice.begin) {
    return absl::InvalidArgumentError(
        absl::StrFormat("%d dense weights declared, but server %d of %d holds %d of %d",
                        declaration.dense.size(), options_.server, options_.servers,
                        slice.end - slice.begin, declaration.signature.dense_size));
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
    options.partitions = partitions_;
    options.rows_max = options_.rows_max;
    RUBATO_ASSIGN_OR_RETURN(auto table, EmbeddingTable::Make(memory_, options));
    tables.push_back(std::move(table));
  }
  tables_ = std::move(tables);
  return absl::OkStatus();
}

absl::Status Shard::Pull(absl::string_view body, Buffer* reply, PullScratch* scratch) const {
  if (!declared()) return absl::FailedPreconditionError("pull before the model was declared");
  DecodedPull& pull = scratch->pull;
  RUBATO_RETURN_IF_ERROR(DecodePull(body, &pull));
  if (!pull.tables.empty() && pull.tables.size() != tables_.size()) {
    return absl::InvalidArgumentError(
        absl::StrCat("pull of ", pull.tables.size(), " tables, but there are ", tables_.size()));
  }
  const auto wire_bytes = static_cast<size_t>(WireBytes(pull.format));
  const uint64_t dense = pull.want_dense ? dense_size_ : 0;
  uint64_t bytes = sizeof(PullReplyHead) + Padded(dense * wire_bytes);
  int64_t rows = 0;
  for (size_t t = 0; t < pull.tables.size(); ++t) {
    const TableIds& part = pull.tables[t];
    if (!part.ids.empty() && part.dim != tables_[t]->dim()) {
      return absl::InvalidArgumentError(absl::StrCat("pull of table ", tables_[t]->name(), ": dim ",
                                                     part.dim, ", not ", tables_[t]->dim()));
    }
    bytes += Padded(part.ids.size() * tables_[t]->dim() * wire_bytes);
    rows += static_cast<int64_t>(part.ids.size());
  }
  if (bytes > kFrameBytesMax) {
    return absl::InvalidArgumentError(absl::StrCat("pull of ", bytes, " bytes, but a reply holds ",
                                                   kFrameBytesMax, ": lower batch_size"));
  }
  reply->Put(PullReplyHead{dense, steps_});
  PackFloats(pull.format, dense_.data(), dense, reply->Extend(dense * wire_bytes));
  reply->Pad();
  for (size_t t = 0; t < pull.tables.size(); ++t) {
    const auto ids = pull.tables[t].ids;
    const size_t dim = tables_[t]->dim();
    char* out = reply->Extend(ids.size() * dim * wire_bytes);
    if (pull.format == WireFormat::kFp32) {
      tables_[t]->Gather(ids, reinterpret_cast<float*>(out));
    } else {
      // In pieces that stay in the cache between the two loops.
      constexpr size_t kPiece = 1024;
      scratch->rows.resize(std::max(scratch->rows.size(), std::min(kPiece, ids.size()) * dim));
      for (size_t begin = 0; begin < ids.size(); begin += kPiece) {
        const auto piece = ids.subspan(begin, kPiece);
        tables_[t]->Gather(piece, scratch->rows.data());
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

bool Shard::Fenced(const PushRequest& request) const {
  if (std::binary_search(workers_.begin(), workers_.end(), request.worker)) return false;
  // A newcomer may have heard of a view that has not reached us; a name from the past has not.
  return request.view <= view_;
}

absl::StatusOr<PushOutcome> Shard::Push(absl::string_view body, RecordSink* log) {
  if (!declared()) return absl::FailedPreconditionError("push before the model was declared");
  RUBATO_RETURN_IF_ERROR(DecodePush(body, &push_));
  const PushRequest& request = push_.request;
  const BatchKey& key = request.key;
  if (Fenced(request)) {
    ++counters_.fenced;
    return PushOutcome::kFenced;
  }
  if (!IsBatch(key)) {
    return absl::InvalidArgumentError(absl::StrCat("a push for no batch: ", KeyText(key)));
  }
  switch (HeldOf(applied_, key)) {
    case Held::kNothing:
      break;
    case Held::kAll:
      ++counters_.duplicates;
      return PushOutcome::kDuplicate;
    case Held::kPart:
      return absl::FailedPreconditionError(absl::StrCat(
          request.worker.ToString(), " pushed ", KeyText(key),
          ", of which part is applied already: batches must be cut the same way every time"));
  }
  RUBATO_RETURN_IF_ERROR(CheckParts(push_));
  if (log != nullptr) RUBATO_RETURN_IF_ERROR(log->Append(RecordKind::kPush, body));
  CountStaleness(push_.pulled);
  RUBATO_RETURN_IF_ERROR(Apply(request));
  ++counters_.pushes;
  for (const TablePush& part : request.tables) {
    counters_.rows_pushed += static_cast<int64_t>(part.ids.size());
  }
  return PushOutcome::kApplied;
}

void Shard::CountStaleness(int64_t pulled) {
  if (pulled < 0 || pulled > steps_) return;
  ++counters_.stale_pushes;
  counters_.staleness_sum += steps_ - pulled;
  counters_.staleness_max = std::max(counters_.staleness_max, steps_ - pulled);
}

// Everything that could go wrong in Apply is found here, before the push is logged.
absl::Status Shard::CheckParts(const DecodedPush& push) {
  const PushRequest& request = push.request;
  const std::string from =
      absl::StrCat("push of ", request.worker.ToString(), " for ", KeyText(request.key), ": ");
  if (!request.dense.empty() && request.dense.size() != dense_size_) {
    return absl::InvalidArgumentError(
        absl::StrCat(from, request.dense.size(), " dense gradients, not ", dense_size_));
  }
  if (!request.tables.empty() && request.tables.size() != tables_.size()) {
    return absl::InvalidArgumentError(
        absl::StrCat(from, request.tables.size(), " tables, but there are ", tables_.size()));
  }
  const auto not_finite = [&](absl::string_view where, absl::Span<const float> values) {
    ++counters_.not_finite;
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
    if (!AllFinite(part.gradients)) return not_finite(where, part.gradients);
    RUBATO_RETURN_IF_ERROR(Annotate(table.CheckRoom(part.ids.size()), from));
  }
  return absl::OkStatus();
}

absl::Status Shard::Apply(const PushRequest& request) {
  if (request.rate != rate_) {
    rate_ = request.rate;
    BeginStep();
  }
  if (!request.dense.empty()) {
    const auto dense = absl::MakeSpan(dense_);
    optimizer_->UpdateDense(dense.subspan(0, dense_size_), dense.subspan(dense_size_),
                            request.dense, next_);
  }
  for (size_t t = 0; t < request.tables.size(); ++t) {
    const TablePush& part = request.tables[t];
    RUBATO_RETURN_IF_ERROR(tables_[t]->Update(part.ids, part.gradients.data()));
  }
  applied_[request.key.epoch].Add(request.key.begin, request.key.end);
  ++steps_;
  BeginStep();
  return absl::OkStatus();
}

// Both the number and the rate follow from what was applied, so a replay comes to the same ones.
void Shard::BeginStep() {
  int64_t samples = 0;
  for (const auto& [epoch, set] : applied_) samples += set.size();
  next_ = {.number = static_cast<uint32_t>(steps_ + 1),
           .learning_rate = rate_ * LearningRateAt(optimizer_->spec(), samples)};
  for (const auto& table : tables_) table->BeginStep(next_.number, samples, rate_);
}

void Shard::SetView(int64_t number, std::vector<WorkerId> workers) {
  if (number <= view_) return;
  view_ = number;
  workers_ = std::move(workers);
  std::sort(workers_.begin(), workers_.end());
}

absl::Status Shard::Replay(RecordKind kind, absl::string_view body) {
  if (kind == RecordKind::kDeclare) return Declare(body, nullptr);
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
  if (HeldOf(applied_, push_.request.key) != Held::kNothing) {
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
  out->dense = static_cast<int64_t>(dense_size_);
  out->bytes = bytes();
  out->partitions = partitions_.end - partitions_.begin;
  out->steps = steps_;
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
  int64_t bytes = static_cast<int64_t>(dense_.size() * sizeof(float));
  for (const auto& table : tables_) bytes += static_cast<int64_t>(table->bytes());
  return bytes;
}

std::string Shard::Export() const {
  std::string out;
  ByteWriter writer(out);
  writer.PutString(declaration_bytes_);
  writer.PutSpan<float>(dense_);
  writer.Put<int64_t>(steps_);
  for (const auto& [epoch, set] : applied_) {
    writer.Put<int64_t>(epoch);
    writer.PutString(set.ToString());
  }
  for (const auto& table : tables_) {
    std::map<uint64_t, uint32_t> rows;
    table->Visit(0, UINT64_MAX, [&](uint64_t id, uint32_t number) { rows[id] = number; });
    writer.Put<uint64_t>(rows.size());
    for (const auto& [id, number] : rows) {
      writer.Put<uint64_t>(id);
      writer.PutSpan<float>({table->row(number), table->row_floats()});
    }
    std::map<uint64_t, uint32_t> counted;
    table->VisitCounted(0, UINT64_MAX, [&](uint64_t id, uint32_t count) { counted[id] = count; });
    for (const auto& [id, count] : counted) {
      writer.Put<uint64_t>(id);
      writer.Put<uint32_t>(count);
    }
  }
  return out;
}

}  // namespace rubato
