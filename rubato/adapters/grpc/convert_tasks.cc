// Tasks on the wire: leased, committed, given up.
#include "rubato/adapters/grpc/convert.h"

namespace rubato {
namespace {

wire::Task ToWire(const Task& in) {
  wire::Task out;
  out.set_id(in.id.value());
  out.set_kind(static_cast<int32_t>(in.kind));
  out.set_epoch(in.epoch);
  out.set_begin(in.begin);
  out.set_end(in.end);
  out.set_committed(in.committed);
  out.set_lease(in.lease);
  out.set_rate(in.rate);
  out.set_round(in.round);
  out.set_rounds(in.rounds);
  return out;
}

Task FromWire(const wire::Task& in) {
  Task out;
  out.id = TaskId(in.id());
  out.kind = static_cast<TaskKind>(in.kind());
  out.epoch = in.epoch();
  out.begin = in.begin();
  out.end = in.end();
  out.committed = in.committed();
  out.lease = in.lease();
  out.rate = in.rate();
  out.round = in.round();
  out.rounds = in.rounds();
  return out;
}

}  // namespace

wire::LeaseRequest ToWire(const LeaseRequest& in) {
  wire::LeaseRequest out;
  out.set_worker(in.worker.value());
  for (TaskId task : in.holding) out.add_holding(task.value());
  return out;
}

LeaseRequest FromWire(const wire::LeaseRequest& in) {
  LeaseRequest out;
  out.worker = WorkerId(in.worker());
  for (int64_t task : in.holding()) out.holding.push_back(TaskId(task));
  return out;
}

wire::LeaseReply ToWire(const LeaseReply& in) {
  wire::LeaseReply out;
  out.set_verdict(static_cast<int32_t>(in.verdict));
  *out.mutable_task() = ToWire(in.task);
  return out;
}

LeaseReply FromWire(const wire::LeaseReply& in) {
  LeaseReply out;
  out.verdict = static_cast<LeaseReply::Verdict>(in.verdict());
  out.task = FromWire(in.task());
  return out;
}

wire::CommitRequest ToWire(const CommitRequest& in) {
  wire::CommitRequest out;
  out.set_worker(in.worker.value());
  out.set_task(in.task.value());
  out.set_upto(in.upto);
  out.set_lease(in.lease);
  out.set_release(in.release);
  if (in.sums.has_value()) out.set_sums(EncodeSums(*in.sums));
  out.set_bad_rows(in.bad_rows);
  for (const std::string& row : in.bad_rows_named) out.add_bad_rows_named(row);
  return out;
}

CommitRequest FromWire(const wire::CommitRequest& in) {
  CommitRequest out;
  out.worker = WorkerId(in.worker());
  out.task = TaskId(in.task());
  out.upto = in.upto();
  out.lease = in.lease();
  out.release = in.release();
  if (in.has_sums()) {
    if (absl::StatusOr<EvaluationSums> sums = DecodeSums(in.sums()); sums.ok()) {
      out.sums = *std::move(sums);
    }
  }
  out.bad_rows = in.bad_rows();
  out.bad_rows_named.assign(in.bad_rows_named().begin(), in.bad_rows_named().end());
  return out;
}

wire::CommitReply ToWire(const CommitReply& in) {
  wire::CommitReply out;
  out.set_held(in.held);
  out.set_unknown(in.unknown);
  return out;
}

CommitReply FromWire(const wire::CommitReply& in) {
  CommitReply out;
  out.held = in.held();
  out.unknown = in.unknown();
  return out;
}

wire::FailRequest ToWire(const FailRequest& in) {
  wire::FailRequest out;
  out.set_worker(in.worker.value());
  out.set_task(in.task.value());
  out.set_error(in.error);
  out.set_lease(in.lease);
  out.set_not_finite(in.not_finite);
  out.set_checkpoint(in.checkpoint);
  out.set_attempt(in.attempt);
  out.set_unfit(in.unfit);
  return out;
}

FailRequest FromWire(const wire::FailRequest& in) {
  FailRequest out;
  out.worker = WorkerId(in.worker());
  out.task = TaskId(in.task());
  out.error = in.error();
  out.lease = in.lease();
  out.not_finite = in.not_finite();
  out.checkpoint = in.checkpoint();
  out.attempt = in.attempt();
  out.unfit = in.unfit();
  return out;
}

}  // namespace rubato
