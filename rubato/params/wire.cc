#include "rubato/params/wire.h"

#include <algorithm>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "rubato/base/bytes.h"
#include "rubato/base/status.h"
#include "rubato/net/frame.h"
#include "rubato/params/optimizer.h"

namespace rubato {
namespace {

struct PullHead {
  int64_t version;
  uint32_t tables;
  uint16_t want_dense;
  uint16_t format;
  int64_t rounds;
};
struct PushHead {
  int64_t epoch, task, begin, end, worker, view, version, pulled;
  double rate;
  int64_t records, round, rounds;
  uint32_t tables;
  uint32_t dense;  // Floats.
  uint32_t format;
  uint32_t zero;
};
struct TablePart {
  uint32_t ids;
  uint32_t dim;
};

// Walks over an aligned body; every step checks that it stays inside.
class Walker {
 public:
  explicit Walker(absl::string_view body) : body_(body) {
    RUBATO_CHECK(reinterpret_cast<uintptr_t>(body.data()) % 8 == 0);
  }
  template <typename T>
  absl::Span<const T> Take(uint64_t count) {
    if (!ok_ || count > body_.size() / sizeof(T)) {
      ok_ = false;
      return {};
    }
    const auto* begin = reinterpret_cast<const T*>(body_.data());
    body_.remove_prefix(std::min(body_.size(), Padded(count * sizeof(T))));
    return {begin, count};
  }
  bool Done() const { return ok_ && body_.empty(); }
  bool ok() const { return ok_; }

