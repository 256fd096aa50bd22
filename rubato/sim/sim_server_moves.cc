// A simulated server's line to the one to which it hands partitions, as MoveLine is a real one's.
#include <utility>

#include "absl/strings/str_cat.h"
#include "rubato/sim/sim_server.h"
#include "rubato/sim/world.h"

namespace rubato {
namespace {

constexpr absl::Duration kReconnect = absl::Milliseconds(20);

}  // namespace

void SimServer::SetPeer() {
  const MoveSource& source = shard_->source();
  const int64_t to = source.to();
  const ServerPlace place = to < 0 ? ServerPlace() : view_.servers[static_cast<size_t>(to)];
  const int64_t life = place.address.empty() ? 0 : place.incarnation;
  if (line_.to == to && line_.life == life && line_.order == source.order()) return;
  line_ = {.number = line_.number + 1, .to = to, .life = life, .order = source.order()};
  shard_->source().Lost();
  if (life > 0) Connect();
}

void SimServer::Connect() {
  line_.there = std::make_shared<absl::Time>(absl::InfinitePast());
  line_.back = std::make_shared<absl::Time>(absl::InfinitePast());
  const Line line = line_;
  const std::string peer_name = absl::StrCat("server-", line.to);
  world_.network().SendInOrder(line.there.get(), name(), peer_name, [this, line](bool held) {
    SimServer* peer = world_.FindServer(line.to, line.life);
    if (peer == nullptr || !held) return Run([this, line] { LineLost(line.number); });
    peer->Run([this, line, peer] {
      peer->Greet([this, line, peer] {
        world_.network().SendInOrder(line.back.get(), peer->name(), name(), [this, line](bool ok) {
          Run([this, line, ok] {
            if (!ok) return LineLost(line.number);
            if (line.number != line_.number) return;
            shard_->source().Connected();
            Pump();
          });
        });
      });
    });
  });
}

void SimServer::Greet(std::function<void()> admit) {
  if (serving_) return admit();
  greets_.push_back(std::move(admit));
}

void SimServer::LineLost(int64_t number) {
  if (number != line_.number) return;
  ++line_.number;
  shard_->source().Lost();
  MoveChanged();
  After(kReconnect, [this, again = line_.number] {
    if (again == line_.number && line_.life > 0) Connect();
  });
}

void SimServer::Pump() {
  while (true) {
    const std::vector<MoveRecord> records = shard_->source().Next();
    if (records.empty()) break;
    for (const MoveRecord& record : records) Send(record);
  }
  if (!world_.DiesMidway(*this, id_, incarnation_)) MoveChanged();
}

void SimServer::Send(const MoveRecord& record) {
  const Line line = line_;
  const std::string peer_name = absl::StrCat("server-", line.to);
  const auto arrive = [this, line, record](bool held) {
    SimServer* peer = world_.FindServer(line.to, line.life);
    if (peer == nullptr || !held) return Run([this, line] { LineLost(line.number); });
    peer->Run([this, line, record, peer] {
      peer->Arrive(record, [this, line, peer](const absl::Status& status) {
        world_.network().SendInOrder(line.back.get(), peer->name(), name(),
                                     [this, line, status](bool ok) {
                                       Run([this, line, status, ok] {
                                         if (line.number != line_.number) return;
                                         if (!ok || !status.ok()) return LineLost(line.number);
                                         Answered(status);
                                       });
                                     });
      });
    });
  };
  world_.network().SendInOrder(line.there.get(), name(), peer_name, arrive);
}

// What is logged may never be answered: it dies in between.
void SimServer::Arrive(const MoveRecord& record, const Answer& answer) {
  ShardDisk* log =
      world_.options().bug == PlantedBug::kReceiverDoesNotLog ? nullptr : &shard_->log();
  const absl::Status status = shard_->shard().Arrive(record.first, record.second, log);
  if (!status.ok() && !absl::IsAborted(status)) {
    return world_.Violate(absl::StrCat(name(), ": ", status.message()));
  }
  if (absl::IsAborted(status)) Tidy();
  if (!world_.DiesMidway(*this, id_, incarnation_)) answer(status);
}

void SimServer::Answered(const absl::Status& status) {
  shard_->source().Answered(status);
  if (shard_->source().ready() == 0) return Pump();
  if (!world_.DiesMidway(*this, id_, incarnation_)) TellMaster();
}

void SimServer::MoveChanged() {
  if (shard_->source().frozen()) return;
  for (const auto& request : std::exchange(held_, {})) request();
}

void SimServer::Tidy() {
  if (std::exchange(tidying_, true)) return;
  After(absl::Milliseconds(1), [this] {
    tidying_ = false;
    if (shard_->shard().Tidy()) Tidy();
  });
}

}  // namespace rubato
