// Wire types into ours and back. The only header that names both.
#ifndef RUBATO_ADAPTERS_GRPC_CONVERT_H_
#define RUBATO_ADAPTERS_GRPC_CONVERT_H_

#include "rubato/adapters/grpc/rubato.pb.h"
#include "rubato/master/messages.h"
#include "rubato/master/orders.h"

namespace rubato {

wire::View ToWire(const View& view);
View FromWire(const wire::View& view);

wire::RegisterRequest ToWire(const RegisterRequest& request);
RegisterRequest FromWire(const wire::RegisterRequest& request);
wire::RegisterReply ToWire(const RegisterReply& reply);
RegisterReply FromWire(const wire::RegisterReply& reply);

wire::GroupReport ToWire(const GroupReport& report);
GroupReport FromWire(const wire::GroupReport& report);
wire::GroupOrders ToWire(const GroupOrders& orders);
GroupOrders FromWire(const wire::GroupOrders& orders);
wire::ConferRequest ToWire(const ConferRequest& request);
ConferRequest FromWire(const wire::ConferRequest& request);
wire::ConferReply ToWire(const ConferReply& reply);
ConferReply FromWire(const wire::ConferReply& reply);
wire::WorkerHeartbeat ToWire(const WorkerHeartbeat& beat);
WorkerHeartbeat FromWire(const wire::WorkerHeartbeat& beat);
wire::ServerHeartbeat ToWire(const ServerHeartbeat& beat);
ServerHeartbeat FromWire(const wire::ServerHeartbeat& beat);
wire::HeartbeatReply ToWire(const HeartbeatReply& reply);
HeartbeatReply FromWire(const wire::HeartbeatReply& reply);

wire::LeaseRequest ToWire(const LeaseRequest& request);
LeaseRequest FromWire(const wire::LeaseRequest& request);
wire::LeaseReply ToWire(const LeaseReply& reply);
LeaseReply FromWire(const wire::LeaseReply& reply);

wire::CommitRequest ToWire(const CommitRequest& request);
CommitRequest FromWire(const wire::CommitRequest& request);
wire::CommitReply ToWire(const CommitReply& reply);
CommitReply FromWire(const wire::CommitReply& reply);

wire::FailRequest ToWire(const FailRequest& request);
FailRequest FromWire(const wire::FailRequest& request);

wire::AttendRequest ToWire(const AttendRequest& request);
AttendRequest FromWire(const wire::AttendRequest& request);
wire::AttendReply ToWire(const AttendReply& reply);
AttendReply FromWire(const wire::AttendReply& reply);

wire::Snapshot ToWire(const Snapshot& snapshot);
Snapshot FromWire(const wire::Snapshot& snapshot);

wire::ScaleRequest ToWire(const ScaleRequest& request);
ScaleRequest FromWire(const wire::ScaleRequest& request);
wire::ScaleReply ToWire(const ScaleReply& reply);
ScaleReply FromWire(const wire::ScaleReply& reply);

}  // namespace rubato

#endif  // RUBATO_ADAPTERS_GRPC_CONVERT_H_
