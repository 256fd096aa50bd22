// The bodies of requests between workers and servers, as bytes. Numbers lie at multiples of their
// size, so a server reads ids and gradients where they were received, and logs a push as it came.
//
//     pull   head | ids of table 0 | ids of table 1 | ...
//     reply  dense count, steps | dense weights | rows of table 0 | rows of table 1 | ...
//     push   head | dense gradient | ids, gradients of table 0 | ids, gradients of table 1 | ...
//
// Weights and gradients travel in the WireFormat that the request names. A push is logged as it
// came, so a replay decodes what was decoded then.
#ifndef RUBATO_PARAMS_WIRE_H_
#define RUBATO_PARAMS_WIRE_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "rubato/base/interval_set.h"
#include "rubato/net/buffer.h"
#include "rubato/net/wire_format.h"
#include "rubato/params/declaration.h"
#include "rubato/params/partition.h"

namespace rubato {

// kArrive is between servers: a record of a move (params/move.h), its kind in eight bytes before
// it.
enum class ParamsOp : uint16_t {
  kHello = 0,
  kDeclare = 1,
  kPull = 2,
  kPush = 3,
  kArrive = 4,
  kInspect = 5,
  kFollow = 6,       // Copies of logs, also between servers (params/log_replica.h):
  kReplicate = 7,    // an order for one,
  kReplicaRead = 8,  // and some of its bytes back.
  kShared = 9,       // A pull or a push whose bytes lie in shared memory; see below.
};

// What to do about a body that is too large, of whose bytes so many are dense weights: those are as
// many with smaller batches.
inline absl::string_view WayToFit(size_t dense_bytes, size_t bytes_max) {
  return dense_bytes > bytes_max ? "use more servers, which share the dense weights"
                                 : "lower batch_size";
}

// ---- between processes of one machine ----
//
// A large request need not go through the socket: its body lies in memory that both sides see, and
// the rows that answer a pull are written there. The greeting says whether they do; the frames of
// such a request say only where.
struct SharedPlace {
  uint64_t offset = 0;
  uint64_t bytes = 0;
  friend bool operator==(const SharedPlace&, const SharedPlace&) = default;
};
struct SharedRequest {
  ParamsOp op = ParamsOp::kPull;  // Or kPush.
  SharedPlace request;            // In the area of requests.
  SharedPlace reply;              // In that of replies; of no bytes: the answer is a frame.
  friend bool operator==(const SharedRequest&, const SharedRequest&) = default;
};
// The bytes of `area` there, or nothing if some would lie beyond it.
std::optional<absl::Span<char>> PlaceIn(absl::Span<char> area, const SharedPlace& place);
// What a server answers to the greeting of a client whose memory it sees.
inline constexpr absl::string_view kSharesMemory = "shares memory";
std::string EncodeShared(const SharedRequest& request);
// INVALID_ARGUMENT if the bytes are none. Says nothing about whether the places exist.
absl::StatusOr<SharedRequest> DecodeShared(absl::string_view body);
// The body of the frame that says: so many bytes of the answer are at `reply`.
std::string EncodeSharedReply(uint64_t bytes);
// Nothing if they are none, or more than `most`.
std::optional<uint64_t> DecodeSharedReply(absl::string_view body, uint64_t most);

// A declaration for one server: all of it but the dense values, of which only `slices`.
std::string EncodeDeclaration(const Declaration& declaration, const std::vector<Interval>& slices);
// `dense` holds the slices. INVALID_ARGUMENT if the bytes are none.
absl::StatusOr<Declaration> DecodeDeclaration(absl::string_view body);
// OK if the two agree in all but their dense values, else FAILED_PRECONDITION naming the first
// difference and both values.
absl::Status SameDeclaration(const Declaration& first, const Declaration& later);

// ---- servers: requests read in place ----

struct TableIds {
  absl::Span<const uint64_t> ids;
  uint32_t dim = 0;  // What the client believes; meaningless without ids.
};
struct DecodedPull {
  int64_t version = 0;  // Of the server's partitions, as the client knows them.
  bool want_dense = false;
  int64_t rounds = 0;                     // As PullRequest's.
  WireFormat format = WireFormat::kFp32;  // Of the reply.
  std::vector<TableIds> tables;
};
// INVALID_ARGUMENT if the bytes are no pull. Spans point into `body`, which starts at a multiple
// of 8. `out` is reused.
absl::Status DecodePull(absl::string_view body, DecodedPull* out);
// The rounds that a pull wants to be in its weights; 0 if the bytes are none.
int64_t PullRounds(absl::string_view body);
// How every reply to a pull begins.
struct PullReplyHead {
  uint64_t dense;  // Weights that follow.
  int64_t steps;   // Applied when it was read.
};

struct DecodedPush {
  PushRequest request;         // Spans point into the body, or into `floats`.
  int64_t version = 0;         // As of a pull.
  std::vector<uint32_t> dims;  // By table; meaningless without ids.
  WireFormat format = WireFormat::kFp32;
  int64_t pulled = -1;  // Steps applied here when its weights were pulled; -1: unknown.
  bool finite = true;   // All of its gradients.
  Buffer floats;        // What came as halves.
};
absl::Status DecodePush(absl::string_view body, DecodedPush* out);
// The ids of a push alone, by table; those before the place where its bytes stop making sense.
void PushIds(absl::string_view body, std::vector<absl::Span<const uint64_t>>* out);

// ---- clients: requests split by server ----

// One pull as one body a server, and the answers put back together.
class PullSplit {
 public:
  // Bodies lie in `memory` as far as that has room.
  explicit PullSplit(std::shared_ptr<BufferMemory> memory = nullptr) : memory_(std::move(memory)) {}

