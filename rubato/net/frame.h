// How bytes on a data connection are cut into messages.
//
//     | magic | body bytes | op | code | request id | body, padded to 8 bytes |
//       u32     u32          u16  u16    u64
//
// Every body starts at a multiple of 8 in the receiver's buffer, so numbers in it can be read in
// place. A connection opens with the client's Hello and the server's answer to it; until then only
// small frames are taken. Replies carry the id of their request, in any order.
//
// Pure: no socket here. Bytes that are no frame are INVALID_ARGUMENT, and the connection they came
// from is to be closed.
#ifndef RUBATO_NET_FRAME_H_
#define RUBATO_NET_FRAME_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace rubato {

inline constexpr uint32_t kFrameMagic = 0x4f425552;  // "RUBO"
inline constexpr uint16_t kProtocolVersion = 2;
inline constexpr size_t kFrameBytesMax = size_t{1} << 30;
inline constexpr size_t kHelloBytesMax = 4096;

struct FrameHeader {
  uint32_t magic = kFrameMagic;
  uint32_t body_bytes = 0;  // Without the padding.
  uint16_t op = 0;          // Whoever uses the connection says what for; 0 is the greeting.
  uint16_t code = 0;        // Replies: an absl::StatusCode. If not 0 the body is its message.
  uint32_t reserved = 0;    // Zero.
  uint64_t id = 0;          // Chosen by who asks, repeated by who answers.
};
static_assert(sizeof(FrameHeader) == 24);

constexpr size_t Padded(size_t bytes) { return (bytes + 7) / 8 * 8; }

// A whole frame in the parser's buffer; valid until the next call of Space().
struct Frame {
  FrameHeader header;
  absl::string_view body;  // Starts at a multiple of 8.
  // The status a reply carries.
  absl::Status status() const;
};

// Cuts a stream into frames, without copying large bodies: read into Space(), then say Filled(n),
// then take frames with Next() until there is none.
class FrameParser {
 public:
  explicit FrameParser(size_t body_bytes_max = kFrameBytesMax) : body_bytes_max_(body_bytes_max) {}

  // The greeting is over: larger frames may come.
  void set_body_bytes_max(size_t bytes) { body_bytes_max_ = bytes; }

  // Where the next bytes of the stream go. Never empty. Ends the life of frames given out.
  absl::Span<char> Space();
  void Filled(size_t bytes) { end_ += bytes; }

  // The next whole frame, or nothing until more bytes come. INVALID_ARGUMENT, for good, once the
  // stream is no stream of frames or a body is larger than allowed.
  absl::StatusOr<std::optional<Frame>> Next();

 private:
  struct Free {
    void operator()(char* p) const { ::operator delete[](p, std::align_val_t{64}); }
  };
  void Reserve(size_t bytes);

  size_t body_bytes_max_;
  std::unique_ptr<char[], Free> buffer_;
  size_t capacity_ = 0;
  size_t begin_ = 0;  // Bytes [begin_, end_) are not yet taken; begin_ is a multiple of 8.
  size_t end_ = 0;
  size_t wanted_ = 0;  // Size of the frame at begin_, once its header is known.
};

// The first frame of a connection, from the client. The answer has the same op and id, and a code.
struct Hello {
  uint16_t version = kProtocolVersion;
  std::string job;
  int64_t server = 0;   // Whom the client believes to have reached...
  int64_t servers = 1;  // ...of how many.
  friend bool operator==(const Hello&, const Hello&) = default;
};
std::string EncodeHello(const Hello& hello);
// INVALID_ARGUMENT if the bytes are no greeting or speak another version, naming both versions.
absl::StatusOr<Hello> DecodeHello(absl::string_view body);

}  // namespace rubato

#endif  // RUBATO_NET_FRAME_H_
