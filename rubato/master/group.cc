#include "rubato/master/group.h"

#include <algorithm>
#include <utility>

namespace rubato {

void Group::Found(int64_t generation, WorkerId founder, std::string restore) {
  generation_ = generation;
  founder_ = founder;
  restore_ = std::move(restore);
}

void Group::Hear(WorkerId worker, const GroupReport& report) {
  unheard_.erase(worker);
  reports_[worker] = report;
}

const GroupReport* Group::ReportOf(WorkerId worker) const {
  const auto it = reports_.find(worker);
  const bool current = it != reports_.end() && it->second.generation == generation_;
  return current && generation_ > 0 ? &it->second : nullptr;
}

bool Group::Lives(const std::vector<WorkerId>& alive) const {
  return std::any_of(alive.begin(), alive.end(), [&](WorkerId worker) {
    if (unheard_.contains(worker)) return true;
    const GroupReport* report = ReportOf(worker);
    return report != nullptr ? report->holds : worker == founder_;
  });
}

std::vector<WorkerId> Group::Holders(const std::vector<WorkerId>& alive) const {
  std::vector<WorkerId> holders;
  for (const WorkerId worker : alive) {
    const GroupReport* report = ReportOf(worker);
    if (report != nullptr && report->holds) holders.push_back(worker);
  }
  return holders;
}

bool Group::Resting(const std::vector<WorkerId>& alive, int64_t steps) const {
  const std::vector<WorkerId> holders = Holders(alive);
  return !holders.empty() && std::all_of(holders.begin(), holders.end(), [&](WorkerId worker) {
    const GroupReport& report = *ReportOf(worker);
    return report.checksum != 0 && report.steps == steps;
  });
}

int64_t Group::bad_rows() const {
  int64_t rows = 0;
  for (const auto& [worker, report] : reports_) rows = std::max(rows, report.bad_rows);
  return rows;
}

}  // namespace rubato
