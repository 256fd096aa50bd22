// How many servers there are, and how partitions come to be where they should: one move at a time,
// and none while a checkpoint is cut, whose files must hold every partition once.
#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "rubato/base/status.h"
#include "rubato/master/master.h"
#include "rubato/master/rebalance.h"
#include "rubato/params/log_replica.h"

namespace rubato {
namespace {

using State = Member::State;

// How often records are counted, and how long before a change of servers.
constexpr absl::Duration kRateSample = absl::Milliseconds(100);
constexpr absl::Duration kRateMemory = absl::Seconds(10);

}  // namespace

// Those that own something, or shall.
int64_t Master::ActiveServers() const {
  if (together()) return 0;
  const View& view = members_.view();
  int64_t servers = std::max(servers_target_, view.move.to + 1);
  for (int64_t p = 0; p < kPartitions; ++p) servers = std::max(servers, view.map.OwnerOf(p) + 1);
  return servers;
}

int64_t Master::KeeperOf(int64_t server) const {
  return options_.job.params.replicas == 0 ? -1 : FollowerOf(server, servers_target_);
}

bool Master::CopiesSettled() const {
  const int64_t active = ActiveServers();
  for (int64_t s = 0; s < active && options_.job.params.replicas > 0; ++s) {
    const ServerMember& server = members_.servers()[static_cast<size_t>(s)];
    if (server.state != State::kRunning || server.last.follower != KeeperOf(s)) return false;
  }
  return true;
}

absl::Status Master::ScaleServers(int64_t servers, absl::Time now) {
  if (together()) return absl::InvalidArgumentError("strategy allreduce has no servers");
  if (servers < 1 || servers > kPartitions) {
    return absl::InvalidArgumentError(
        absl::StrCat(servers, " servers: there can be 1 to ", kPartitions));
  }
  if (servers <= options_.job.params.replicas) {
    return absl::InvalidArgumentError(
        "one server: with params.replicas: 1 another must keep the copy of its log; 2 is the "
        "least");
  }
  if (servers == servers_target_) return absl::OkStatus();
  Say(now, "servers_scaling", {{"from", servers_target_}, {"to", servers}}, "rubato scale");
  Record({.kind = EntryKind::kServersScaled,
          .value = servers,
          .numbers = {static_cast<double>(absl::ToUnixMicros(now)), Rate(now)}},
         now);
  return absl::OkStatus();
}

absl::Status Master::ApplyToServers(const JournalEntry& entry) {
  if (entry.kind == EntryKind::kTakenBack) return ApplyTakenBack(entry);
  if (entry.kind == EntryKind::kWentBack) return ApplyWentBack(entry);
  if (entry.kind == EntryKind::kServersScaled) {
    if (entry.value < 1 || entry.value > kPartitions || entry.numbers.size() < 2) {
      return absl::FailedPreconditionError("a job cannot have so many servers");
    }
    scaling_ = {.from = servers_target_, .to = entry.value, .rate_before = entry.numbers[1]};
    scaling_began_ = absl::FromUnixMicros(static_cast<int64_t>(entry.numbers[0]));
    scaling_rate_ = SlowestSecond(scaling_began_, ledger_.records_committed());
    members_.GrowServers(entry.value);
    server_places_.resize(members_.servers().size());
    for (int64_t added = servers_target_; added < entry.value; ++added) {
      server_places_[static_cast<size_t>(added)].why = "asked by rubato scale";
    }
    servers_target_ = entry.value;
    return absl::OkStatus();
  }
  if (entry.kind == EntryKind::kServersSettled) {
    scaling_.seconds = static_cast<double>(entry.value) * 1e-6;
    if (!entry.numbers.empty()) scaling_.rate_lowest = entry.numbers[0];
    return absl::OkStatus();
  }
  if (entry.kind == EntryKind::kMoveBegan) {
    RUBATO_ASSIGN_OR_RETURN(const IntervalSet partitions, DecodePartitions(entry.text));
    const auto servers = static_cast<int64_t>(members_.servers().size());
    const IntervalSet owned = members_.view().map.PartitionsOf(entry.id);
    if (entry.incarnation < 0 || entry.incarnation >= servers || partitions.empty() ||
        partitions.Intersect(owned) != partitions) {
      return absl::FailedPreconditionError("a move of what the server does not have");
    }
    moves_ = entry.value;
    move_busy_ = entry.numbers.empty() ? 0 : entry.numbers[0];
    members_.SetMove({entry.value, entry.id, entry.incarnation, partitions});
    return absl::OkStatus();
  }
  const MoveOrder move = members_.view().move;
  if (move.number == 0 || move.number != entry.value) {
    return absl::FailedPreconditionError("the end of no move");
  }
  if (scaling_.seconds == 0) {
    ++scaling_.moves;
    scaling_.partitions += move.partitions.size();
  }
  members_.Moved();
  checkpoints_.Moved();
  moved_since_cut_ = true;
  return absl::OkStatus();
}

void Master::HearMove(const ServerHeartbeat& heartbeat, absl::Time now) {
  const MoveOrder& move = members_.view().move;
  if (move.number == 0 || heartbeat.server.value() != move.from || verdict_.has_value()) return;
  // Once a move: it is tried again, ever more rarely.
  if (!heartbeat.move_refused.empty() && heartbeat.view == members_.view().number &&
      std::exchange(move_refused_, move.number) != move.number) {
    Say(now, "move_refused",
        {{"move", move.number},
         {"from", move.from},
         {"to", move.to},
         {"partitions", move.partitions.size()}},
        heartbeat.move_refused);
  }
  if (heartbeat.moved != move.number) return;
  const Fields fields = {{"move", move.number},
                         {"from", move.from},
                         {"to", move.to},
                         {"partitions", move.partitions.size()},
                         {"rows", heartbeat.move_rows}};
  const std::string why = WhyMoved(move);
  Record({.kind = EntryKind::kMoved, .value = heartbeat.moved}, now);
  Say(now, "partitions_moved", fields, why);
}

std::string Master::WhyMoved(const MoveOrder& move) const {
  if (move_busy_ > 0) {
    return absl::StrFormat("server %d had %.2f times the mean load", move.from, move_busy_);
  }
  if (scaling_.to > 0 && scaling_.seconds == 0) {
    return absl::StrCat("the job shall have ", servers_target_, " servers");
  }
  return "in return for busier ones";
}

void Master::HearLoad(const ServerHeartbeat& heartbeat, absl::Time now) {
  if (heartbeat.load.empty() || !options_.job.params.rebalance) return;
  const PartitionMap& map = members_.view().map;
  for (int64_t s = 0; s < map.servers(); ++s) {
    // While one is away workers wait for it, and the others seem idle.
    if (map.Owns(s) && !ServerIsUp(s)) return loads_.Forget();
  }
  loads_.Add(map, heartbeat.server.value(), heartbeat.load, heartbeat.load_period);
  // Looked at also while a checkpoint is cut, for there may be one after the other: time counts,
  // and AdvanceServers begins the move in the moment between two.
  if (members_.view().move.number > 0 || now - busy_moved_ < options_.busy.cooldown) return;
  const auto next = NextBusyMove(map, servers_target_, loads_.known(), options_.busy);
  busy_since_ = next.has_value() ? std::min(busy_since_, now) : absl::InfiniteFuture();
}

void Master::BeginBusyMove(absl::Time now) {
  if (now - busy_since_ < options_.busy.patience) return;
  const PartitionMap& map = members_.view().map;
  const auto next = NextBusyMove(map, servers_target_, loads_.known(), options_.busy);
  if (next.has_value() && !BeginMove(next->order, next->times_mean, now)) return;
  busy_since_ = absl::InfiniteFuture();
  if (next.has_value()) busy_moved_ = now;
}

void Master::AdvanceServers(absl::Time now) {
  if (together()) return;
  SampleRate(now);
  if (!MayMove()) return;
  const auto next = NextMove(members_.view().map, servers_target_, loads_.known());
  if (next.has_value()) {
    BeginMove(*next, /*times_mean=*/0, now);
  } else {
    SettleServers(now);
    BeginBusyMove(now);
    CutWhatMoved(now);
  }
}

// What came by a move is in its receiver's log alone until a checkpoint is cut; with that log it
// would be gone, and a job that could go on from checkpoints could not. One that has none cannot
// anyway.
void Master::CutWhatMoved(absl::Time now) {
  if (!moved_since_cut_ || checkpoints_.complete() == 0) return;
  BeginCheckpoint(/*last=*/false, now, "partitions have moved since the last one");
}

bool Master::MayMove() const {
  // A model must have been declared: what moves has a shape then.
  const bool rests =
      verdict_.has_value() || stop_requested_ || ledger_.finished() || ledger_.steps() == 0;
  return members_.view().move.number == 0 && !checkpoints_.running() && going_back_to_ == 0 &&
         !rests;
}

bool Master::BeginMove(const MoveOrder& move, double times_mean, absl::Time now) {
  if (!ServerIsUp(move.from) || !ServerIsUp(move.to)) return false;
  JournalEntry entry = {.kind = EntryKind::kMoveBegan,
                        .id = move.from,
                        .incarnation = move.to,
                        .value = moves_ + 1,
                        .text = EncodePartitions(move.partitions)};
  if (times_mean > 0) entry.numbers = {times_mean};
  Record(entry, now);
  return true;
}

bool Master::ServerIsUp(int64_t server) const {
  return members_.servers()[static_cast<size_t>(server)].state == State::kRunning;
}

void Master::SettleServers(absl::Time now) {
  if (scaling_.to == 0 || scaling_.seconds > 0) return;
  const absl::Duration took = std::max(now - scaling_began_, absl::Microseconds(1));
  const double lowest = scaling_rate_.Rate(now, ledger_.records_committed());
  Record({.kind = EntryKind::kServersSettled,
          .value = absl::ToInt64Microseconds(took),
          .numbers = {lowest}},
         now);
  Say(now, "servers_scaled",
      {{"from", scaling_.from},
       {"to", scaling_.to},
       {"seconds", scaling_.seconds},
       {"moves", scaling_.moves},
       {"partitions", scaling_.partitions},
       {"records_per_second_before", scaling_.rate_before},
       {"records_per_second_lowest", scaling_.rate_lowest}},
      "every partition is where it shall be");
}

// ---- throughput, for those who ask what a change of servers cost ----

void Master::SampleRate(absl::Time now) {
  if (!rates_.empty() && now - rates_.back().first < kRateSample) return;
  rates_.emplace_back(now, ledger_.records_committed());
  while (now - rates_.front().first > kRateMemory) rates_.pop_front();
  const bool under_way = scaling_.to > 0 && scaling_.seconds == 0;
  if (under_way) scaling_rate_.Sample(now, ledger_.records_committed());
}

double Master::Rate(absl::Time now) const {
  if (rates_.empty() || now <= rates_.front().first) return 0;
  const double records = static_cast<double>(ledger_.records_committed() - rates_.front().second);
  return records / absl::ToDoubleSeconds(now - rates_.front().first);
}

}  // namespace rubato
