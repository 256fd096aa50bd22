// The world's `rubato train`: it hosts the master, starts it again when it dies, and starts,
// signals and reaps the others for it.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "rubato/master/journal.h"
#include "rubato/sim/sim_server.h"
#include "rubato/sim/sim_worker.h"
#include "rubato/sim/world.h"

namespace rubato {
namespace {

constexpr absl::Duration kTick = absl::Milliseconds(20);

template <typename... Ts>
struct Overloaded : Ts... {
  using Ts::operator()...;
};
template <typename... Ts>
Overloaded(Ts...) -> Overloaded<Ts...>;

}  // namespace

bool World::InMaster(const std::function<void(Master&)>& call) {
  if (master_ == nullptr || master_paused_ || over_) return false;
  call(*master_);
  const std::vector<Effect> effects = master_->TakeEffects();
  std::optional<size_t> die_at;
  if (!effects.empty() && !faults_over_ && rng_.Chance(options_.master_dies_in_call)) {
    die_at = rng_.Below(effects.size());
  }
  if (!Perform(effects, die_at)) return false;
  if (master_ == nullptr) return true;
  const int64_t steps = checker_.steps();
  Violate(checker_.Answered(*master_));
  // What was acknowledged, lost and then committed is found in the end.
  const bool whole = options_.shards && logs_cut_ == 0;
  if (whole && checker_.steps() > steps) Violate(CommittedIsInShards());
  return true;
}

bool World::Perform(const std::vector<Effect>& effects, std::optional<size_t> die_at) {
  for (size_t i = 0; i < effects.size(); ++i) {
    if (die_at == i) {
      // A write cut short: some bytes of the record may be in the file.
      if (const auto* append = std::get_if<AppendJournal>(&effects[i])) {
        journal_ += append->bytes.substr(0, rng_.Below(append->bytes.size()));
      }
      checker_.Died(/*in_call=*/true);
      KillMaster();
      return false;
    }
    PerformOne(effects[i]);
  }
  return true;
}

void World::PerformOne(const Effect& effect) {
  std::visit(Overloaded{
                 [&](const AppendJournal& append) { journal_ += append.bytes; },
                 [&](const LaunchProcess& launch) { Launch(launch); },
                 [&](const SignalProcess& signal) { Signal(signal); },
                 [&](const JobEvent& event) { Tell(event); },
                 [&](const WriteManifest& manifest) { Write(manifest); },
                 [&](const WriteBest&) {},
                 [&](const RemoveCheckpoint& removed) { Remove(removed); },
                 [&](const SendOrder&) {},  // The simulated jobs are of strategy ps.
                 [&](const JobFinished& finished) { Finish(finished); },
             },
             effect);
}

// A restarted master writes the newest one again: what it says of the files must still be true.
void World::Write(const WriteManifest& manifest) {
  const auto [written, first] = manifests_.try_emplace(manifest.version, manifest.contents);
  if (written->second != manifest.contents)
    Violate("the manifest of a complete checkpoint changes");
  for (size_t s = 0; first && s < disks_.size(); ++s) {
    if (!master_->view().map.Owns(static_cast<int64_t>(s))) continue;
    if (disks_[s].version < manifest.version) Violate("a checkpoint is incomplete");
  }
}

// Older ones that are not kept. What is newer is for the servers.
void World::Remove(const RemoveCheckpoint& removed) {
  for (SimDisk& disk : disks_) {
    std::erase_if(disk.cuts, [&](const auto& cut) {
      const auto& kept = removed.kept;
      return cut.first < kept.back() &&
             std::find(kept.begin(), kept.end(), cut.first) == kept.end();
    });
  }
}

void World::StartMaster(bool resume) {
  if (options_.bug == PlantedBug::kDiskLosesJournal && master_life_ > 0) {
    journal_.resize(journal_.size() * 3 / 4);
  }
  absl::StatusOr<Journal> journal = DecodeJournal(journal_, options_.master.version);
  if (!journal.ok()) return Violate(std::string(journal.status().message()));
  journal_.resize(static_cast<size_t>(journal->good_bytes));
  MasterOptions options = options_.master;
  options.resume = resume;
  auto master = Master::Open(options, journal->records, queue_.now());
  if (!master.ok()) return Violate(std::string(master.status().message()));
  master_ = *std::move(master);
  master_paused_ = false;
  const int64_t life = ++master_life_;
  if (life > 1 && !resume) Violate(checker_.Replayed(*master_));
  if (!InMaster([](Master&) {})) return;
  TickMaster();
}

void World::KillMaster() {
  Tell("the master dies");
  if (master_ != nullptr && master_->view().move.number > 0) ++deaths_["master, in a move"];
  master_.reset();
  const absl::Duration away = absl::Milliseconds(rng_.Uniform(20, 400));
  queue_.After(away, [this] {
    if (master_ == nullptr && !over_) StartMaster(resume_next_);
  });
}

void World::TickMaster() {
  InMaster([&](Master& master) { master.Tick(queue_.now()); });
  queue_.After(kTick, [this, life = master_life_] {
    if (master_ != nullptr && life == master_life_) TickMaster();
  });
}

void World::Launch(const LaunchProcess& launch) {
  const ProcessKey key(launch.role, launch.id, launch.incarnation);
  if (exits_.contains(key)) unreported_.push_back(key);
  if (processes_.contains(key) || exits_.contains(key)) return;
  // From here on somebody is alive: a master that dies now is restarted, not resumed again.
  resume_next_ = false;
  const absl::Duration start = absl::Milliseconds(rng_.Uniform(5, 120));
  if (launch.role == Role::kServer) {
    auto server = std::make_unique<SimServer>(*this, launch.id, launch.incarnation);
    server->After(start, [server = server.get()] { server->Start(); });
    processes_[key] = server.get();
    all_.push_back(std::move(server));
  } else {
    auto worker = std::make_unique<SimWorker>(*this, WorkerId(launch.id));
    worker->After(start, [worker = worker.get()] { worker->Start(); });
    processes_[key] = worker.get();
    all_.push_back(std::move(worker));
  }
}

void World::Signal(const SignalProcess& signal) {
  const ProcessKey key(signal.role, signal.id, signal.incarnation);
  const auto it = processes_.find(key);
  if (it == processes_.end()) {
    exits_.try_emplace(
        key,
        ExitNotice{
            .role = signal.role, .id = signal.id, .incarnation = signal.incarnation, .signal = 9});
    unreported_.push_back(key);
    return;
  }
  SimProcess* process = it->second;
  // Later, as a signal is: not from within a call of the master.
  queue_.After(absl::Microseconds(100), [this, signal, process] {
    if (!process->alive()) return;
    if (signal.kind == SignalProcess::Kind::kKill) {
      Exit(*process, signal.role, signal.id, signal.incarnation, 0, 9);
    } else if (auto* worker = dynamic_cast<SimWorker*>(process)) {
      worker->Run([worker] { worker->Leave(); });
    } else if (auto* server = dynamic_cast<SimServer*>(process)) {
      server->Run([server] { server->Leave(); });
    }
  });
}

void World::Exit(SimProcess& process, Role role, int64_t id, int64_t incarnation, int code,
                 int signal) {
  if (!process.alive()) return;
  if (signal == 9 && role == Role::kServer) {
    ++deaths_[dynamic_cast<SimServer&>(process).Doing()];
  }
  process.Die();
  if (role == Role::kServer && !faults_over_ && rng_.Chance(options_.loses_log)) CutLog(id);
  const ProcessKey key(role, id, incarnation);
  processes_.erase(key);
  exits_[key] = {
      .role = role, .id = id, .incarnation = incarnation, .exit_code = code, .signal = signal};
  unreported_.push_back(key);
}

void World::ReportExits() {
  for (size_t n = unreported_.size(); n > 0; --n) {
    const ProcessKey key = unreported_.front();
    if (!InMaster([&](Master& master) { master.Exit(exits_.at(key), queue_.now()); })) break;
    unreported_.erase(unreported_.begin());
  }
  queue_.After(absl::Milliseconds(10), [this] { ReportExits(); });
}

void World::Finish(const JobFinished& finished) {
  if (finished.state == JobState::kStopped && options_.stop_and_resume) {
    // The user comes back later; not from within this call.
    queue_.After(absl::Milliseconds(50), [this, life = master_life_] {
      if (life != master_life_) return;  // A restarted master will say it again.
      resume_next_ = true;
      if (master_ != nullptr) KillMaster();
    });
    return;
  }
  result_ = master_->snapshot();
  over_ = true;
  Violate(checker_.Finished(*master_, result_));
  if (options_.shards) Violate(CheckShards());
  if (!processes_.empty()) Violate("the job is over and somebody is left");
}

}  // namespace rubato
