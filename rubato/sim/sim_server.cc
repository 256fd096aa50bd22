#include "rubato/sim/sim_server.h"

#include "absl/strings/str_cat.h"
#include "rubato/sim/world.h"

namespace rubato {
namespace {

constexpr absl::Duration kRetry = absl::Milliseconds(60);

}  // namespace

SimServer::SimServer(World& world, int64_t id, int64_t incarnation)
    : SimProcess(world.queue(), absl::StrCat("server-", id)),
      world_(world),
      id_(id),
      incarnation_(incarnation) {}

void SimServer::Start() {
  SimDisk& disk = world_.disk(id_);
  if (world_.options().bug == PlantedBug::kServerForgetsItsLog) disk.log = disk.checkpoint;
  applied_ = disk.log;
  Register();
}

void SimServer::Register() {
  const RegisterRequest request = {.role = Role::kServer,
                                   .id = id_,
                                   .incarnation = incarnation_,
                                   .pid = 100 * (id_ + 1) + incarnation_,
                                   .version = world_.options().master.version,
                                   .address = absl::StrCat("sim:", id_, ":", incarnation_),
                                   .applied = applied_};
  world_.CallMaster<RegisterReply>(
      *this, [request](Master& master, absl::Time now) { return master.Register(request, now); },
      [this](const RegisterReply& reply) {
        if (serving_) return;
        if (!reply.accepted) return world_.Exit(*this, Role::kServer, id_, incarnation_, 1, 0);
        serving_ = true;
        Adopt(reply.view);
        Beat();
      });
  After(kRetry, [this] {
    if (!serving_) Register();
  });
}

void SimServer::Beat() {
  ServerHeartbeat heartbeat = {.server = ServerId(id_),
                               .incarnation = incarnation_,
                               .view = view_.number,
                               .applied = applied_,
                               .pushes = pushes_,
                               .duplicates = duplicates_,
                               .fenced = fenced_,
                               .checkpointed = world_.disk(id_).version};
  world_.CallMaster<HeartbeatReply>(
      *this,
      [heartbeat](Master& master, absl::Time now) { return master.Heartbeat(heartbeat, now); },
      [this](const HeartbeatReply& reply) {
        if (!reply.known) return;
        if (reply.directive == Directive::kLeave) return Leave();
        Adopt(reply.view);
        SimDisk& disk = world_.disk(id_);
        if (reply.checkpoint_wanted > disk.version) {
          disk.version = reply.checkpoint_wanted;
          disk.checkpoint = applied_;
        }
      });
  After(world_.options().master.job.elastic.heartbeat, [this] { Beat(); });
}

void SimServer::Adopt(const View& view) {
  if (view.number > view_.number) view_ = view;
}

void SimServer::Push(const SimPush& push, std::function<void(PushVerdict)> reply) {
  if (serving_) reply(Apply(push));
}

PushVerdict SimServer::Apply(const SimPush& push) {
  const PlantedBug bug = world_.options().bug;
  ++pushes_;
  if (bug != PlantedBug::kServerIgnoresFencing && !Admits(view_, push.worker, push.view)) {
    ++fenced_;
    return PushVerdict::kFenced;
  }
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

void SimServer::Leave() { world_.Exit(*this, Role::kServer, id_, incarnation_, 0, 0); }

}  // namespace rubato
