#include "rubato/params/wire.h"

#include <cstring>

#include "absl/strings/str_cat.h"
#include "rubato/base/bytes.h"
#include "rubato/base/status.h"
#include "rubato/net/frame.h"

namespace rubato {
namespace {

struct PullHead {
  uint32_t tables;
  uint16_t want_dense;
  uint16_t format;
};
struct PushHead {
  int64_t epoch, task, begin, end, worker, view, pulled;
  double rate;
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

// Floats of a body: where they lie, or unpacked into `floats`, which has room for all of them.
absl::Span<const float> TakeFloats(Walker& walker, uint64_t count, WireFormat format,
                                   Buffer* floats) {
  if (format == WireFormat::kFp32) return walker.Take<float>(count);
  const auto halves = walker.Take<uint16_t>(count);
  auto* to = reinterpret_cast<float*>(floats->Extend(halves.size() * sizeof(float)));
  UnpackFloats(format, halves.data(), halves.size(), to);
  return {to, halves.size()};
}

void AppendFloats(WireFormat format, const float* values, size_t count, Buffer* to) {
  const size_t bytes = count * static_cast<size_t>(WireBytes(format));
  if (bytes > 0) PackFloats(format, values, count, to->Extend(bytes));
}

uint32_t DimOf(size_t floats, size_t ids) {
  return ids == 0 ? 0 : static_cast<uint32_t>(floats / ids);
}

}  // namespace

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
  out->want_dense = head[0].want_dense != 0;
  out->format = static_cast<WireFormat>(head[0].format);
  return absl::OkStatus();
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
  request.key = {head.epoch, head.task, head.begin, head.end};
  request.worker = WorkerId(head.worker);
  request.view = head.view;
  request.rate = head.rate;
  out->pulled = head.pulled;
  return absl::OkStatus();
}

void PullSplit::Encode(const PullRequest& request, const PartitionMap& map, WireFormat format) {
  const auto servers = static_cast<size_t>(map.servers());
  const size_t tables = request.tables.size();
  request_ = request;
  format_ = format;
  parts_.resize(servers);
  dims_.clear();
  for (Part& part : parts_) {
    part.body.clear();
    part.body.Put(PullHead{static_cast<uint32_t>(tables), !request.dense.empty(),
                           static_cast<uint16_t>(format)});
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
  const auto dense = take(head.dense);
  if (!request_.dense.empty()) {
    const Interval slice = DenseSlice(static_cast<int64_t>(request_.dense.size()), server,
                                      static_cast<int64_t>(parts_.size()));
    const auto count = static_cast<size_t>(slice.end - slice.begin);
    if (dense.size() != count * wire_bytes) {
      return absl::InternalError(
          absl::StrCat(head.dense, " dense weights came from server ", server, ", not ", count));
    }
    UnpackFloats(format_, dense.data(), count, request_.dense.data() + slice.begin);
  }
  if (static_cast<size_t>(server) < request_.steps.size()) {
    request_.steps[static_cast<size_t>(server)] = head.steps;
  }
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

void PushSplit::Encode(const PushRequest& request, const PartitionMap& map, WireFormat format) {
  const auto servers = static_cast<size_t>(map.servers());
  const size_t tables = request.tables.size();
  bodies_.resize(servers);
  const auto dense_size = static_cast<int64_t>(request.dense.size());
  for (size_t s = 0; s < servers; ++s) {
    Buffer& body = bodies_[s];
    const Interval slice = DenseSlice(dense_size, static_cast<int64_t>(s), map.servers());
    const auto dense = static_cast<size_t>(slice.end - slice.begin);
    body.clear();
    body.Put(PushHead{request.key.epoch, request.key.task, request.key.begin, request.key.end,
                      request.worker.value(), request.view,
                      s < request.pulled.size() ? request.pulled[s] : -1, request.rate,
                      static_cast<uint32_t>(tables), static_cast<uint32_t>(dense),
                      static_cast<uint32_t>(format), 0});
    body.Extend(tables * sizeof(TablePart));
    AppendFloats(format, request.dense.data() + slice.begin, dense, &body);
    body.Pad();
  }
  const auto head = [&](size_t s, size_t t) {
    return reinterpret_cast<TablePart*>(bodies_[s].data() + sizeof(PushHead)) + t;
  };
  for (size_t t = 0; t < tables; ++t) {
    const auto ids = request.tables[t].ids;
    const auto gradients = request.tables[t].gradients;
    const uint32_t dim = DimOf(gradients.size(), ids.size());
    for (size_t s = 0; s < servers; ++s) *head(s, t) = {0, dim};
    if (servers == 1) {
      head(0, t)->ids = static_cast<uint32_t>(ids.size());
      bodies_[0].Append(ids.data(), ids.size() * sizeof(uint64_t));
      AppendFloats(format, gradients.data(), gradients.size(), &bodies_[0]);
      bodies_[0].Pad();
      continue;
    }
    owners_.resize(ids.size());
    for (size_t i = 0; i < ids.size(); ++i) {
      const auto s = static_cast<size_t>(map.ServerOf(PointOf(ids[i])));
      owners_[i] = static_cast<uint16_t>(s);
      bodies_[s].Put(ids[i]);
      ++head(s, t)->ids;
    }
    for (size_t i = 0; i < ids.size(); ++i) {
      AppendFloats(format, gradients.data() + i * dim, dim, &bodies_[owners_[i]]);
    }
    for (Buffer& body : bodies_) body.Pad();
  }
}

}  // namespace rubato
