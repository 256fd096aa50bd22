// What befalls the processes of a world, and the random jobs it befalls.
#include <csignal>

#include "absl/strings/str_cat.h"
#include "rubato/sim/sim_server.h"
#include "rubato/sim/sim_worker.h"
#include "rubato/sim/world.h"

namespace rubato {

void World::ScheduleFaults() {
  for (int64_t i = 0; i < options_.faults; ++i) {
    queue_.After(options_.faults_for * rng_.Uniform(), [this] { OneFault(); });
  }
  for (int64_t i = 0; i < options_.scalings; ++i) {
    queue_.After(options_.faults_for * rng_.Uniform(), [this] { ScaleServers(); });
  }
  if (options_.stop_and_resume) {
    const bool checkpoint = rng_.Chance(0.7);
    queue_.After(options_.faults_for * rng_.Uniform(), [this, checkpoint] {
      InMaster([&](Master& master) { master.Stop(checkpoint, queue_.now()); });
    });
  }
  queue_.After(options_.faults_for, [this] { EndFaults(); });
}

void World::OneFault() {
  switch (rng_.Below(10)) {
    case 0:
    case 1:
      return KillOne(/*server=*/false, 0, SIGKILL);
    case 2:
      return KillOne(/*server=*/true, 0, SIGKILL);
    case 3:
      return KillOne(/*server=*/false, 1, 0);
    case 4:
      return PauseOne(/*server=*/rng_.Chance(0.3));
    case 5:
      return PauseOne(/*server=*/false);
    case 6:
      if (master_ != nullptr) {
        checker_.Died(/*in_call=*/false);
        KillMaster();
      }
      return;
    case 7:
      return CutOne();
    case 8:
      InMaster([&](Master& master) {
        const int64_t most = options_.master.job.workers.max;
        const int64_t wanted = 1 + static_cast<int64_t>(rng_.Below(static_cast<uint64_t>(most)));
        master.Scale({.workers = wanted}, queue_.now());
      });
      return;
    case 9:
      for (const auto& [key, process] : processes_) {
        auto* worker = dynamic_cast<SimWorker*>(process);
        if (worker != nullptr && rng_.Chance(0.5)) worker->Stumble();
      }
      master_paused_ = rng_.Chance(0.5);
      Tell(master_paused_ ? "fault: stumble, pause the master" : "fault: stumble");
      queue_.After(absl::Milliseconds(rng_.Uniform(50, 900)), [this] { master_paused_ = false; });
  }
}

void World::ScaleServers() {
  const auto wanted = 1 + static_cast<int64_t>(rng_.Below(disks_.size()));
  Tell(absl::StrCat("rubato scale --servers ", wanted));
  InMaster([&](Master& master) { master.Scale({.servers = wanted}, queue_.now()); });
}

bool World::DiesMidway(SimProcess& process, int64_t id, int64_t incarnation) {
  if (faults_over_ || !rng_.Chance(options_.dies_midway)) return false;
  if (rng_.Chance(0.2) && master_ != nullptr) {
    checker_.Died(/*in_call=*/false);
    KillMaster();
    return false;
  }
  Tell(absl::StrCat("fault: ", process.name(), " dies, ",
                    dynamic_cast<SimServer&>(process).Doing()));
  Exit(process, Role::kServer, id, incarnation, 0, SIGKILL);
  return true;
}

bool World::DamagesFile(const std::string& server, int64_t version) {
  if (faults_over_ || !rng_.Chance(options_.damages_file)) return false;
  ++files_damaged_;
  Tell(absl::StrCat("fault: checkpoint ", version, " of ", server, " is damaged"));
  return true;
}

void World::KillOne(bool server, int code, int signal) {
  std::vector<ProcessKey> keys;
  for (const auto& [key, process] : processes_) {
    if ((std::get<0>(key) == Role::kServer) == server) keys.push_back(key);
  }
  if (keys.empty()) return;
  const ProcessKey key = keys[rng_.Below(keys.size())];
  Tell(absl::StrCat("fault: kill ", processes_.at(key)->name()));
  Exit(*processes_.at(key), std::get<0>(key), std::get<1>(key), std::get<2>(key), code, signal);
}

void World::PauseOne(bool server) {
  std::vector<SimProcess*> running;
  for (const auto& [key, process] : processes_) {
    if ((std::get<0>(key) == Role::kServer) == server && !process->paused()) {
      running.push_back(process);
    }
  }
  if (running.empty()) return;
  SimProcess* process = running[rng_.Below(running.size())];
  process->Pause();
  Tell(absl::StrCat("fault: pause ", process->name()));
  if (!server && rng_.Chance(0.2)) return;  // Frozen for good: the job must do without it.
  queue_.After(absl::Milliseconds(rng_.Uniform(50, 1500)), [process] { process->Resume(); });
}

void World::CutOne() {
  if (processes_.empty()) return;
  auto it = processes_.begin();
  std::advance(it, rng_.Below(processes_.size()));
  const std::string name = it->second->name();
  Tell(absl::StrCat("fault: cut off ", name));
  if (rng_.Chance(0.7)) network_.Cut(name, "master");
  for (size_t s = 0; s < disks_.size(); ++s) {
    if (rng_.Chance(0.4)) network_.Cut(name, absl::StrCat("server-", s));
  }
  queue_.After(absl::Milliseconds(rng_.Uniform(50, 1200)), [this] { network_.Heal(); });
}

void World::EndFaults() {
  Tell("the faults are over");
  faults_over_ = true;
  master_paused_ = false;
  network_.Heal();
  network_.SetWeather(Weather());
}

// Either everything since the last checkpoint, or a few pushes. Partitions that came from another
// server since are nowhere else, so a cut behind them is one that a job survives.
void World::CutLog(int64_t id) {
  SimDisk& disk = this->disk(id);
  int64_t cut = 0;
  const bool all = rng_.Chance(0.4);
  int64_t most = all ? int64_t{1} << 40 : 1 + static_cast<int64_t>(rng_.Below(6));
  if (options_.shards) {
    cut = CutPushes(disk.params, most);
  } else {
    std::map<int64_t, IntervalSet> left = disk.checkpoint;
    for (const auto& [epoch, set] : disk.log) {
      std::vector<Interval> runs;  // Batches that are in the log alone.
      const int64_t size = options_.master.job.batch_size;
      for (const Interval& run : set.Intervals()) {
        for (const Interval& gap : left[epoch].Gaps(run.begin, run.end)) {
          for (int64_t at = gap.begin; at < gap.end; at = (at / size + 1) * size) {
            runs.push_back({at, std::min(gap.end, (at / size + 1) * size)});
          }
        }
      }
      for (const Interval& run : runs) {
        if (most > 0 && rng_.Chance(all ? 1 : 0.5)) {
          --most;
          ++cut;
        } else {
          left[epoch].Add(run.begin, run.end);
        }
      }
    }
    if (cut > 0) disk.log = left;
  }
  if (cut == 0) return;
  ++logs_cut_;
  Tell(absl::StrCat("fault: the log of server-", id, " is cut by ", cut, " pushes"));
  checker_.Lost(id, disk.log);
}

WorldOptions RandomSchedule(uint64_t seed) {
  Rng rng(Mix(seed, 3));
  const auto pick = [&](int64_t low, int64_t high) {
    return low + static_cast<int64_t>(rng.Below(static_cast<uint64_t>(high - low + 1)));
  };
  WorldOptions options = {.seed = seed};
  JobSpec& job = options.master.job;
  job.name = "simulated";
  job.seed = seed;
  job.batch_size = pick(1, 4);
  job.batches_per_task = pick(0, 4);
  job.epochs = pick(1, 2);
  job.epoch_barrier = rng.Chance(0.3);
  job.servers = pick(1, 3);
  job.workers = {.min = 1, .max = pick(1, 4)};
  job.evaluate = {.every_steps = rng.Chance(0.5) ? pick(3, 12) : 0,
                  .stop_after_stalls = rng.Chance(0.2) ? pick(1, 3) : 0};
  job.evaluate.keep_best = rng.Chance(0.5);
  job.checkpoint = {.every_steps = rng.Chance(0.5) ? pick(3, 12) : 0, .keep = pick(1, 3)};
  job.max_steps = rng.Chance(0.4) ? pick(1, 40) : 0;
  job.elastic = {.lease = absl::Milliseconds(400),
                 .heartbeat = absl::Milliseconds(60),
                 .task_failures_max = 1000,
                 .crash_loop_max = 1000};
  options.master.data = {.train = {{"train.tsv", pick(1, 80)}}};
  if (rng.Chance(0.7)) options.master.data.validation = {{"valid.tsv", pick(1, 12)}};
  options.master.version = "sim";
  options.master.start_grace = absl::Seconds(2);
  options.master.leave_grace = absl::Seconds(1);
  options.master.server_silence = absl::Seconds(2);
  const bool storm = rng.Chance(0.5);
  options.weather = {.loss = storm ? rng.Uniform(0, 0.2) : 0,
                     .duplication = storm ? rng.Uniform(0, 0.2) : 0,
                     .straggling = storm ? rng.Uniform(0, 0.1) : 0,
                     .usual = absl::Milliseconds(pick(1, 8))};
  options.faults = pick(0, 10);
  options.faults_for = absl::Milliseconds(pick(300, 2000));
  options.master_dies_in_call = rng.Chance(0.3) ? rng.Uniform(0, 0.05) : 0;
  options.stop_and_resume = rng.Chance(0.15);
  return options;
}

WorldOptions RandomMoves(uint64_t seed) {
  WorldOptions options = RandomSchedule(seed);
  Rng rng(Mix(seed, 4));
  const auto pick = [&](int64_t low, int64_t high) {
    return low + static_cast<int64_t>(rng.Below(static_cast<uint64_t>(high - low + 1)));
  };
  options.shards = true;
  options.servers_max = 4;
  options.scalings = pick(1, 5);
  options.dies_midway = rng.Chance(0.8) ? rng.Uniform(0, 0.03) : 0;
  JobSpec& job = options.master.job;
  job.batch_size = pick(1, 2);
  job.max_steps = 0;
  job.evaluate.stop_after_stalls = 0;
  job.checkpoint.full_every = pick(1, 4);
  options.master.data.train = {{"train.tsv", pick(100, 200)}};
  // What makes a server busy here is at once too much, so that some moves are for load.
  options.master.busy = {.keys_min = 1,
                         .patience = absl::ZeroDuration(),
                         .cooldown = absl::Milliseconds(pick(100, 1000))};
  job.params.rebalance = rng.Chance(0.5);
  options.faults = pick(2, 12);
  options.faults_for = absl::Milliseconds(pick(1000, 4000));
  return options;
}

WorldOptions RandomReturns(uint64_t seed) {
  WorldOptions options = RandomSchedule(seed);
  Rng rng(Mix(seed, 6));
  options.loses_log = rng.Uniform(0.2, 1);
  options.faults += 4;
  options.faults_for = absl::Seconds(3);
  options.stop_and_resume = rng.Chance(0.3);
  options.dies_midway = rng.Chance(0.5) ? rng.Uniform(0, 0.1) : 0;
  options.damages_file = rng.Chance(0.5) ? rng.Uniform(0.2, 0.8) : 0;
  options.master.cut_grace = absl::Milliseconds(100 + static_cast<int64_t>(rng.Below(400)));
  JobSpec& job = options.master.job;
  job.mode = rng.Chance(0.7) ? "sync" : "hybrid";
  job.rounds.gradients = 1 + static_cast<int64_t>(rng.Below(3));
  job.rounds.tolerance = static_cast<int64_t>(rng.Below(2));
  job.batch_size = 1;
  job.max_steps = 0;
  job.checkpoint.every_steps = 2 + static_cast<int64_t>(rng.Below(8));
  options.master.data.train = {{"train.tsv", 60 + static_cast<int64_t>(rng.Below(60))}};
  return options;
}

WorldOptions RandomLosses(uint64_t seed) {
  WorldOptions options = seed % 3 == 0 ? RandomMoves(seed) : RandomSchedule(seed);
  Rng rng(Mix(seed, 5));
  options.loses_log = rng.Uniform(0.2, 1);
  options.faults += 4;
  options.stop_and_resume = rng.Chance(0.3);
  return options;
}

}  // namespace rubato
