// What a master answers, whoever asks and however the question travels.
#ifndef RUBATO_ADAPTERS_GRPC_MASTER_HANDLER_H_
#define RUBATO_ADAPTERS_GRPC_MASTER_HANDLER_H_

#include "rubato/master/messages.h"
#include "rubato/master/orders.h"

namespace rubato {

// Called from several threads at once. Attend and Confer may block for a moment; nothing else
// does.
class MasterHandler {
 public:
  virtual ~MasterHandler() = default;
  virtual RegisterReply Register(const RegisterRequest& request) = 0;
  virtual HeartbeatReply WorkerBeat(const WorkerHeartbeat& beat) = 0;
  virtual HeartbeatReply ServerBeat(const ServerHeartbeat& beat) = 0;
  virtual ConferReply Confer(const ConferRequest& request) = 0;
  virtual LeaseReply Lease(const LeaseRequest& request) = 0;
  virtual CommitReply Commit(const CommitRequest& request) = 0;
  virtual void Fail(const FailRequest& request) = 0;
  virtual AttendReply Attend(const AttendRequest& request) = 0;
  virtual Snapshot Show() = 0;
  virtual ScaleReply Scale(const ScaleRequest& request) = 0;
  virtual void Stop() = 0;
};

}  // namespace rubato

#endif  // RUBATO_ADAPTERS_GRPC_MASTER_HANDLER_H_
