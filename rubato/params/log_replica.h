// A second copy of a server's push log on the disk of another server, its follower
// (`params.replicas: 1`). A follower holds the segments byte by byte, under the same numbers.
//
//     leader   append to the log ──▶ send what the follower lacks ──▶ it has it: acknowledge
//     line lost, follower anew  ──▶ it says what it has ──▶ send the rest, from wherever that ends
//     another follower          ──▶ both get everything until the new one is level; then the old
//                                   one forgets
//     leader without its files  ──▶ asks all others, takes the longest copy
//     leader that starts        ──▶ asks all others; takes what its log lacks of a segment
//
// What the leader acknowledged is in two folders, its own and a follower's, so the loss of either
// loses nothing. A copy is sent from its beginning to its end without gaps, so one that ends later
// holds everything the other does, but for what a checkpoint has made needless. Numbers of segments
// only grow, over all lives of a server, also when a life begins from a copy.
//
// So a copy with more than the log means that the log was cut or damaged, and is never given up for
// it: a leader that meets one says so and does nothing (outrun), and its next life begins with what
// the copy has.
//
// Everything here is pure: whoever uses it has the files and the lines.
#ifndef RUBATO_PARAMS_LOG_REPLICA_H_
#define RUBATO_PARAMS_LOG_REPLICA_H_

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace rubato {

// A place in a log: so many bytes of a segment, and all segments before it.
struct LogPosition {
  int64_t segment = 0;
  int64_t bytes = 0;
  friend auto operator<=>(const LogPosition&, const LogPosition&) = default;
};

// Segments and how long they are.
using LogSizes = std::map<int64_t, int64_t>;
LogPosition EndOf(const LogSizes& sizes);  // {0, 0} if there is none.

// Who keeps the copy of server `server` in a job that shall have `servers`: the next one. -1 if
// there is nobody else. One that is on its way out has a follower too, for as long as it owns
// something.
int64_t FollowerOf(int64_t server, int64_t servers);

// What a leader has a follower do. Answered in order.
struct ReplicaOrder {
  enum class Kind : uint64_t {
    kAppend = 0,      // Bytes [offset, offset + bytes) of `segment`: what it has ends there.
    kDropBefore = 1,  // Segments before `segment` are needless.
    kForget = 2,      // All of it is.
  };
  Kind kind = Kind::kAppend;
  int64_t segment = 0;
  int64_t offset = 0;
  int64_t bytes = 0;
  friend bool operator==(const ReplicaOrder&, const ReplicaOrder&) = default;
};

// ---- the leader's side ----

// What one follower has of the log, and what to send it next.
class ReplicaLink {
 public:
  // The line is there, and the follower told what it has.
  void Connected(const LogSizes& log, LogSizes there);
  void Lost();
  bool connected() const { return connected_; }
  // It has more than the log: nothing is sent to it.
  bool ahead() const { return connected_ && ahead_; }
  std::optional<ReplicaOrder> Next(const LogSizes& log);
  void Answered();
  // The follower has everything up to here, as far as this line has told.
  LogPosition held() const { return held_; }
  // Nearly all was sent.
  bool Near(const LogSizes& log) const;
  // It is to forget what it has, or not after all, if there is time.
  void Retire() { retiring_ = true; }
  void Keep(const LogSizes& log);
  bool retired() const { return retired_; }

 private:
  struct Sent {
    LogPosition then;  // What the follower has when it has done that.
    int64_t bytes = 0;
    bool forgets = false;
  };
  void Send(int64_t bytes, bool forgets = false);
  int64_t Had(int64_t segment) const;

  bool connected_ = false;
  bool retiring_ = false, retired_ = false;
  bool ahead_ = false;  // It has more than the log, which is then not to be trusted.
  LogSizes there_;      // What it had when the line came to be.
  int64_t first_ = 0;   // The first segment it has or may have.
  LogPosition next_;    // To be sent.
  LogPosition held_;
  std::deque<Sent> sent_;
  int64_t sent_bytes_ = 0;
};

// All copies of one log: one follower, and those that are being left for it.
class LogReplicas {
 public:
  // The log as it is when the server starts.
  void Open(LogSizes log);
  void Grew(int64_t segment, int64_t bytes) { log_[segment] = bytes; }
  void DroppedBefore(int64_t segment);
  const LogSizes& log() const { return log_; }

  // Who shall keep the copy; -1: nobody yet. Those that did so far stay until it is level.
  void SetFollower(int64_t server);
  int64_t follower() const { return follower_; }
  // To whom there should be lines.
  std::vector<int64_t> Lines() const;

  void Connected(int64_t server, LogSizes there);
  void Lost(int64_t server);
  // Whether the line there is of use. One that is not is to be closed.
  bool connected(int64_t server) const;
  // The next order for `server`; nothing while enough is under way or all is there.
  std::optional<ReplicaOrder> Next(int64_t server);
  void Answered(int64_t server);

  // What is in the log up to here may be acknowledged. Never goes back.
  LogPosition held() const { return held_; }
  // The follower if it has all that was acknowledged and nobody else is needed; else -1.
  int64_t settled() const;
  // Bytes of the log that no follower has.
  int64_t behind() const;
  // One whose copy has more than the log, which must have been cut or damaged; -1: none.
  int64_t outrun() const;

 private:
  void Look();
  bool Level(const ReplicaLink& link) const;

  LogSizes log_;
  int64_t follower_ = -1;
  std::map<int64_t, ReplicaLink> links_;  // By follower.
  LogPosition held_;
  LogPosition past_;  // What lives before this one may have acknowledged.
};

// ---- the follower's side ----

// What a follower has of one leader's log.
class ReplicaCopy {
 public:
  ReplicaCopy() = default;
  explicit ReplicaCopy(LogSizes sizes) : sizes_(std::move(sizes)) {}
  // The leader's life `incarnation` has come, by `line`. From now on only that is listened to: an
  // order that a dead life left in a socket is not carried out. FAILED_PRECONDITION if it is
  // older than one that came before.
  absl::Status Follow(int64_t incarnation, int64_t line);
  // OK if the order can be carried out. ABORTED if it comes by another line, or leaves a gap.
  absl::Status Check(int64_t line, const ReplicaOrder& order) const;
  // It was. Answers with the segments that have gone.
  std::vector<int64_t> Done(const ReplicaOrder& order);
  const LogSizes& sizes() const { return sizes_; }
  bool Listens(int64_t line) const { return line == line_; }

 private:
  LogSizes sizes_;
  int64_t incarnation_ = 0;
  int64_t line_ = -1;
};

// Which of these copies to go on from: the one that ends last. -1 if all are empty.
int64_t LongestCopy(const std::vector<LogSizes>& copies);

// What makes a log and its copies one again.
struct LogRepair {
  std::map<int64_t, size_t> take;  // Segments of which that copy has more: the log lacks it.
  std::vector<size_t> forget;      // Copies of something that never became part of this log.
};
// A leader that starts compares its log with all copies. Bytes that it does not have were lost
// here: whatever lives began with its own files had them. But a life that began from a copy, since
// its files were gone, may have gone on without a tail that another copy has, of which nobody was
// told: `joints` are the segments with which such copies ended, and their bytes.
LogRepair CompareLog(const LogSizes& log, const LogSizes& joints,
                     const std::vector<LogSizes>& copies);

// ---- as bytes ----

// The first words on a line between servers.
struct FollowRequest {
  std::string job;
  int64_t follower = 0;  // Who is meant.
  int64_t leader = 0;
  int64_t incarnation = 0;
  friend bool operator==(const FollowRequest&, const FollowRequest&) = default;
};
std::string Encode(const FollowRequest& request);
absl::StatusOr<FollowRequest> DecodeFollow(absl::string_view body);
std::string Encode(const LogSizes& sizes);
absl::StatusOr<LogSizes> DecodeLogSizes(absl::string_view body);
// What CompareLog takes as `joints`, in a file: a line a segment.
std::string EncodeJoints(const LogSizes& joints);
// DATA_LOSS if they are not as they were written. Those of earlier builds had no checksum.
absl::StatusOr<LogSizes> DecodeJoints(absl::string_view text);
inline constexpr size_t kReplicaOrderBytes = 32;
std::string Encode(const ReplicaOrder& order);  // The bytes to append follow it.
// INVALID_ARGUMENT if it is none.
absl::StatusOr<ReplicaOrder> DecodeReplicaOrder(absl::string_view body);

}  // namespace rubato

#endif  // RUBATO_PARAMS_LOG_REPLICA_H_
