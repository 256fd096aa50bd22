#include "rubato/sim/sim_worker.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
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
        if (reply.view.number > view_.number) view_ = reply.view;
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
        if (reply.view.number > view_.number) view_ = reply.view;
        if (reply.directive == Directive::kLeave) Leave();
      });
  After(world_.options().master.job.elastic.heartbeat, [this] { Beat(); });
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
    for (const auto& [begin, servers] : hand.waiting) {
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
    for (int64_t s = 0; s < world_.options().master.job.servers; ++s) {
      hand->waiting[begin].insert(s);
    }
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
  const Interval batch = BatchAt(hand.task, begin, world_.options().master.job.batch_size);
  const SimPush push = {.worker = id_,
                        .view = view_.number,
                        .batch = {.epoch = hand.task.epoch,
                                  .task = hand.task.id.value(),
                                  .begin = batch.begin,
                                  .end = batch.end}};
  for (const int64_t s : it->second) {
    const ServerPlace& place = view_.servers[static_cast<size_t>(s)];
    if (place.address.empty()) continue;
    world_.network().Send(
        name(), absl::StrCat("server-", s), [this, s, push, life = place.incarnation] {
          SimServer* server = world_.FindServer(s, life);
          if (server == nullptr) return;
          server->Run([this, s, push, server] {
            server->Push(push, [this, s, push, server](PushVerdict verdict) {
              world_.network().Send(server->name(), name(), [this, s, push, verdict] {
                Run([this, s, push, verdict] {
                  Answer(TaskId(push.batch.task), push.batch.begin, s, verdict);
                });
              });
            });
          });
        });
  }
}

void SimWorker::Answer(TaskId task, int64_t begin, int64_t server, PushVerdict verdict) {
  if (verdict == PushVerdict::kFenced) return Exit(kExitFenced);
  InHand* hand = Find(task);
  if (hand == nullptr) return;
  const auto it = hand->waiting.find(begin);
  if (it == hand->waiting.end()) return;
  it->second.erase(server);
  if (world_.options().bug == PlantedBug::kWorkerCommitsTooEarly) it->second.clear();
  if (it->second.empty()) hand->waiting.erase(it);
  hand->acked = hand->waiting.empty() ? hand->next : hand->waiting.begin()->first;
}

void SimWorker::Commit(const InHand& hand, bool release) {
  CommitRequest request = {
      .worker = id_, .task = hand.task.id, .upto = hand.acked, .release = release};
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
