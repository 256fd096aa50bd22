#include "rubato/adapters/grpc/master_service.h"

#include <grpcpp/grpcpp.h>

#include <chrono>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "rubato/adapters/grpc/convert.h"
#include "rubato/adapters/grpc/rubato.grpc.pb.h"

namespace rubato {
namespace {

using Context = grpc::ServerContext;

class Ear final : public wire::Master::Service {
 public:
  explicit Ear(MasterHandler* handler) : handler_(*handler) {}

  grpc::Status Register(Context*, const wire::RegisterRequest* in,
                        wire::RegisterReply* out) override {
    *out = ToWire(handler_.Register(FromWire(*in)));
    return grpc::Status::OK;
  }
  grpc::Status WorkerBeat(Context*, const wire::WorkerHeartbeat* in,
                          wire::HeartbeatReply* out) override {
    *out = ToWire(handler_.WorkerBeat(FromWire(*in)));
    return grpc::Status::OK;
  }
  grpc::Status ServerBeat(Context*, const wire::ServerHeartbeat* in,
                          wire::HeartbeatReply* out) override {
    *out = ToWire(handler_.ServerBeat(FromWire(*in)));
    return grpc::Status::OK;
  }
  grpc::Status Confer(Context*, const wire::ConferRequest* in, wire::ConferReply* out) override {
    *out = ToWire(handler_.Confer(FromWire(*in)));
    return grpc::Status::OK;
  }
  grpc::Status Lease(Context*, const wire::LeaseRequest* in, wire::LeaseReply* out) override {
    *out = ToWire(handler_.Lease(FromWire(*in)));
    return grpc::Status::OK;
  }
  grpc::Status Commit(Context*, const wire::CommitRequest* in, wire::CommitReply* out) override {
    *out = ToWire(handler_.Commit(FromWire(*in)));
    return grpc::Status::OK;
  }
  grpc::Status Fail(Context*, const wire::FailRequest* in, wire::Empty*) override {
    handler_.Fail(FromWire(*in));
    return grpc::Status::OK;
  }
  grpc::Status Attend(Context*, const wire::AttendRequest* in, wire::AttendReply* out) override {
    *out = ToWire(handler_.Attend(FromWire(*in)));
    return grpc::Status::OK;
  }
  grpc::Status Show(Context*, const wire::Empty*, wire::Snapshot* out) override {
    *out = ToWire(handler_.Show());
    return grpc::Status::OK;
  }
  grpc::Status Scale(Context*, const wire::ScaleRequest* in, wire::ScaleReply* out) override {
    *out = ToWire(handler_.Scale(FromWire(*in)));
    return grpc::Status::OK;
  }
  grpc::Status Stop(Context*, const wire::Empty*, wire::Empty*) override {
    handler_.Stop();
    return grpc::Status::OK;
  }

 private:
  MasterHandler& handler_;
};

class GrpcMasterService final : public MasterService {
 public:
  explicit GrpcMasterService(MasterHandler* handler) : ear_(handler) {}
  ~GrpcMasterService() override {
    if (server_)
      server_->Shutdown(std::chrono::system_clock::now() + std::chrono::milliseconds(50));
  }

  absl::Status Listen(const std::string& address) {
    int port = 0;
    grpc::ServerBuilder builder;
    builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);  // A taken port must be an error.
    builder.AddListeningPort(address, grpc::InsecureServerCredentials(), &port);
    builder.SetMaxReceiveMessageSize(64 << 20);  // An evaluation's sums: some bytes a record.
    builder.RegisterService(&ear_);
    server_ = builder.BuildAndStart();
    if (!server_ || port == 0) {
      return absl::UnavailableError(
          absl::StrCat("cannot listen on ", address, ": the address is in use or not ours"));
    }
    address_ = absl::StartsWith(address, "unix:")
                   ? address
                   : absl::StrCat(address.substr(0, address.rfind(':')), ":", port);
    return absl::OkStatus();
  }
  std::string address() const override { return address_; }

 private:
  Ear ear_;
  std::unique_ptr<grpc::Server> server_;
  std::string address_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<MasterService>> MasterService::Start(const std::string& address,
                                                                    MasterHandler* handler) {
  auto service = std::make_unique<GrpcMasterService>(handler);
  if (absl::Status status = service->Listen(address); !status.ok()) return status;
  return service;
}

}  // namespace rubato
