// What the workers of strategy allreduce and the master tell each other of their group.
#include "rubato/adapters/grpc/convert.h"

namespace rubato {

wire::GroupReport ToWire(const GroupReport& in) {
  wire::GroupReport out;
  out.set_generation(in.generation);
  out.set_address(in.address);
  out.set_holds(in.holds);
  out.set_steps(in.steps);
  out.set_records(in.records);
  out.set_checksum(in.checksum);
  out.set_records_wrong(in.records_wrong);
  out.set_bad_rows(in.bad_rows);
  out.set_records_redone(in.records_redone);
  out.set_checkpointed(in.checkpointed);
  out.set_checkpoint_steps(in.checkpoint_steps);
  out.set_checkpoint_records(in.checkpoint_records);
  out.mutable_change()->set_view(in.change.view);
  out.mutable_change()->set_noticed_us(in.change.noticed_us);
  out.mutable_change()->set_agree_us(in.change.agree_us);
  out.mutable_change()->set_reconnect_us(in.change.reconnect_us);
  out.mutable_change()->set_redo_us(in.change.redo_us);
  out.mutable_change()->mutable_heard_us()->insert(in.change.heard_us.begin(),
                                                   in.change.heard_us.end());
  out.set_lagging(in.lagging);
  return out;
}

GroupReport FromWire(const wire::GroupReport& in) {
  GroupReport out;
  out.generation = in.generation();
  out.address = in.address();
  out.holds = in.holds();
  out.steps = in.steps();
  out.records = in.records();
  out.checksum = in.checksum();
  out.records_wrong = in.records_wrong();
  out.bad_rows = in.bad_rows();
  out.records_redone = in.records_redone();
  out.checkpointed = in.checkpointed();
  out.checkpoint_steps = in.checkpoint_steps();
  out.checkpoint_records = in.checkpoint_records();
  out.change = {.view = in.change().view(),
                .noticed_us = in.change().noticed_us(),
                .agree_us = in.change().agree_us(),
                .reconnect_us = in.change().reconnect_us(),
                .redo_us = in.change().redo_us(),
                .heard_us = {in.change().heard_us().begin(), in.change().heard_us().end()}};
  out.lagging = in.lagging();
  return out;
}

wire::GroupOrders ToWire(const GroupOrders& in) {
  wire::GroupOrders out;
  out.set_generation(in.generation);
  out.set_found(in.found);
  out.set_restore(in.restore);
  for (const std::string& address : in.join) out.add_join(address);
  out.set_evaluated(in.evaluated);
  out.set_lowered(in.lowered);
  out.set_rest(in.rest);
  out.set_over(in.over);
  out.set_batches_per_task(in.batches_per_task);
  return out;
}

GroupOrders FromWire(const wire::GroupOrders& in) {
  GroupOrders out;
  out.generation = in.generation();
  out.found = in.found();
  out.restore = in.restore();
  out.join = {in.join().begin(), in.join().end()};
  out.evaluated = in.evaluated();
  out.lowered = in.lowered();
  out.rest = in.rest();
  out.over = in.over();
  out.batches_per_task = in.batches_per_task();
  return out;
}

wire::ConferRequest ToWire(const ConferRequest& in) {
  wire::ConferRequest out;
  out.set_worker(in.worker.value());
  out.set_generation(in.generation);
  out.set_report(in.report);
  out.set_known(in.known);
  out.set_wait_ms(in.wait_ms);
  return out;
}

ConferRequest FromWire(const wire::ConferRequest& in) {
  ConferRequest out;
  out.worker = WorkerId(in.worker());
  out.generation = in.generation();
  out.report = in.report();
  out.known = in.known();
  out.wait_ms = in.wait_ms();
  return out;
}

wire::ConferReply ToWire(const ConferReply& in) {
  wire::ConferReply out;
  out.set_order(in.order);
  out.set_number(in.number);
  return out;
}

ConferReply FromWire(const wire::ConferReply& in) {
  ConferReply out;
  out.order = in.order();
  out.number = in.number();
  return out;
}

}  // namespace rubato
