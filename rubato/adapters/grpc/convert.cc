#include "rubato/adapters/grpc/convert.h"

namespace rubato {
namespace {

void AppliedToWire(const std::map<int64_t, IntervalSet>& in,
                   google::protobuf::Map<int64_t, wire::IntervalSet>& out) {
  for (const auto& [epoch, set] : in) {
    for (const Interval& interval : set.Intervals()) {
      wire::Interval* added = out[epoch].add_intervals();
      added->set_begin(interval.begin);
      added->set_end(interval.end);
    }
  }
}

std::map<int64_t, IntervalSet> AppliedFromWire(
    const google::protobuf::Map<int64_t, wire::IntervalSet>& in) {
  std::map<int64_t, IntervalSet> out;
  for (const auto& [epoch, set] : in) {
    for (const wire::Interval& interval : set.intervals()) {
      out[epoch].Add(interval.begin(), interval.end());
    }
  }
  return out;
}

wire::TimeSpent ToWire(const TimeSpent& in) {
  wire::TimeSpent out;
  out.set_useful(in.useful);
  out.set_read(in.read);
  out.set_wait(in.wait);
  out.set_detect(in.detect);
  out.set_rebuild(in.rebuild);
  out.set_redo(in.redo);
  out.set_checkpoint(in.checkpoint);
  out.set_other(in.other);
  return out;
}

TimeSpent FromWire(const wire::TimeSpent& in) {
  TimeSpent out;
  out.useful = in.useful();
  out.read = in.read();
  out.wait = in.wait();
  out.detect = in.detect();
  out.rebuild = in.rebuild();
  out.redo = in.redo();
  out.checkpoint = in.checkpoint();
  out.other = in.other();
  return out;
}

wire::ServerPlace ToWire(const ServerPlace& in) {
  wire::ServerPlace out;
  out.set_id(in.id.value());
  out.set_incarnation(in.incarnation);
  out.set_address(in.address);
  return out;
}

ServerPlace FromWire(const wire::ServerPlace& in) {
  ServerPlace out;
  out.id = ServerId(in.id());
  out.incarnation = in.incarnation();
  out.address = in.address();
  return out;
}

wire::ExitNotice ToWire(const ExitNotice& in) {
  wire::ExitNotice out;
  out.set_role(static_cast<int32_t>(in.role));
  out.set_id(in.id);
  out.set_incarnation(in.incarnation);
  out.set_exit_code(in.exit_code);
  out.set_signal(in.signal);
  out.set_last_words(in.last_words);
  out.set_pid(in.pid);
  out.set_host(in.host);
  return out;
}

ExitNotice FromWire(const wire::ExitNotice& in) {
  ExitNotice out;
  out.role = static_cast<Role>(in.role());
  out.id = in.id();
  out.incarnation = in.incarnation();
  out.exit_code = in.exit_code();
  out.signal = in.signal();
  out.last_words = in.last_words();
  out.pid = in.pid();
  out.host = in.host();
  return out;
}

wire::ProcessKey ToWire(const ProcessKey& in) {
  wire::ProcessKey out;
  out.set_role(static_cast<int32_t>(in.role));
  out.set_id(in.id);
  out.set_incarnation(in.incarnation);
  return out;
}

ProcessKey FromWire(const wire::ProcessKey& in) {
  ProcessKey out;
  out.role = static_cast<Role>(in.role());
  out.id = in.id();
  out.incarnation = in.incarnation();
  return out;
}

wire::Order ToWire(const Order& in) {
  wire::Order out;
  out.set_number(in.number);
  out.set_kind(static_cast<int32_t>(in.kind));
  *out.mutable_process() = ToWire(in.process);
  return out;
}

Order FromWire(const wire::Order& in) {
  Order out;
  out.number = in.number();
  out.kind = static_cast<OrderKind>(in.kind());
  out.process = FromWire(in.process());
  return out;
}

wire::ProcessStatus ToWire(const ProcessStatus& in) {
  wire::ProcessStatus out;
  out.set_role(static_cast<int32_t>(in.role));
  out.set_id(in.id);
  out.set_incarnation(in.incarnation);
  out.set_pid(in.pid);
  out.set_address(in.address);
  out.set_state(in.state);
  out.set_lagging(in.lagging);
  out.set_doing(in.doing);
  return out;
}

ProcessStatus FromWire(const wire::ProcessStatus& in) {
  ProcessStatus out;
  out.role = static_cast<Role>(in.role());
  out.id = in.id();
  out.incarnation = in.incarnation();
  out.pid = in.pid();
  out.address = in.address();
  out.state = in.state();
  out.lagging = in.lagging();
  out.doing = in.doing();
  return out;
}

wire::EvaluationResult ToWire(const EvaluationResult& in) {
  wire::EvaluationResult out;
  out.set_number(in.number);
  out.set_step(in.step);
  out.set_records(in.records);
  out.mutable_metrics()->insert(in.metrics.begin(), in.metrics.end());
  return out;
}

EvaluationResult FromWire(const wire::EvaluationResult& in) {
  EvaluationResult out;
  out.number = in.number();
  out.step = in.step();
  out.records = in.records();
  out.metrics = {in.metrics().begin(), in.metrics().end()};
  return out;
}

}  // namespace

wire::View ToWire(const View& in) {
  wire::View out;
  out.set_number(in.number);
  for (WorkerId worker : in.workers) out.add_workers(worker.value());
  for (const ServerPlace& server : in.servers) *out.add_servers() = ToWire(server);
  out.set_map(in.map.Encode());
  out.mutable_move()->set_number(in.move.number);
  out.mutable_move()->set_from(in.move.from);
  out.mutable_move()->set_to(in.move.to);
  out.mutable_move()->set_partitions(EncodePartitions(in.move.partitions));
  return out;
}

View FromWire(const wire::View& in) {
  View out;
  out.number = in.number();
  for (int64_t worker : in.workers()) out.workers.push_back(WorkerId(worker));
  for (const wire::ServerPlace& server : in.servers()) out.servers.push_back(FromWire(server));
  // Without servers there is none.
  if (absl::StatusOr<PartitionMap> map = PartitionMap::Decode(in.map()); map.ok()) {
    out.map = *std::move(map);
  }
  if (auto partitions = DecodePartitions(in.move().partitions()); partitions.ok()) {
    out.move = {in.move().number(), in.move().from(), in.move().to(), *std::move(partitions)};
  }
  return out;
}

wire::RegisterReply ToWire(const RegisterReply& in) {
  wire::RegisterReply out;
  out.set_accepted(in.accepted);
  out.set_reason(in.reason);
  *out.mutable_view() = ToWire(in.view);
  out.set_follower(in.follower);
  out.set_begin_from(in.begin_from);
  out.set_wait(in.wait);
  return out;
}

RegisterReply FromWire(const wire::RegisterReply& in) {
  RegisterReply out;
  out.accepted = in.accepted();
  out.reason = in.reason();
  out.view = FromWire(in.view());
  out.follower = in.follower();
  out.begin_from = in.begin_from();
  out.wait = in.wait();
  return out;
}

wire::HeartbeatReply ToWire(const HeartbeatReply& in) {
  wire::HeartbeatReply out;
  out.set_known(in.known);
  out.set_directive(static_cast<int32_t>(in.directive));
  *out.mutable_view() = ToWire(in.view);
  out.set_checkpoint_wanted(in.checkpoint_wanted);
  out.set_checkpoint_oldest(in.checkpoint_oldest);
  out.set_checkpoint_base(in.checkpoint_base);
  out.set_rounds(in.rounds);
  out.set_follower(in.follower);
  if (in.group.has_value()) *out.mutable_group() = ToWire(*in.group);
  return out;
}

HeartbeatReply FromWire(const wire::HeartbeatReply& in) {
  HeartbeatReply out;
  out.known = in.known();
  out.directive = static_cast<Directive>(in.directive());
  out.view = FromWire(in.view());
  out.checkpoint_wanted = in.checkpoint_wanted();
  out.checkpoint_oldest = in.checkpoint_oldest();
  out.checkpoint_base = in.checkpoint_base();
  out.rounds = in.rounds();
  out.follower = in.follower();
  if (in.has_group()) out.group = FromWire(in.group());
  return out;
}

wire::WorkerHeartbeat ToWire(const WorkerHeartbeat& in) {
  wire::WorkerHeartbeat out;
  out.set_worker(in.worker.value());
  out.set_view(in.view);
  out.set_loss(in.loss);
  out.set_loss_batches(in.loss_batches);
  *out.mutable_spent() = ToWire(in.spent);
  if (in.group.has_value()) *out.mutable_group() = ToWire(*in.group);
  if (in.away.has_value()) {
    out.mutable_away()->set_data(in.away->data);
    out.mutable_away()->set_place(in.away->place);
    out.mutable_away()->set_why(in.away->why);
    out.mutable_away()->set_waited_us(absl::ToInt64Microseconds(in.away->waited));
  }
  return out;
}

WorkerHeartbeat FromWire(const wire::WorkerHeartbeat& in) {
  WorkerHeartbeat out;
  out.worker = WorkerId(in.worker());
  out.view = in.view();
  out.loss = in.loss();
  out.loss_batches = in.loss_batches();
  out.spent = FromWire(in.spent());
  if (in.has_group()) out.group = FromWire(in.group());
  if (in.has_away()) {
    out.away = {.data = in.away().data(),
                .place = in.away().place(),
                .why = in.away().why(),
                .waited = absl::Microseconds(in.away().waited_us())};
  }
  return out;
}

wire::ServerHeartbeat ToWire(const ServerHeartbeat& in) {
  wire::ServerHeartbeat out;
  out.set_server(in.server.value());
  out.set_incarnation(in.incarnation);
  out.set_view(in.view);
  AppliedToWire(in.applied, *out.mutable_applied());
  out.set_rows(in.rows);
  out.set_bytes(in.bytes);
  out.set_pushes(in.pushes);
  out.set_duplicates(in.duplicates);
  out.set_fenced(in.fenced);
  out.set_checkpointed(in.checkpointed);
  out.set_log_bytes(in.log_bytes);
  out.set_cut(in.cut);
  out.set_cut_rounds(in.cut_rounds);
  out.set_moved(in.moved);
  out.set_move_rows(in.move_rows);
  out.set_move_refused(in.move_refused);
  out.set_uneven(in.uneven);
  out.set_follower(in.follower);
  *out.mutable_load() = {in.load.begin(), in.load.end()};
  out.set_load_us(absl::ToInt64Microseconds(in.load_period));
  out.set_recovered(in.recovered);
  out.set_to_recover(in.to_recover);
  return out;
}

ServerHeartbeat FromWire(const wire::ServerHeartbeat& in) {
  ServerHeartbeat out;
  out.server = ServerId(in.server());
  out.incarnation = in.incarnation();
  out.view = in.view();
  out.applied = AppliedFromWire(in.applied());
  out.rows = in.rows();
  out.bytes = in.bytes();
  out.pushes = in.pushes();
  out.duplicates = in.duplicates();
  out.fenced = in.fenced();
  out.checkpointed = in.checkpointed();
  out.log_bytes = in.log_bytes();
  out.cut = in.cut();
  out.cut_rounds = in.cut_rounds();
  out.moved = in.moved();
  out.move_rows = in.move_rows();
  out.move_refused = in.move_refused();
  out.uneven = in.uneven();
  out.follower = in.follower();
  out.load = {in.load().begin(), in.load().end()};
  out.load_period = absl::Microseconds(in.load_us());
  out.recovered = in.recovered();
  out.to_recover = in.to_recover();
  return out;
}

wire::RegisterRequest ToWire(const RegisterRequest& in) {
  wire::RegisterRequest out;
  out.set_role(static_cast<int32_t>(in.role));
  out.set_id(in.id);
  out.set_incarnation(in.incarnation);
  out.set_pid(in.pid);
  out.set_version(in.version);
  out.set_address(in.address);
  AppliedToWire(in.applied, *out.mutable_applied());
  for (const PartitionsHeld& held : in.held) {
    wire::PartitionsHeld& part = *out.add_held();
    part.set_partitions(EncodePartitions(held.partitions));
    AppliedToWire(held.applied, *part.mutable_applied());
  }
  out.set_damage(in.damage);
  out.set_blank(in.blank);
  out.set_began_from(in.began_from);
  return out;
}

RegisterRequest FromWire(const wire::RegisterRequest& in) {
  RegisterRequest out;
  out.role = static_cast<Role>(in.role());
  out.id = in.id();
  out.incarnation = in.incarnation();
  out.pid = in.pid();
  out.version = in.version();
  out.address = in.address();
  out.applied = AppliedFromWire(in.applied());
  for (const wire::PartitionsHeld& held : in.held()) {
    if (auto partitions = DecodePartitions(held.partitions()); partitions.ok()) {
      out.held.push_back({*std::move(partitions), AppliedFromWire(held.applied())});
    }
  }
  out.damage = in.damage();
  out.blank = in.blank();
  out.began_from = in.began_from();
  return out;
}

wire::AttendRequest ToWire(const AttendRequest& in) {
  wire::AttendRequest out;
  for (const auto& item : in.exits) *out.add_exits() = ToWire(item);
  out.set_wait_ms(in.wait_ms);
  out.set_orders_done(in.orders_done);
  return out;
}

AttendRequest FromWire(const wire::AttendRequest& in) {
  AttendRequest out;
  for (const auto& item : in.exits()) out.exits.push_back(FromWire(item));
  out.wait_ms = in.wait_ms();
  out.orders_done = in.orders_done();
  return out;
}

wire::AttendReply ToWire(const AttendReply& in) {
  wire::AttendReply out;
  for (const auto& item : in.orders) *out.add_orders() = ToWire(item);
  *out.mutable_snapshot() = ToWire(in.snapshot);
  out.set_finished(in.finished);
  return out;
}

AttendReply FromWire(const wire::AttendReply& in) {
  AttendReply out;
  for (const auto& item : in.orders()) out.orders.push_back(FromWire(item));
  out.snapshot = FromWire(in.snapshot());
  out.finished = in.finished();
  return out;
}

wire::Snapshot ToWire(const Snapshot& in) {
  wire::Snapshot out;
  out.set_state(static_cast<int32_t>(in.state));
  out.set_error(in.error);
  out.set_view(in.view);
  out.set_epoch(in.epoch);
  out.set_steps(in.steps);
  out.set_records_committed(in.records_committed);
  out.set_records_expected(in.records_expected);
  out.set_records_repeated(in.records_repeated);
  out.set_records_recomputed(in.records_recomputed);
  out.set_records_taken_back(in.records_taken_back);
  out.set_reports_unreadable(in.reports_unreadable);
  out.set_workers_target(in.workers_target);
  out.set_workers_started(in.workers_started);
  out.set_workers_lost(in.workers_lost);
  out.set_workers_joined(in.workers_joined);
  out.set_workers_max(in.workers_max);
  out.set_workers_alive(in.workers_alive);
  out.set_servers_started(in.servers_started);
  out.set_servers_lost(in.servers_lost);
  out.set_servers_alive(in.servers_alive);
  out.set_servers_target(in.servers_target);
  wire::ServersScaled& scaled = *out.mutable_servers_scaled();
  scaled.set_from(in.servers_scaled.from);
  scaled.set_to(in.servers_scaled.to);
  scaled.set_seconds(in.servers_scaled.seconds);
  scaled.set_moves(in.servers_scaled.moves);
  scaled.set_partitions(in.servers_scaled.partitions);
  scaled.set_rate_before(in.servers_scaled.rate_before);
  scaled.set_rate_lowest(in.servers_scaled.rate_lowest);
  out.set_master_restarts(in.master_restarts);
  out.set_fenced_pushes(in.fenced_pushes);
  out.set_bad_rows(in.bad_rows);
  out.set_rows(in.rows);
  out.set_bytes(in.bytes);
  out.set_checkpoint(in.checkpoint);
  out.set_best_checkpoint(in.best_checkpoint);
  out.set_best_evaluation(in.best_evaluation);
  out.set_loss(in.loss);
  out.set_loss_known(in.loss_known);
  out.set_bad_input(in.bad_input);
  out.set_run_began_us(absl::ToUnixMicros(in.run_began));
  out.set_records_before(in.records_before);
  *out.mutable_spent() = ToWire(in.spent);
  for (const auto& item : in.evaluations) *out.add_evaluations() = ToWire(item);
  for (const auto& item : in.processes) *out.add_processes() = ToWire(item);
  return out;
}

Snapshot FromWire(const wire::Snapshot& in) {
  Snapshot out;
  out.state = static_cast<JobState>(in.state());
  out.error = in.error();
  out.view = in.view();
  out.epoch = in.epoch();
  out.steps = in.steps();
  out.records_committed = in.records_committed();
  out.records_expected = in.records_expected();
  out.records_repeated = in.records_repeated();
  out.records_recomputed = in.records_recomputed();
  out.records_taken_back = in.records_taken_back();
  out.reports_unreadable = in.reports_unreadable();
  out.workers_target = in.workers_target();
  out.workers_started = in.workers_started();
  out.workers_lost = in.workers_lost();
  out.workers_joined = in.workers_joined();
  out.workers_max = in.workers_max();
  out.workers_alive = in.workers_alive();
  out.servers_started = in.servers_started();
  out.servers_lost = in.servers_lost();
  out.servers_alive = in.servers_alive();
  out.servers_target = in.servers_target();
  out.servers_scaled = {.from = in.servers_scaled().from(),
                        .to = in.servers_scaled().to(),
                        .seconds = in.servers_scaled().seconds(),
                        .moves = in.servers_scaled().moves(),
                        .partitions = in.servers_scaled().partitions(),
                        .rate_before = in.servers_scaled().rate_before(),
                        .rate_lowest = in.servers_scaled().rate_lowest()};
  out.master_restarts = in.master_restarts();
  out.fenced_pushes = in.fenced_pushes();
  out.bad_rows = in.bad_rows();
  out.rows = in.rows();
  out.bytes = in.bytes();
  out.checkpoint = in.checkpoint();
  out.best_checkpoint = in.best_checkpoint();
  out.best_evaluation = in.best_evaluation();
  out.loss = in.loss();
  out.loss_known = in.loss_known();
  out.bad_input = in.bad_input();
  out.run_began = absl::FromUnixMicros(in.run_began_us());
  out.records_before = in.records_before();
  out.spent = FromWire(in.spent());
  for (const auto& item : in.evaluations()) out.evaluations.push_back(FromWire(item));
  for (const auto& item : in.processes()) out.processes.push_back(FromWire(item));
  return out;
}

}  // namespace rubato