 private:
  absl::string_view body_;
  bool ok_ = true;
};

// What the server with number `server` is told of its steps (PushRequest::pulled).
int64_t PulledFrom(absl::Span<const int64_t> pulled, size_t server) {
  if (server < pulled.size() && pulled[server] >= 0) return pulled[server];
  int64_t least = -1;
  for (const int64_t steps : pulled) {
    if (steps >= 0 && (least < 0 || steps < least)) least = steps;
  }
  return least;
}

PushHead HeadOf(const PushRequest& request, int64_t version, size_t server, int64_t dense,
                WireFormat format) {
  const BatchKey& key = request.key;
  return {key.epoch,
          key.task,
          key.begin,
          key.end,
          request.worker.value(),
          request.view,
          version,
          PulledFrom(request.pulled, server),
          request.rate,
          request.records,
          request.round,
          request.rounds,
          static_cast<uint32_t>(request.tables.size()),
          static_cast<uint32_t>(dense),
          static_cast<uint32_t>(format),
          0};
}

// Floats of a body: where they lie, or unpacked into `floats`, which has room for all of them.
absl::Span<const float> TakeFloats(Walker& walker, uint64_t count, WireFormat format,
                                   Buffer* floats) {
  if (format == WireFormat::kFp32) return walker.Take<float>(count);
  const auto halves = walker.Take<uint16_t>(count);
  auto* to = reinterpret_cast<float*>(floats->Extend(halves.size() * sizeof(float)));
  UnpackFloats(format, halves.data(), halves.size(), to);
  return {to, halves.size()};
}

// A half is not finite when all bits of its exponent are set.
bool HalvesFinite(WireFormat format, absl::Span<const uint16_t> halves) {
  const uint16_t exponent = format == WireFormat::kFp16 ? 0x7c00 : 0x7f80;
  bool bad = false;
  for (const uint16_t half : halves) bad |= (half & exponent) == exponent;
  return !bad;
}

bool WireIsFinite(WireFormat format, absl::string_view wire) {
  if (format == WireFormat::kFp32) {
    return AllFinite({reinterpret_cast<const float*>(wire.data()), wire.size() / sizeof(float)});
  }
  return HalvesFinite(
      format, {reinterpret_cast<const uint16_t*>(wire.data()), wire.size() / sizeof(uint16_t)});
}

uint32_t DimOf(size_t floats, size_t ids) {
  return ids == 0 ? 0 : static_cast<uint32_t>(floats / ids);
}

int64_t Floats(const std::vector<Interval>& slices) {
  int64_t floats = 0;
  for (const Interval& slice : slices) floats += slice.end - slice.begin;
  return floats;
}

}  // namespace

std::optional<absl::Span<char>> PlaceIn(absl::Span<char> area, const SharedPlace& place) {
  if (place.bytes > area.size() || place.offset > area.size() - place.bytes) return std::nullopt;
  return area.subspan(place.offset, place.bytes);
}

std::string EncodeShared(const SharedRequest& request) {
  std::string body;
  ByteWriter writer(body);
  writer.Put<uint64_t>(static_cast<uint64_t>(request.op));
  for (const SharedPlace& place : {request.request, request.reply}) {
    writer.Put<uint64_t>(place.offset);
    writer.Put<uint64_t>(place.bytes);
  }
  return body;
}

absl::StatusOr<SharedRequest> DecodeShared(absl::string_view body) {
  ByteReader reader(body);
  const auto op = reader.Get<uint64_t>();
  SharedRequest request;
  for (SharedPlace* place : {&request.request, &request.reply}) {
    place->offset = reader.Get<uint64_t>();
    place->bytes = reader.Get<uint64_t>();
  }
  request.op = op == static_cast<uint64_t>(ParamsOp::kPush) ? ParamsOp::kPush : ParamsOp::kPull;
  if (reader.ok() && reader.remaining() == 0 && op == static_cast<uint64_t>(request.op)) {
    return request;
  }
  return absl::InvalidArgumentError("bytes that are no request in shared memory");
}

std::string EncodeSharedReply(uint64_t bytes) {
  std::string body;
  ByteWriter(body).Put<uint64_t>(bytes);
  return body;
}

std::optional<uint64_t> DecodeSharedReply(absl::string_view body, uint64_t most) {
  ByteReader reader(body);
  const auto bytes = reader.Get<uint64_t>();
  if (!reader.ok() || reader.remaining() > 0 || bytes > most) return std::nullopt;
  return bytes;
}

absl::Status DecodePull(absl::string_view body, DecodedPull* out) {
  Walker walker(body);
  const auto head = walker.Take<PullHead>(1);
  const auto parts = walker.Take<TablePart>(head.empty() ? 0 : head[0].tables);
  out->tables.clear();
  for (const TablePart& part : parts) {
    out->tables.push_back({walker.Take<uint64_t>(part.ids), part.dim});
  }
  if (!walker.Done() || head[0].format >= kWireFormats) {
    return absl::InvalidArgumentError("bytes that are no pull");
  }
  out->version = head[0].version;
  out->want_dense = head[0].want_dense != 0;
  out->format = static_cast<WireFormat>(head[0].format);
  out->rounds = head[0].rounds;
  return absl::OkStatus();
}

int64_t PullRounds(absl::string_view body) {
  const auto head = Walker(body).Take<PullHead>(1);
  return head.empty() ? 0 : head[0].rounds;
}

absl::Status DecodePush(absl::string_view body, DecodedPush* out) {
  Walker walker(body);
  PushRequest& request = out->request;
  request.tables.clear();
  out->dims.clear();
  const auto heads = walker.Take<PushHead>(1);
  const PushHead head = heads.empty() ? PushHead{} : heads[0];
  if (head.format >= kWireFormats) return absl::InvalidArgumentError("bytes that are no push");
  out->format = static_cast<WireFormat>(head.format);
  out->floats.clear();
  if (out->format != WireFormat::kFp32) {
    out->floats.Reserve(body.size() / sizeof(uint16_t) * sizeof(float));
  }
  const auto parts = walker.Take<TablePart>(head.tables);
  request.dense = TakeFloats(walker, head.dense, out->format, &out->floats);
  for (const TablePart& part : parts) {
    TablePush& table = request.tables.emplace_back();
    table.ids = walker.Take<uint64_t>(part.ids);
    table.gradients = TakeFloats(walker, uint64_t{part.ids} * part.dim, out->format, &out->floats);
    out->dims.push_back(part.dim);
  }
  if (!walker.Done()) return absl::InvalidArgumentError("bytes that are no push");
  out->finite = AllFinite(request.dense);
  for (const TablePush& table : request.tables) out->finite &= AllFinite(table.gradients);
  request.key = {head.epoch, head.task, head.begin, head.end};
  request.worker = WorkerId(head.worker);
  request.view = head.view;
  request.rate = head.rate;
  request.records = head.records;
  request.round = head.round;
  request.rounds = head.rounds;
  out->version = head.version;
  out->pulled = head.pulled;
  return absl::OkStatus();
}

void PushIds(absl::string_view body, std::vector<absl::Span<const uint64_t>>* out) {
  Walker walker(body);
  out->clear();
  const auto heads = walker.Take<PushHead>(1);
  if (heads.empty() || heads[0].format >= kWireFormats) return;
  const bool whole = static_cast<WireFormat>(heads[0].format) == WireFormat::kFp32;
  const auto skip = [&](uint64_t floats) {
    (void)(whole ? walker.Take<uint32_t>(floats).size() : walker.Take<uint16_t>(floats).size());
  };
  const auto parts = walker.Take<TablePart>(heads[0].tables);
  skip(heads[0].dense);
  for (const TablePart& part : parts) {
    out->push_back(walker.Take<uint64_t>(part.ids));
    skip(uint64_t{part.ids} * part.dim);
  }
}

void PullSplit::Encode(const PullRequest& request, const PartitionMap& map, WireFormat format) {
  const auto servers = static_cast<size_t>(map.servers());
  const size_t tables = request.tables.size();
  request_ = request;
  format_ = format;
  while (parts_.size() < servers) parts_.emplace_back(memory_);
  parts_.erase(parts_.begin() + static_cast<std::ptrdiff_t>(servers), parts_.end());
  if (request.steps != nullptr) request.steps->assign(servers, -1);
  dims_.clear();
  for (size_t s = 0; s < servers; ++s) {
    Part& part = parts_[s];
    const auto server = static_cast<int64_t>(s);
    part.dense.clear();
    if (!request.dense.empty()) {
      part.dense = DenseSlices(static_cast<int64_t>(request.dense.size()), map, server);
    }
    part.body.clear();
    part.body.Put(PullHead{map.VersionOf(server), static_cast<uint32_t>(tables),
                           !request.dense.empty(), static_cast<uint16_t>(format), request.rounds});
    part.body.Extend(tables * sizeof(TablePart));
    part.counts.assign(tables, 0);
    part.positions.clear();
  }
  for (size_t t = 0; t < tables; ++t) {
    const auto ids = request.tables[t].ids;
    dims_.push_back(DimOf(request.tables[t].rows.size(), ids.size()));
    if (servers == 1) {
      parts_[0].body.Append(ids.data(), ids.size() * sizeof(uint64_t));
      parts_[0].counts[t] = static_cast<uint32_t>(ids.size());
      continue;
    }
    for (size_t i = 0; i < ids.size(); ++i) {
      Part& part = parts_[static_cast<size_t>(map.ServerOf(PointOf(ids[i])))];
      part.body.Put(ids[i]);
      part.positions.push_back(static_cast<uint32_t>(i));
      ++part.counts[t];
    }
  }
  for (Part& part : parts_) {
    auto* heads = reinterpret_cast<TablePart*>(part.body.data() + sizeof(PullHead));
    for (size_t t = 0; t < tables; ++t) heads[t] = {part.counts[t], dims_[t]};
  }
}

void PullSplit::Recode(const PartitionMap& map) {
  std::vector<std::vector<uint64_t>> ids(request_.tables.size());
  for (size_t t = 0; t < ids.size(); ++t) ids[t].resize(request_.tables[t].ids.size());
  DecodedPull pull;
  for (const Part& part : parts_) {
    RUBATO_CHECK_OK(DecodePull(part.body.view(), &pull));
    const uint32_t* position = part.positions.data();
    for (size_t t = 0; t < ids.size(); ++t) {
      const auto here = pull.tables[t].ids;
      for (size_t i = 0; i < here.size(); ++i) {
        ids[t][parts_.size() == 1 ? i : *position++] = here[i];
      }
    }
  }
  PullRequest request = request_;
  for (size_t t = 0; t < ids.size(); ++t) request.tables[t].ids = ids[t];
  Encode(request, map, format_);
}

size_t PullSplit::reply_bytes(int64_t server) const {
  const Part& part = parts_[static_cast<size_t>(server)];
  const auto wire_bytes = static_cast<size_t>(WireBytes(format_));
  size_t bytes =
      sizeof(PullReplyHead) + Padded(static_cast<size_t>(Floats(part.dense)) * wire_bytes);
  for (size_t t = 0; t < dims_.size(); ++t) {
    bytes += Padded(size_t{part.counts[t]} * dims_[t] * wire_bytes);
  }
  return bytes;
}

absl::Status PullSplit::Scatter(int64_t server, absl::string_view reply) const {
  const Part& part = parts_[static_cast<size_t>(server)];
  Walker walker(reply);
  const auto wire_bytes = static_cast<size_t>(WireBytes(format_));
  const auto heads = walker.Take<PullReplyHead>(1);
  const PullReplyHead head = heads.empty() ? PullReplyHead{} : heads[0];
  // Counted in floats, whatever their size.
  const auto take = [&](uint64_t count) {
    return walker.Take<char>(count > reply.size() ? UINT64_MAX : count * wire_bytes);
  };
  // By our own count, never by the reply's, which may lie in memory that the server still writes.
  const auto floats_wanted = static_cast<uint64_t>(Floats(part.dense));
  const auto dense = take(floats_wanted);
  if (!walker.ok() || head.dense != floats_wanted) {
    return absl::InternalError(absl::StrCat(head.dense, " dense weights came from server ", server,
                                            ", not ", floats_wanted));
  }
  const char* from = dense.data();
  for (const Interval& slice : part.dense) {
    const auto floats = static_cast<size_t>(slice.end - slice.begin);
    UnpackFloats(format_, from, floats, request_.dense.data() + slice.begin);
    from += floats * wire_bytes;
  }
  if (request_.steps != nullptr) (*request_.steps)[static_cast<size_t>(server)] = head.steps;
  const uint32_t* position = part.positions.data();
  for (size_t t = 0; t < dims_.size(); ++t) {
    const size_t dim = dims_[t];
    const auto rows = take(part.counts[t] * dim);
    if (!walker.ok()) break;
    float* to = request_.tables[t].rows.data();
    if (parts_.size() == 1) {
      UnpackFloats(format_, rows.data(), part.counts[t] * dim, to);
      continue;
    }
    for (size_t i = 0; i < part.counts[t]; ++i) {
      UnpackFloats(format_, rows.data() + i * dim * wire_bytes, dim, to + *position++ * dim);
    }
  }
  if (walker.Done()) return absl::OkStatus();
  return absl::InternalError(absl::StrCat("server ", server, " sent another number of rows"));
}

void PushSplit::Look(size_t server, size_t begin, size_t end, WireFormat format) {
  finite_[server] &= WireIsFinite(format, bodies_[server].view().substr(begin, end - begin));
}

void PushSplit::EncodeHeads(const PushRequest& request, const PartitionMap& map,
                            WireFormat format) {
  const auto servers = static_cast<size_t>(map.servers());
  const auto dense_size = dense_size_ = static_cast<int64_t>(request.dense.size());
  while (bodies_.size() < servers) bodies_.emplace_back(memory_);
  bodies_.resize(servers);
  slices_.resize(servers);
  finite_.assign(servers, true);
  dense_bytes_.resize(servers);
  for (size_t s = 0; s < servers; ++s) {
    Buffer& body = bodies_[s];
    const auto server = static_cast<int64_t>(s);
    std::vector<Interval>& slices = slices_[s];
    slices = DenseSlices(dense_size, map, server);
    dense_bytes_[s] = static_cast<size_t>(Floats(slices) * WireBytes(format));
    body.clear();
    body.Put(HeadOf(request, map.VersionOf(server), s, Floats(slices), format));
    body.Extend(request.tables.size() * sizeof(TablePart));
    for (const Interval& slice : slices) {
      const size_t from = body.size();
      const auto floats = static_cast<size_t>(slice.end - slice.begin);
      char* to = body.Extend(floats * static_cast<size_t>(WireBytes(format)));
      PackFloats(format, request.dense.data() + slice.begin, floats, to);
      Look(s, from, body.size(), format);
    }
    body.Pad();
  }
}

void PushSplit::Encode(const PushRequest& request, const PartitionMap& map, WireFormat format) {
  EncodeHeads(request, map, format);
  const size_t servers = bodies_.size();
  for (size_t t = 0; t < request.tables.size(); ++t) {
    const auto ids = request.tables[t].ids;
    const auto gradients = request.tables[t].gradients;
    const uint32_t dim = DimOf(gradients.size(), ids.size());
    counts_.assign(servers, 0);
    if (servers == 1) {
      counts_[0] = static_cast<uint32_t>(ids.size());
      bodies_[0].Append(ids.data(), ids.size() * sizeof(uint64_t));
    } else {
      owners_.resize(ids.size());
      for (size_t i = 0; i < ids.size(); ++i) {
        const auto s = static_cast<size_t>(map.ServerOf(PointOf(ids[i])));
        owners_[i] = static_cast<uint16_t>(s);
        bodies_[s].Put(ids[i]);
        ++counts_[s];
      }
    }
    for (size_t s = 0; s < servers; ++s) {
      reinterpret_cast<TablePart*>(bodies_[s].data() + sizeof(PushHead))[t] = {counts_[s], dim};
    }
    EncodeRows(gradients, dim, format);
    for (Buffer& body : bodies_) body.Pad();
  }
}

// What is not finite is found while it is in the cache: some rows are copied, then looked at.
void PushSplit::EncodeRows(absl::Span<const float> gradients, size_t dim, WireFormat format) {
  constexpr size_t kLookFloats = 4096;
  if (gradients.empty()) return;
  const size_t servers = bodies_.size();
  const size_t rows = gradients.size() / dim;
  const size_t row_bytes = dim * static_cast<size_t>(WireBytes(format));
  const size_t together = std::max<size_t>(1, kLookFloats / dim);
  ends_.clear();
  for (size_t s = 0; s < servers; ++s) {
    ends_.push_back(bodies_[s].size());
    bodies_[s].Extend(counts_[s] * row_bytes);
  }
  for (size_t begin = 0; begin < rows; begin += together) {
    const size_t end = std::min(rows, begin + together);
    begins_ = ends_;
    if (servers == 1) {
      PackFloats(format, gradients.data() + begin * dim, (end - begin) * dim,
                 bodies_[0].data() + ends_[0]);
      ends_[0] += (end - begin) * row_bytes;
    } else {
      for (size_t i = begin; i < end; ++i) {
        const size_t s = owners_[i];
        PackFloats(format, gradients.data() + i * dim, dim, bodies_[s].data() + ends_[s]);
        ends_[s] += row_bytes;
      }
    }
    for (size_t s = 0; s < servers; ++s) Look(s, begins_[s], ends_[s], format);
  }
}

void PushSplit::Recode(const PartitionMap& map) {
  DecodedPush push;
  std::vector<std::vector<uint64_t>> ids;
  std::vector<std::vector<float>> gradients;
  std::vector<float> dense(static_cast<size_t>(dense_size_));
  std::vector<int64_t> pulled;
  for (size_t s = 0; s < bodies_.size(); ++s) {
    RUBATO_CHECK_OK(DecodePush(bodies_[s].view(), &push));
    pulled.push_back(push.pulled);
    ids.resize(push.request.tables.size());
    gradients.resize(ids.size());
    for (size_t t = 0; t < ids.size(); ++t) {
      const TablePush& part = push.request.tables[t];
      ids[t].insert(ids[t].end(), part.ids.begin(), part.ids.end());
      gradients[t].insert(gradients[t].end(), part.gradients.begin(), part.gradients.end());
    }
    auto from = push.request.dense.begin();
    for (const Interval& slice : slices_[s]) {
      std::copy_n(from, slice.end - slice.begin, dense.begin() + slice.begin);
      from += slice.end - slice.begin;
    }
  }
  PushRequest request = push.request;
  request.dense = dense;
  request.pulled = pulled;
  for (size_t t = 0; t < ids.size(); ++t) request.tables[t] = {ids[t], gradients[t]};
  Encode(request, map, push.format);
}

}  // namespace rubato
