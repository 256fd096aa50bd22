#include "rubato/sim/world.h"

#include <algorithm>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "rubato/sim/sim_server.h"
#include "rubato/sim/sim_worker.h"

namespace rubato {

World::World(WorldOptions options)
    : options_(std::move(options)),
      rng_(Mix(options_.seed, 1)),
      network_(queue_, Rng(Mix(options_.seed, 2))),
      checker_(options_.shards ? 0 : options_.master.job.servers,
               PlanOf(options_.master.job, options_.master.data.train_records(),
                      options_.master.data.validation_records())),
      disks_(static_cast<size_t>(std::max(options_.master.job.servers, options_.servers_max))) {
  network_.SetWeather(options_.weather);
}

World::~World() = default;

void World::Run() {
  ScheduleFaults();
  StartMaster(/*resume=*/false);
  ReportExits();
  const absl::Time end = queue_.now() + options_.give_up;
  while (!over_ && violation_.empty() && queue_.Step()) {
    if (queue_.now() <= end) continue;
    const std::string where = master_ == nullptr
                                  ? "no master"
                                  : absl::StrCat(std::string(JobStateName(master_->state())),
                                                 " at step ", master_->ledger().steps());
    Violate(absl::StrCat("stuck: ", where));
  }
}

void World::Violate(const std::string& what) {
  if (!what.empty() && violation_.empty()) {
    violation_ = absl::StrCat("seed ", options_.seed, ", event ", queue_.steps(), ", ",
                              absl::FormatDuration(queue_.now() - absl::UnixEpoch()), ": ", what);
  }
}

void World::Tell(const std::string& what) {
  if (!options_.narrate) return;
  story_.push_back(absl::StrCat(absl::FormatDuration(queue_.now() - absl::UnixEpoch()), " ", what));
}

void World::Tell(const JobEvent& event) {
  if (event.kind == "partitions_moved") {
    ++moves_;
    busy_moves_ += absl::StrContains(event.cause, "times the mean load");
  }
  if (!options_.narrate) return;
  std::string line = event.kind;
  for (const auto& [name, value] : event.fields) {
    absl::StrAppend(&line, " ", name, "=");
    std::visit([&](const auto& v) { absl::StrAppend(&line, v); }, value);
  }
  Tell(event.cause.empty() ? line : absl::StrCat(line, " (", event.cause, ")"));
}

SimServer* World::FindServer(int64_t id, int64_t incarnation) {
  const auto it = processes_.find({Role::kServer, id, incarnation});
  return it == processes_.end() ? nullptr : static_cast<SimServer*>(it->second);
}

}  // namespace rubato
