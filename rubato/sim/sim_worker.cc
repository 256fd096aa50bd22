#include "rubato/sim/sim_worker.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "rubato/sim/sim_model.h"
#include "rubato/sim/world.h"
#include "rubato/tasks/order.h"

namespace rubato {
namespace {

constexpr absl::Duration kLook = absl::Milliseconds(15);
constexpr absl::Duration kRetry = absl::Milliseconds(60);
constexpr int kExitFenced = 4;

}  // namespace

SimWorker::SimWorker(World& world, WorkerId id)
    : SimProcess(world.queue(), id.ToString()),
      world_(world),
      id_(id),
      window_(1 + static_cast<int64_t>(world.rng().Below(3))),
      ahead_(world.rng().Chance(0.5)) {}

void SimWorker::Start() {
  Register();
  Work();
  After(kRetry, [this] { Beat(); });
}

void SimWorker::Exit(int code) { world_.Exit(*this, Role::kWorker, id_.value(), 1, code, 0); }

void SimWorker::Register() {
  const RegisterRequest request = {.role = Role::kWorker,
                                   .id = id_.value(),
                                   .pid = 1000 + id_.value(),
                                   .version = world_.options().master.version};
  world_.CallMaster<RegisterReply>(
      *this, [request](Master& master, absl::Time now) { return master.Register(request, now); },
      [this](const RegisterReply& reply) {
        if (!reply.accepted) return Exit(kExitFenced);
        registered_ = true;
        Adopt(reply.view);
      });
  After(kRetry, [this] {
    if (!registered_) Register();
  });
}

void SimWorker::Beat() {
  const WorkerHeartbeat heartbeat = {.worker = id_, .view = view_.number};
  world_.CallMaster<HeartbeatReply>(
      *this,
      [heartbeat](Master& master, absl::Time now) { return master.Heartbeat(heartbeat, now); },
      [this](const HeartbeatReply& reply) {
        if (!reply.known) return Register();
        Adopt(reply.view);
        if (reply.directive == Directive::kLeave) Leave();
      });
  After(world_.options().master.job.elastic.heartbeat, [this] { Beat(); });
}

void SimWorker::Adopt(const View& view) {
  if (view.number > view_.number) view_ = view;
  if (view.map.number() < map_.number()) return;
  map_ = view.map;
  // One that owns nothing any more may have left, and will not answer.
  for (InHand& hand : hands_) {
    for (auto& [begin, unanswered] : hand.waiting) {
      const auto left = [&](int64_t s) { return !map_.Owns(s); };
      const std::set<int64_t>& servers = unanswered.servers;
      if (std::none_of(servers.begin(), servers.end(), left)) continue;
      Split(BatchOf(hand.task, begin), &unanswered);
    }
  }
}

void SimWorker::Leave() { leaving_ = true; }
void SimWorker::Stumble() { stumbling_ = true; }

SimWorker::InHand* SimWorker::Find(TaskId task) {
  for (InHand& hand : hands_) {
    if (hand.task.id == task) return &hand;
  }
  return nullptr;
}

void SimWorker::Work() {
  if (leaving_) {
    GoHome();
  } else if (registered_) {
    if (hands_.empty() || (ahead_ && hands_.size() == 1)) Lease();
    if (!hands_.empty()) Compute();
  }
  for (const InHand& hand : hands_) {
    const bool news = hand.task.kind == TaskKind::kTrain ? hand.acked > hand.told : hand.evaluated;
    if (news && !leaving_) Commit(hand, /*release=*/false);
    for (const auto& [begin, unanswered] : hand.waiting) {
      // Asked again until answered, now and then: a server may have come back meanwhile.
      if (world_.rng().Chance(0.3)) After(kLook, [this, begin = begin] { PushBatch(begin); });
    }
  }
  After(kLook, [this] { Work(); });
}

void SimWorker::Lease() {
  if (lease_asked_ > lease_answered_ && !world_.rng().Chance(0.2)) return;  // Patience.
  LeaseRequest request = {.worker = id_};
  for (const InHand& hand : hands_) request.holding.push_back(hand.task.id);
  const int64_t asked = ++lease_asked_;
  world_.CallMaster<LeaseReply>(
      *this, [request](Master& master, absl::Time now) { return master.Lease(request, now); },
      [this, asked](const LeaseReply& reply) {
        if (asked != lease_asked_ || asked == lease_answered_) return;  // An answer of the past.
        lease_answered_ = asked;
        if (reply.verdict == LeaseReply::Verdict::kUnknown) return Register();
        if (reply.verdict != LeaseReply::Verdict::kTask || leaving_) return;
        if (Find(reply.task.id) != nullptr) return;
        const int64_t from = reply.task.committed;
        hands_.push_back({.task = reply.task, .next = from, .acked = from, .told = from});
      });
}

void SimWorker::Compute() {
  InHand& hand = hands_.front();
  if (stumbling_ && hand.waiting.empty() && !hand.computing) {
    stumbling_ = false;
    hand.failed = true;
  }
  if (hand.failed) return Fail(hand.task);
  const bool evaluate = hand.task.kind == TaskKind::kEvaluate;
  const bool room = static_cast<int64_t>(hand.waiting.size()) < window_;
  if (hand.computing || stumbling_ ||
      (evaluate ? hand.evaluated : !room || hand.next >= hand.task.end))
    return;
  hand.computing = true;
  After(absl::Milliseconds(world_.rng().Uniform(2, 30)), [this, task = hand.task.id] {
    InHand* hand = Find(task);
    if (hand == nullptr) return;
    hand->computing = false;
    if (hand->task.kind == TaskKind::kEvaluate) {
      hand->evaluated = true;
      return;
    }
    const int64_t begin = hand->next;
    hand->next = BatchAt(hand->task, begin, world_.options().master.job.batch_size).end;
    Split(BatchOf(hand->task, begin), &hand->waiting[begin]);
    PushBatch(begin);
  });
}

void SimWorker::Fail(const Task& task) {
  const FailRequest request = {
      .worker = id_, .task = task.id, .lease = task.lease, .error = "train.tsv:7: no row"};
  world_.CallMaster<bool>(
      *this,
      [request](Master& master, absl::Time now) {
        master.Fail(request, now);
        return true;
      },
      [this, request](bool) { Drop(request.task, request.lease); });
}

void SimWorker::Drop(TaskId task, int64_t lease) {
  std::erase_if(
      hands_, [&](const InHand& hand) { return hand.task.id == task && hand.task.lease == lease; });
}

void SimWorker::PushBatch(int64_t begin) {
  if (hands_.empty()) return;
  // Only the first task has batches on their way.
  const InHand& hand = hands_.front();
  const auto it = hand.waiting.find(begin);
  if (it == hand.waiting.end()) return;
  SimPush push = {.worker = id_,
                  .view = view_.number,
                  .lease = hand.task.lease,
                  .rounds = hand.task.rounds,
                  .batch = BatchOf(hand.task, begin),
                  .map = it->second.map.number()};
  for (const int64_t s : it->second.servers) {
    if (!it->second.bodies.empty()) push.body = it->second.bodies[static_cast<size_t>(s)];
    PushTo(s, push);
  }
}

BatchKey SimWorker::BatchOf(const Task& task, int64_t begin) const {
  const Interval batch = BatchAt(task, begin, world_.options().master.job.batch_size);
  return {.epoch = task.epoch, .task = task.id.value(), .begin = batch.begin, .end = batch.end};
}

void SimWorker::Split(const BatchKey& batch, Unanswered* out) const {
  *out = {.map = map_};
  for (int64_t s = 0; s < map_.servers(); ++s) {
    if (map_.Owns(s)) out->servers.insert(s);
  }
  if (world_.options().shards) {
    out->bodies = SimGradients(batch).Split(id_, view_.number, map_);
  }
}

void SimWorker::PushTo(int64_t s, const SimPush& push) {
  if (s >= static_cast<int64_t>(view_.servers.size())) return;
  const ServerPlace& place = view_.servers[static_cast<size_t>(s)];
  if (place.address.empty()) return;
  const auto arrive = [this, s, push, life = place.incarnation] {
    SimServer* server = world_.FindServer(s, life);
    if (server == nullptr) return;
    server->Run([this, s, push, server] {
      server->Push(push, [this, s, push, server](const SimPushReply& reply) {
        world_.network().Send(server->name(), name(), [this, s, push, reply] {
          Run([this, s, push, reply] { Answer(push, s, reply); });
        });
      });
    });
  };
  world_.network().Send(name(), absl::StrCat("server-", s), arrive);
}

void SimWorker::Answer(const SimPush& push, int64_t server, const SimPushReply& reply) {
  if (reply.verdict == PushVerdict::kFenced) return Exit(kExitFenced);
  InHand* hand = Find(TaskId(push.batch.task));
  if (hand == nullptr || hand->task.lease != push.lease) return;
  const auto it = hand->waiting.find(push.batch.begin);
  if (it == hand->waiting.end() || it->second.map.number() != push.map) return;
  if (reply.verdict == PushVerdict::kElsewhere) {
    if (reply.map.number() > map_.number()) map_ = reply.map;
    if (map_.number() > push.map) Split(push.batch, &it->second);
    return;  // It is sent again in a while, as whatever is not answered.
  }
  it->second.servers.erase(server);
  if (world_.options().bug == PlantedBug::kWorkerCommitsTooEarly) it->second.servers.clear();
  if (it->second.servers.empty()) {
    world_.checker().Acknowledged(push.batch);
    hand->waiting.erase(it);
  }
  hand->acked = hand->waiting.empty() ? hand->next : hand->waiting.begin()->first;
}

void SimWorker::Commit(const InHand& hand, bool release) {
  CommitRequest request = {.worker = id_,
                           .task = hand.task.id,
                           .lease = hand.task.lease,
                           .upto = hand.acked,
                           .release = release};
  if (world_.options().bug == PlantedBug::kWorkerForgetsItsLease) request.lease = 0;
  if (hand.evaluated) {
    request.upto = hand.task.end;
    // Good or bad as it comes, so that some evaluations are the best so far.
    request.sums = EvaluationSums{.records = hand.task.end - hand.task.begin,
                                  .loss_sum = static_cast<double>(world_.rng().Below(1000))};
  }
  world_.CallMaster<CommitReply>(
      *this, [request](Master& master, absl::Time now) { return master.Commit(request, now); },
      [this, request, lease = hand.task.lease](const CommitReply& reply) {
        if (reply.unknown) return Register();
        InHand* hand = Find(request.task);
        if (hand == nullptr || hand->task.lease != lease) return;
        hand->told = std::max(hand->told, request.upto);
        const bool over = !reply.held || hand->told == hand->task.end || request.release;
        if (!over) return;
        Drop(request.task, lease);
      });
}

void SimWorker::GoHome() {
  if (hands_.empty()) return Exit(0);
  if (!world_.rng().Chance(0.3)) return;  // Patience with the answers to the last time.
  for (const InHand& hand : hands_) {
    if (hand.waiting.empty() && !hand.computing) Commit(hand, /*release=*/true);
  }
}

}  // namespace rubato
