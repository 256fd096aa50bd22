#include "rubato/data/record_blocks.h"

#include <algorithm>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "rubato/base/bytes.h"
#include "rubato/base/status.h"
#include "rubato/job/plugin_name.h"

namespace rubato {
namespace {

constexpr absl::string_view kMagic = "rubato records\n";
constexpr absl::string_view kEndMagic = "records end\n";
constexpr uint32_t kVersion = 1;
constexpr absl::string_view kWrap = ": ";

void PutChecksum(std::string& bytes) { ByteWriter(bytes).Put<uint64_t>(Checksum(bytes)); }

// What the checksum at the end of `bytes` speaks of; DATA_LOSS if it says otherwise.
absl::StatusOr<absl::string_view> Checked(absl::string_view bytes, absl::string_view what) {
  if (bytes.size() < sizeof(uint64_t)) return absl::DataLossError(absl::StrCat(what, " is cut"));
  const absl::string_view body = bytes.substr(0, bytes.size() - sizeof(uint64_t));
  if (ByteReader(bytes.substr(body.size())).Get<uint64_t>() == Checksum(body)) return body;
  return absl::DataLossError(absl::StrCat(what, " is damaged: its checksum is wrong"));
}

}  // namespace

bool IsRecordsFile(absl::string_view beginning) { return absl::StartsWith(beginning, kMagic); }

std::string EncodeRecordsHead(const RecordsHead& head) {
  std::string bytes;
  ByteWriter out(bytes);
  out.PutBytes(kMagic);
  out.Put<uint32_t>(kVersion);
  out.PutString(head.format);
  out.PutString(head.schema);
  PutChecksum(bytes);
  return bytes;
}

absl::StatusOr<RecordsHead> DecodeRecordsHead(absl::string_view bytes, size_t* size) {
  if (!IsRecordsFile(bytes)) {
    return absl::DataLossError("is no file of recordio; `rubato convert` makes one");
  }
  ByteReader in(bytes.substr(kMagic.size()));
  if (const uint32_t version = in.Get<uint32_t>(); in.ok() && version != kVersion) {
    return absl::DataLossError(absl::StrCat("is a file of recordio of version ", version,
                                            "; this program reads version ", kVersion));
  }
  RecordsHead head;
  head.format = std::string(in.GetString());
  head.schema = std::string(in.GetString());
  in.Get<uint64_t>();
  if (!in.ok()) return absl::OutOfRangeError("its head is cut short or damaged");
  *size = kMagic.size() + in.position();
  RUBATO_RETURN_IF_ERROR(Checked(bytes.substr(0, *size), "its head").status());
  return head;
}

void BlockBuilder::Add(absl::string_view record) {
  bytes_.append(record.data(), record.size());
  ends_.push_back(static_cast<uint32_t>(bytes_.size()));
}

std::string BlockBuilder::Finish() {
  std::string block;
  ByteWriter out(block);
  out.Put<uint32_t>(static_cast<uint32_t>(ends_.size()));
  out.Put<uint32_t>(static_cast<uint32_t>(bytes_.size()));
  out.PutSpan<uint32_t>(ends_);
  out.PutBytes(bytes_);
  PutChecksum(block);
  ends_.clear();
  bytes_.clear();
  return block;
}

size_t BlockBytes(absl::string_view head) {
  ByteReader in(head);
  const size_t records = in.Get<uint32_t>();
  const size_t bytes = in.Get<uint32_t>();
  return kBlockHeadBytes + records * sizeof(uint32_t) + bytes + sizeof(uint64_t);
}

absl::StatusOr<BlockView> BlockView::Decode(absl::string_view block) {
  RUBATO_ASSIGN_OR_RETURN(const absl::string_view body, Checked(block, "block"));
  ByteReader in(body);
  const size_t records = in.Get<uint32_t>();
  const size_t bytes = in.Get<uint32_t>();
  BlockView view;
  view.ends_ = in.GetVector<uint32_t>(records);
  view.bytes_ = in.GetBytes(bytes);
  const bool fits = in.ok() && in.remaining() == 0 &&
                    std::is_sorted(view.ends_.begin(), view.ends_.end()) &&
                    (view.ends_.empty() ? 0 : view.ends_.back()) == bytes;
  if (!fits) return absl::DataLossError("block is damaged: its lengths do not add up");
  return view;
}

absl::string_view BlockView::record(int64_t i) const {
  const auto at = static_cast<size_t>(i);
  const size_t begin = at == 0 ? 0 : ends_[at - 1];
  return bytes_.substr(begin, ends_[at] - begin);
}

std::string EncodeBlockIndex(const BlockIndex& index, int64_t offset) {
  std::string bytes;
  ByteWriter out(bytes);
  int64_t last = 0;
  for (const int64_t block : index.offsets) {
    out.PutVarint(block - last);
    last = block;
  }
  PutChecksum(bytes);
  std::string tail;
  ByteWriter end(tail);
  end.Put<int64_t>(offset);
  end.Put<int64_t>(index.records);
  end.PutBytes(std::string(4, '\0'));  // A length that a reader can count on.
  PutChecksum(tail);
  end.PutBytes(kEndMagic);
  RUBATO_CHECK(tail.size() == kRecordsTailBytes);
  return bytes + tail;
}

absl::StatusOr<int64_t> IndexOffset(absl::string_view tail) {
  if (tail.size() != kRecordsTailBytes || !absl::EndsWith(tail, kEndMagic)) {
    return absl::DataLossError("is cut short, or its end is damaged: there is no index");
  }
  RUBATO_ASSIGN_OR_RETURN(const absl::string_view body,
                          Checked(tail.substr(0, tail.size() - kEndMagic.size()), "its end"));
  return ByteReader(body).Get<int64_t>();
}

absl::StatusOr<BlockIndex> DecodeBlockIndex(absl::string_view bytes) {
  if (bytes.size() < kRecordsTailBytes) return absl::DataLossError("its index is cut");
  const absl::string_view tail = bytes.substr(bytes.size() - kRecordsTailBytes);
  RUBATO_RETURN_IF_ERROR(IndexOffset(tail).status());
  RUBATO_ASSIGN_OR_RETURN(const absl::string_view body,
                          Checked(bytes.substr(0, bytes.size() - tail.size()), "its index"));
  BlockIndex index;
  index.records = ByteReader(tail.substr(sizeof(int64_t))).Get<int64_t>();
  int64_t last = 0;
  for (ByteReader in(body); in.remaining() > 0 && in.ok();) {
    index.offsets.push_back(last += in.GetVarint());
  }
  const int64_t blocks = (index.records + kRecordsPerBlock - 1) / kRecordsPerBlock;
  if (blocks == static_cast<int64_t>(index.offsets.size())) return index;
  return absl::DataLossError(absl::StrCat("its index is damaged: ", index.offsets.size(),
                                          " blocks for ", index.records, " records"));
}

std::string WrapSchema(const RecordsHead& head) {
  return absl::StrCat(head.format, kWrap, head.schema);
}

std::pair<DataSpec, absl::string_view> UnwrapSchema(const DataSpec& data,
                                                    absl::string_view schema) {
  DataSpec inner = data;
  const size_t end = schema.find(kWrap);
  const bool is_wrapped = data.format == "recordio" || IsPlugin(data.format);
  if (is_wrapped && end != absl::string_view::npos) {
    inner.format = std::string(schema.substr(0, end));
    schema.remove_prefix(end + kWrap.size());
  }
  return {std::move(inner), schema};
}

}  // namespace rubato