  void Encode(const PullRequest& request, const PartitionMap& map,
              WireFormat format = WireFormat::kFp32);
  // The same pull by another map.
  void Recode(const PartitionMap& map);
  Buffer& body(int64_t server) { return parts_[static_cast<size_t>(server)].body; }
  // Of the answer.
  size_t reply_bytes(int64_t server) const;
  // Copies a server's rows to where the request wants them. INTERNAL if the reply does not fit.
  absl::Status Scatter(int64_t server, absl::string_view reply) const;

 private:
  struct Part {
    explicit Part(std::shared_ptr<BufferMemory> memory) : body(std::move(memory)) {}
    Buffer body;
    std::vector<uint32_t> counts;     // Ids by table.
    std::vector<uint32_t> positions;  // Of each id within its table's request.
    std::vector<Interval> dense;      // What of the dense weights it has.
  };
  std::shared_ptr<BufferMemory> memory_;
  PullRequest request_;
  WireFormat format_ = WireFormat::kFp32;
  std::vector<uint32_t> dims_;
  std::vector<Part> parts_;
};

// One push as one body a server; every server that owns anything gets one, if only to note that
// the batch is done.
class PushSplit {
 public:
  // As PullSplit's.
  explicit PushSplit(std::shared_ptr<BufferMemory> memory = nullptr) : memory_(std::move(memory)) {}

  void Encode(const PushRequest& request, const PartitionMap& map,
              WireFormat format = WireFormat::kFp32);
  // The same push by another map.
  void Recode(const PartitionMap& map);
  Buffer& body(int64_t server) { return bodies_[static_cast<size_t>(server)]; }
  // Whether no gradient of that body is a NaN or an infinity, as it travels.
  bool finite(int64_t server) const { return finite_[static_cast<size_t>(server)] != 0; }
  // Of that body, as many are dense gradients: they do not get fewer with smaller batches.
  size_t dense_bytes(int64_t server) const { return dense_bytes_[static_cast<size_t>(server)]; }

 private:
  void EncodeHeads(const PushRequest& request, const PartitionMap& map, WireFormat format);
  void EncodeRows(absl::Span<const float> gradients, size_t dim, WireFormat format);
  // Looks at the gradients in bytes [begin, end) of a body.
  void Look(size_t server, size_t begin, size_t end, WireFormat format);

  std::shared_ptr<BufferMemory> memory_;
  std::vector<Buffer> bodies_;
  std::vector<uint8_t> finite_;  // By server.
  // Of the table at hand, by server: how many ids, and where in the body gradients are put.
  std::vector<uint32_t> counts_;
  std::vector<size_t> begins_, ends_;
  int64_t dense_size_ = 0;
  std::vector<std::vector<Interval>> slices_;  // Of the dense gradient, by server.
  std::vector<size_t> dense_bytes_;            // Of those.
  std::vector<uint16_t> owners_;               // Of each id of the table at hand.
};

}  // namespace rubato

#endif  // RUBATO_PARAMS_WIRE_H_
