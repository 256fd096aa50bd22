#include "rubato/sim/sim_server.h"

#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"
#include "rubato/sim/world.h"

namespace rubato {
namespace {

constexpr absl::Duration kRetry = absl::Milliseconds(60);
constexpr absl::Duration kWrite = absl::Milliseconds(2);
constexpr int64_t kFileMilliseconds = 60;  // That a checkpoint without parameters takes at most.
constexpr absl::Duration kLoadPeriod = absl::Seconds(10);

std::vector<PartitionsHeld> HeldBy(const Shard& shard) {
  std::vector<PartitionsHeld> held;
  for (const History& history : shard.histories()) {
    held.push_back({history.partitions, history.applied.by_epoch()});
  }
  for (const History& history : shard.arrived_histories()) {
    held.push_back({history.partitions, history.applied.by_epoch()});
  }
  return held;
}

// Some partitions are far busier than others, which is for the master to even out.
std::vector<int64_t> LoadOf(const PartitionMap& map, int64_t server, uint64_t seed) {
  std::vector<int64_t> load(kPartitions);
  for (int64_t p = 0; p < kPartitions; ++p) {
    if (map.OwnerOf(p) != server) continue;
    const bool busy = p % 16 == 0 && p < kPartitions / 2;
    load[static_cast<size_t>(p)] = busy ? 5000 + static_cast<int64_t>(seed % 7) : 10;
  }
  return load;
}

}  // namespace

SimServer::SimServer(World& world, int64_t id, int64_t incarnation)
    : SimProcess(world.queue(), absl::StrCat("server-", id)),
      world_(world),
      id_(id),
      incarnation_(incarnation) {}

void SimServer::Start() {
  SimDisk& disk = world_.disk(id_);
  const WorldOptions& options = world_.options();
  if (options.bug == PlantedBug::kServerForgetsItsLog) {
    disk.log = disk.checkpoint;
    if (!disk.params.segments.empty()) disk.params.segments.rbegin()->second.records.clear();
  }
  applied_ = disk.log;
  cut_version_ = disk.version;
  if (disk.version > 0) cut_ = disk.cuts[disk.version];
  if (options.shards) {
    auto shard = SimShard::Recover(disk.params, id_, options.master.job.servers, incarnation_);
    if (!shard.ok()) return world_.Violate(absl::StrCat(name(), ": ", shard.status().message()));
    shard_ = *std::move(shard);
  }
  Register();
}

void SimServer::Register() {
  RegisterRequest request = {.role = Role::kServer,
                             .id = id_,
                             .incarnation = incarnation_,
                             .pid = 100 * (id_ + 1) + incarnation_,
                             .version = world_.options().master.version,
                             .address = absl::StrCat("sim:", id_, ":", incarnation_),
                             .applied = applied_,
                             .began_from = began_from_};
  if (shard_ != nullptr) {
    request.applied = shard_->shard().applied();
    request.held = HeldBy(shard_->shard());
  }
  world_.CallMaster<RegisterReply>(
      *this, [request](Master& master, absl::Time now) { return master.Register(request, now); },
      [this](const RegisterReply& reply) {
        if (serving_) return;
        if (reply.begin_from > 0) return BeginFrom(reply.begin_from);
        if (reply.wait) return;
        if (!reply.accepted) return world_.Exit(*this, Role::kServer, id_, incarnation_, 1, 0);
        serving_ = true;
        Adopt(reply.view);
        for (const auto& greet : std::exchange(greets_, {})) greet();
        Beat();
      });
  After(kRetry, [this] {
    if (!serving_) Register();
  });
}

// With all that it has since set aside. The file may turn out to be damaged, now or when it was
// told before: then from the one before.
void SimServer::BeginFrom(int64_t version) {
  if (began_from_ == version) return;  // It was told again.
  SimDisk& disk = world_.disk(id_);
  disk.cuts.erase(disk.cuts.upper_bound(version), disk.cuts.end());
  began_from_ = version;
  if (disk.cuts.contains(version)) {
    if (disk.cuts.size() > 1 && world_.DamagesFile(name(), version)) {
      disk.damaged.insert(version);
      disk.cuts.erase(version);
    }
  } else if (!disk.damaged.contains(version)) {
    return world_.Violate(absl::StrCat(name(), " has no ", version));
  }
  cut_version_ = 0;
  cut_ = SimDisk::Cut();
  if (!disk.cuts.empty()) std::tie(cut_version_, cut_) = *disk.cuts.rbegin();
  disk.version = cut_version_;
  disk.log = disk.checkpoint = applied_ = cut_.applied;
  world_.checker().Lost(id_, applied_);
}

void SimServer::Beat() {
  TellMaster();
  After(world_.options().master.job.elastic.heartbeat, [this] { Beat(); });
}

void SimServer::TellMaster() {
  ServerHeartbeat heartbeat = {.server = ServerId(id_),
                               .incarnation = incarnation_,
                               .view = view_.number,
                               .applied = applied_,
                               .pushes = pushes_,
                               .duplicates = duplicates_,
                               .fenced = fenced_,
                               .checkpointed = world_.disk(id_).version,
                               .cut = cut_version_,
                               .cut_rounds = cut_.rounds};
  if (shard_ != nullptr) {
    heartbeat.applied = shard_->shard().applied();
    heartbeat.cut = heartbeat.checkpointed;
    heartbeat.moved = shard_->source().ready();
    heartbeat.move_rows = shard_->source().rows_sent();
    heartbeat.uneven = shard_->shard().uneven();
    heartbeat.load = LoadOf(shard_->shard().map(), id_, world_.options().seed);
    heartbeat.load_period = kLoadPeriod;
  }
  world_.CallMaster<HeartbeatReply>(
      *this,
      [heartbeat](Master& master, absl::Time now) { return master.Heartbeat(heartbeat, now); },
      [this](const HeartbeatReply& reply) { Hear(reply); });
}

void SimServer::Hear(const HeartbeatReply& reply) {
  if (!reply.known) return;
  if (reply.directive == Directive::kLeave) return Leave();
  Adopt(reply.view);
  if (shard_ == nullptr) Whole(reply.rounds);
  if (reply.checkpoint_wanted <= world_.disk(id_).version) return;
  if (shard_ != nullptr) return Checkpoint(reply.checkpoint_wanted, reply.checkpoint_base);
  if (reply.checkpoint_wanted > cut_version_) CutAt(reply.checkpoint_wanted, reply.rounds);
}

// Weights of a round that lacks a batch here would be wrong, and nobody would ever know.
void SimServer::Whole(int64_t rounds) {
  if (rounds <= whole_) return;
  whole_ = rounds;
  world_.Violate(world_.checker().Whole(id_, rounds, applied_));
}

// At once; the file takes a while, and the server may not live to see it.
void SimServer::CutAt(int64_t version, int64_t rounds) {
  cut_version_ = version;
  cut_ = {.applied = applied_, .rounds = rounds};
  After(absl::Milliseconds(world_.rng().Below(kFileMilliseconds)), [this, version] {
    if (world_.DiesMidway(*this, id_, incarnation_)) return;
    SimDisk& disk = world_.disk(id_);
    disk.version = version;
    disk.checkpoint = cut_.applied;
    disk.cuts[version] = cut_;
  });
}

std::string SimServer::Doing() const {
  if (shard_ != nullptr) return shard_->Doing();
  return cut_version_ > world_.disk(id_).version ? "writing a checkpoint" : "";
}

void SimServer::Adopt(const View& view) {
  if (view.number > view_.number) view_ = view;
  if (shard_ == nullptr) return;
  const absl::Status status = shard_->Hear(view_.map, view_.move);
  if (!status.ok()) return world_.Violate(absl::StrCat(name(), ": ", status.message()));
  shard_->shard().SetView(view_.number, view_.workers);
  SetPeer();
  MoveChanged();
  Tidy();
}

void SimServer::Push(const SimPush& push, std::function<void(const SimPushReply&)> reply) {
  if (!serving_) return;
  if (shard_ == nullptr) return reply({.verdict = Apply(push)});
  if (shard_->source().frozen() &&
      world_.options().bug != PlantedBug::kServerPushesOnWhileItHandsOver) {
    held_.push_back([this, push, reply] { Push(push, reply); });
    return;
  }
  reply(PushToShard(push));
}

PushVerdict SimServer::Apply(const SimPush& push) {
  const PlantedBug bug = world_.options().bug;
  ++pushes_;
  if (bug != PlantedBug::kServerIgnoresFencing && !Admits(view_, push.worker, push.view)) {
    ++fenced_;
    return PushVerdict::kFenced;
  }
  Whole(push.rounds);
  IntervalSet& applied = applied_[push.batch.epoch];
  const bool known = applied.Covers(push.batch.begin, push.batch.end);
  if (known && bug != PlantedBug::kServerAppliesTwice) {
    ++duplicates_;
    return PushVerdict::kDuplicate;
  }
  const int64_t news = applied.Add(push.batch.begin, push.batch.end);
  if (!known && news != push.batch.end - push.batch.begin) {
    world_.Violate(absl::StrCat(name(), " was pushed a batch of which it had a part"));
  }
  world_.disk(id_).log = applied_;
  world_.Violate(world_.checker().Applied(id_, push.batch, push.worker));
  return PushVerdict::kApplied;
}

SimPushReply SimServer::PushToShard(const SimPush& push) {
  const auto outcome = shard_->shard().Push(*push.body, &shard_->log());
  ++pushes_;
  if (absl::IsAborted(outcome.status())) {
    return {.verdict = PushVerdict::kElsewhere, .map = shard_->shard().map()};
  }
  if (!outcome.ok()) {
    world_.Violate(absl::StrCat(name(), ": ", outcome.status().message()));
    return {.verdict = PushVerdict::kFenced};
  }
  switch (*outcome) {
    case PushOutcome::kApplied:
      world_.Violate(world_.checker().FromHolder(id_, push.batch, push.worker));
      return {.verdict = PushVerdict::kApplied};
    case PushOutcome::kDuplicate:
      ++duplicates_;
      return {.verdict = PushVerdict::kDuplicate};
    default:
      ++fenced_;
      return {.verdict = PushVerdict::kFenced};
  }
}

void SimServer::Checkpoint(int64_t version, int64_t base) {
  if (!shard_->writing() && shard_->Cut(version, base)) WriteOn();
}

void SimServer::WriteOn() {
  After(kWrite, [this] {
    if (world_.DiesMidway(*this, id_, incarnation_)) return;
    if (shard_->WriteOn()) return WriteOn();
    world_.disk(id_).version = shard_->Finish();
  });
}

void SimServer::Leave() { world_.Exit(*this, Role::kServer, id_, incarnation_, 0, 0); }

}  // namespace rubato
