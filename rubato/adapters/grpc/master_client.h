// Everyone else's mouth: calls to a master over gRPC, that survive its restart.
#ifndef RUBATO_ADAPTERS_GRPC_MASTER_CLIENT_H_
#define RUBATO_ADAPTERS_GRPC_MASTER_CLIENT_H_

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "rubato/master/messages.h"
#include "rubato/master/orders.h"

namespace rubato {

// Thread-safe. A call waits for a master to be there (the channel looks every few tens of
// milliseconds) and answers within `timeout`: DEADLINE_EXCEEDED if none was, or it was silent;
// UNAVAILABLE if it died in the middle of the call.
class MasterClient {
 public:
  static std::unique_ptr<MasterClient> Dial(const std::string& address,
                                            absl::Duration timeout = absl::Seconds(2));
  virtual ~MasterClient() = default;

  virtual absl::StatusOr<RegisterReply> Register(const RegisterRequest& request) = 0;
  virtual absl::StatusOr<HeartbeatReply> Beat(const WorkerHeartbeat& beat) = 0;
  virtual absl::StatusOr<HeartbeatReply> Beat(const ServerHeartbeat& beat) = 0;
  virtual absl::StatusOr<ConferReply> Confer(const ConferRequest& request) = 0;
  virtual absl::StatusOr<LeaseReply> Lease(const LeaseRequest& request) = 0;
  virtual absl::StatusOr<CommitReply> Commit(const CommitRequest& request) = 0;
  virtual absl::Status Fail(const FailRequest& request) = 0;
  virtual absl::StatusOr<AttendReply> Attend(const AttendRequest& request) = 0;
  virtual absl::StatusOr<Snapshot> Show() = 0;
  virtual absl::StatusOr<ScaleReply> Scale(const ScaleRequest& request) = 0;
  virtual absl::Status Stop() = 0;
};

}  // namespace rubato

#endif  // RUBATO_ADAPTERS_GRPC_MASTER_CLIENT_H_
