#include "rubato/adapters/grpc/master_client.h"

#include <grpcpp/grpcpp.h>

#include "rubato/adapters/grpc/convert.h"
#include "rubato/adapters/grpc/rubato.grpc.pb.h"

namespace rubato {
namespace {

absl::Status FromGrpc(const grpc::Status& status) {
  return absl::Status(static_cast<absl::StatusCode>(status.error_code()), status.error_message());
}

class GrpcMasterClient final : public MasterClient {
 public:
  GrpcMasterClient(const std::string& address, absl::Duration timeout) : timeout_(timeout) {
    grpc::ChannelArguments arguments;
    // The defaults wait seconds before they look for a restarted master again.
    arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, 20);
    arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, 50);
    // Despite its name how long one attempt may take: a master that has just started on a busy
    // machine greets late, and giving up on it only makes it later.
    arguments.SetInt(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, 2000);
    // A channel of our own: one client's back-off is not another's.
    arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
    stub_ = wire::Master::NewStub(
        grpc::CreateCustomChannel(address, grpc::InsecureChannelCredentials(), arguments));
  }

  absl::StatusOr<RegisterReply> Register(const RegisterRequest& request) override {
    return Call<RegisterReply>(&wire::Master::Stub::Register, ToWire(request));
  }
  absl::StatusOr<HeartbeatReply> Beat(const WorkerHeartbeat& beat) override {
    return Call<HeartbeatReply>(&wire::Master::Stub::WorkerBeat, ToWire(beat));
  }
  absl::StatusOr<HeartbeatReply> Beat(const ServerHeartbeat& beat) override {
    return Call<HeartbeatReply>(&wire::Master::Stub::ServerBeat, ToWire(beat));
  }
  absl::StatusOr<ConferReply> Confer(const ConferRequest& request) override {
    return Call<ConferReply>(&wire::Master::Stub::Confer, ToWire(request));
  }
  absl::StatusOr<LeaseReply> Lease(const LeaseRequest& request) override {
    return Call<LeaseReply>(&wire::Master::Stub::Lease, ToWire(request));
  }
  absl::StatusOr<CommitReply> Commit(const CommitRequest& request) override {
    return Call<CommitReply>(&wire::Master::Stub::Commit, ToWire(request));
  }
  absl::Status Fail(const FailRequest& request) override {
    return CallWire<wire::Empty>(&wire::Master::Stub::Fail, ToWire(request)).status();
  }
  absl::StatusOr<AttendReply> Attend(const AttendRequest& request) override {
    return Call<AttendReply>(&wire::Master::Stub::Attend, ToWire(request));
  }
  absl::StatusOr<Snapshot> Show() override {
    return Call<Snapshot>(&wire::Master::Stub::Show, wire::Empty());
  }
  absl::StatusOr<ScaleReply> Scale(const ScaleRequest& request) override {
    return Call<ScaleReply>(&wire::Master::Stub::Scale, ToWire(request));
  }
  absl::Status Stop() override {
    return CallWire<wire::Empty>(&wire::Master::Stub::Stop, wire::Empty()).status();
  }

 private:
  template <typename WireReply, typename WireRequest>
  absl::StatusOr<WireReply> CallWire(grpc::Status (wire::Master::Stub::*method)(
                                         grpc::ClientContext*, const WireRequest&, WireReply*),
                                     const WireRequest& request) {
    grpc::ClientContext context;
    context.set_deadline(absl::ToChronoTime(absl::Now() + timeout_));
    // A call that waits also drives the reconnection. Calls that fail at once leave it to gRPC's
    // backup poller, which looks every five seconds.
    context.set_wait_for_ready(true);
    WireReply reply;
    const grpc::Status status = (stub_.get()->*method)(&context, request, &reply);
    if (!status.ok()) return FromGrpc(status);
    return reply;
  }

  template <typename Reply, typename WireReply, typename WireRequest>
  absl::StatusOr<Reply> Call(grpc::Status (wire::Master::Stub::*method)(grpc::ClientContext*,
                                                                        const WireRequest&,
                                                                        WireReply*),
                             const WireRequest& request) {
    absl::StatusOr<WireReply> reply = CallWire(method, request);
    if (!reply.ok()) return reply.status();
    return FromWire(*reply);
  }

  const absl::Duration timeout_;
  std::unique_ptr<wire::Master::Stub> stub_;
};

}  // namespace

std::unique_ptr<MasterClient> MasterClient::Dial(const std::string& address,
                                                 absl::Duration timeout) {
  return std::make_unique<GrpcMasterClient>(address, timeout);
}

}  // namespace rubato
