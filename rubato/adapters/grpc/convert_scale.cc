// How many processes a job shall have, on the wire.
#include "rubato/adapters/grpc/convert.h"

namespace rubato {

wire::ScaleRequest ToWire(const ScaleRequest& in) {
  wire::ScaleRequest out;
  out.set_workers(in.workers);
  out.set_servers(in.servers);
  return out;
}

ScaleRequest FromWire(const wire::ScaleRequest& in) {
  ScaleRequest out;
  out.workers = in.workers();
  out.servers = in.servers();
  return out;
}

wire::ScaleReply ToWire(const ScaleReply& in) {
  wire::ScaleReply out;
  out.set_accepted(in.accepted);
  out.set_reason(in.reason);
  out.set_workers_target(in.workers_target);
  out.set_servers_target(in.servers_target);
  return out;
}

ScaleReply FromWire(const wire::ScaleReply& in) {
  ScaleReply out;
  out.accepted = in.accepted();
  out.reason = in.reason();
  out.workers_target = in.workers_target();
  out.servers_target = in.servers_target();
  return out;
}

}  // namespace rubato
