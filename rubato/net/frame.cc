#include "rubato/net/frame.h"

#include <algorithm>
#include <cstring>
#include <new>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "rubato/base/bytes.h"

namespace rubato {
namespace {

// Read at most this far beyond what is known to be needed: many small frames in one go, yet little
// to move when a large one begins among them.
constexpr size_t kReadAhead = size_t{64} << 10;
// A buffer that once held a huge frame is not kept for ever.
constexpr size_t kKeep = size_t{64} << 20;

}  // namespace

absl::Status Frame::status() const {
  if (header.code == 0) return absl::OkStatus();
  return absl::Status(static_cast<absl::StatusCode>(header.code), body);
}

void FrameParser::Reserve(size_t bytes) {
  if (bytes <= capacity_ && (capacity_ <= kKeep || bytes > kKeep)) return;
  const size_t capacity = (bytes + kReadAhead - 1) / kReadAhead * kReadAhead;
  std::unique_ptr<char[], Free> buffer(new (std::align_val_t{64}) char[capacity]);
  if (end_ > begin_) std::memcpy(buffer.get(), buffer_.get() + begin_, end_ - begin_);
  end_ -= begin_;
  begin_ = 0;
  buffer_ = std::move(buffer);
  capacity_ = capacity;
}

absl::Span<char> FrameParser::Space() {
  if (begin_ == end_) begin_ = end_ = 0;
  const size_t have = end_ - begin_;
  // A frame whose size is known is read to its end and no further, so that the next one starts a
  // fresh buffer instead of being moved.
  // Of a huge one only as much again as has come already: its size is so far a mere claim.
  const size_t need = wanted_ > have ? std::min(wanted_ - have, std::max(kKeep, have)) : kReadAhead;
  if (end_ + need > capacity_) {
    Reserve(have + need);
    if (begin_ > 0) {
      std::memmove(buffer_.get(), buffer_.get() + begin_, have);
      begin_ = 0;
      end_ = have;
    }
  }
  return {buffer_.get() + end_, need};
}

absl::StatusOr<std::optional<Frame>> FrameParser::Next() {
  const size_t have = end_ - begin_;
  if (have < sizeof(FrameHeader)) return std::nullopt;
  Frame frame;
  std::memcpy(&frame.header, buffer_.get() + begin_, sizeof(FrameHeader));
  if (frame.header.magic != kFrameMagic || frame.header.reserved != 0) {
    return absl::InvalidArgumentError("bytes that are no frame of Rubato's");
  }
  if (frame.header.body_bytes > body_bytes_max_) {
    return absl::InvalidArgumentError(absl::StrCat("a frame of ", frame.header.body_bytes,
                                                   " bytes, but at most ", body_bytes_max_,
                                                   " are taken here"));
  }
  wanted_ = sizeof(FrameHeader) + Padded(frame.header.body_bytes);
  if (have < wanted_) return std::nullopt;
  frame.body = {buffer_.get() + begin_ + sizeof(FrameHeader), frame.header.body_bytes};
  begin_ += wanted_;
  wanted_ = 0;
  return frame;
}

std::string EncodeHello(const Hello& hello) {
  std::string body;
  ByteWriter writer(body);
  writer.Put<uint16_t>(hello.version);
  writer.PutString(hello.job);
  writer.Put<int64_t>(hello.server);
  writer.Put<int64_t>(hello.servers);
  return body;
}

absl::StatusOr<Hello> DecodeHello(absl::string_view body) {
  ByteReader reader(body);
  Hello hello;
  hello.version = reader.Get<uint16_t>();
  if (reader.ok() && hello.version != kProtocolVersion) {
    return absl::InvalidArgumentError(
        absl::StrFormat("the client speaks protocol %d, this server %d: they must come from the "
                        "same release of Rubato",
                        hello.version, kProtocolVersion));
  }
  hello.job = std::string(reader.GetString());
  hello.server = reader.Get<int64_t>();
  hello.servers = reader.Get<int64_t>();
  if (!reader.ok() || reader.remaining() > 0) {
    return absl::InvalidArgumentError("the first frame is no greeting");
  }
  return hello;
}

}  // namespace rubato
