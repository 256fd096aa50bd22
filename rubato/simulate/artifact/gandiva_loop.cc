// Gandiva as the public code has it: node sets for each job size, filled in turn, shared by time
// slices when full, grown and shrunk in proportion to demand. Nothing is packed.
#include <algorithm>
#include <cmath>
#include <deque>
#include <list>
#include <map>

#include "absl/strings/str_format.h"
#include "rubato/base/status.h"
#include "rubato/simulate/artifact/loop.h"

namespace rubato {
namespace {

constexpr int kSizes[] = {1, 2, 4, 8, 12, 16, 24, 32, 40, 48, 56, 64, 72, 88, 128, 256};
constexpr int kTurn = 60;  // Turns change when the clock shows a multiple of this.

class GandivaLoop : public ArtifactLoop {
 public:
  GandivaLoop(const Workload& workload, const SimulateOptions& options)
      : ArtifactLoop(workload, options, ArtifactCap::kWidest),
        per_node_(nodes_.gpus_per_node()),
        executed_(jobs_.size(), 0) {
    for (int n = 0; n < gpus_ / per_node_; ++n) ++free_nodes_;
    for (int size : kSizes) sets_[size];
  }

 protected:
  absl::Status RunLoop() override {
    double passed = 0;
    while (!events_.empty() || !pending_.empty() || !running_.empty()) {
      BeginDecision();
      Adjust();
      const bool released = Execute(passed);
      for (ArtifactJob* job : runnable_) job->overhead = 0;
      if (events_.Has(now_)) RUBATO_RETURN_IF_ERROR(Arrive(events_.Take(now_).starts));
      if (released) StartPending();
      EndDecision(running_.size());
      if (events_.empty()) {
        if (running_.empty()) break;  // What is pending will never fit.
        now_ += slot_;
        passed = slot_;
        continue;
      }
      const bool restart = CountDecision();
      for (ArtifactJob* job : running_) job->overhead = OverheadOf(job->gpus, restart, false);
      events_.MergeWithin(now_, slot_);
      passed = events_.first_time() - now_;
      now_ = events_.first_time();
    }
    return absl::OkStatus();
  }

 private:
  // Nodes that serve jobs of one size. `load` only ever grows: ended jobs stay counted.
  struct NodeSet {
    int nodes = 0;
    int slots = 0;  // Jobs that run at once.
    int load = 0;
    std::deque<ArtifactJob*> jobs;
  };
  using Sets = std::list<NodeSet>;

  static void SortByLoad(Sets& sets) {
    sets.sort([](const NodeSet& a, const NodeSet& b) { return a.load < b.load; });
  }
  int NodesFor(int size) const { return (size + per_node_ - 1) / per_node_; }

  NodeSet TakeNodes(int size) {
    const int nodes = NodesFor(size);
    free_nodes_ -= nodes;
    return {.nodes = nodes, .slots = nodes * per_node_ / size};
  }

  static void Add(ArtifactJob* job, Sets& sets) {
    sets.front().jobs.push_back(job);
    ++sets.front().load;
    SortByLoad(sets);
  }

  bool TryPlace(ArtifactJob* job) {
    Sets& sets = sets_[job->gpus];
    if (!sets.empty()) {
      if (sets.front().load + 1 < sets.front().slots) {
        // The set goes to the back before sorting, so it is the last of its equals.
        sets.splice(sets.end(), sets, sets.begin());
        sets.back().jobs.push_back(job);
        ++sets.back().load;
        SortByLoad(sets);
        return true;
      }
      sets.splice(sets.end(), sets, sets.begin());
    }
    if (NodesFor(job->gpus) <= free_nodes_) {
      sets.push_back(TakeNodes(job->gpus));
      sets.back().load = 1;
      sets.back().jobs.push_back(job);
      SortByLoad(sets);
      return true;
    }
    if (sets.empty()) return false;
    sets.splice(sets.end(), sets, sets.begin());
    sets.back().jobs.push_back(job);
    ++sets.back().load;
    SortByLoad(sets);
    return true;
  }

  absl::Status Arrive(const std::vector<ArtifactJob*>& starts) {
    for (ArtifactJob* job : starts) {
      if (sets_.count(job->gpus) == 0) {
        return absl::UnimplementedError(absl::StrFormat(
            "gandiva has no node sets for jobs of %d GPUs, as job %d asks", job->gpus, job->index));
      }
      if (TryPlace(job)) {
        running_.push_back(job);
        Start(job);
      } else {
        pending_.push_back(job);
        runnable_.push_back(job);
      }
    }
    return absl::OkStatus();
  }

  // The list shrinks while it is walked, so the one after each that starts is passed over.
  void StartPending() {
    for (size_t i = 0; i < pending_.size(); ++i) {
      ArtifactJob* job = pending_[i];
      if (!TryPlace(job)) continue;
      pending_.erase(pending_.begin() + static_cast<ptrdiff_t>(i));
      running_.push_back(job);
      Start(job);
    }
  }

  // Gives sizes nodes in proportion to what their jobs ask for.
  void Adjust() {
    std::map<int, int> demand, occupied;
    int total = 0;
    for (const auto& [size, sets] : sets_) {
      int jobs = 0, nodes = 0;
      for (const NodeSet& set : sets) {
        jobs += static_cast<int>(set.jobs.size());
        nodes += set.nodes;
      }
      demand[size] = jobs * size;
      occupied[size] = nodes * per_node_;
      total += demand[size];
    }
    if (total == 0) return;
    for (auto& [size, sets] : sets_) {
      if (demand[size] == 0) continue;
      const double share = static_cast<double>(demand[size]) / total * gpus_;
      const int target = std::min(static_cast<int>(std::floor(share)), demand[size]);
      const int diff = target - occupied[size];
      const int count = (std::abs(diff) + size - 1) / size;
      if (diff > 0) Expand(size, sets, count);
      if (diff < 0) Shrink(sets, count);
    }
  }

  void Expand(int size, Sets& sets, int count) {
    int last = 0;  // The artifact's loop variable, which its inner loop overwrites.
    for (int i = 1; i <= count; ++i) {
      last = i;
      if (NodesFor(size) > free_nodes_) continue;
      sets.push_back(TakeNodes(size));
      last = NodesFor(size) - 1;
    }
    if (last == 0) return;
    std::vector<ArtifactJob*> jobs;
    for (NodeSet& set : sets) {
      if (set.jobs.empty()) continue;
      jobs.insert(jobs.end(), set.jobs.begin(), set.jobs.end());
      set.jobs.clear();
      set.load = 0;
    }
    for (ArtifactJob* job : jobs) Add(job, sets);
  }

  void Shrink(Sets& sets, int count) {
    count = std::min(count, static_cast<int>(sets.size()) - 1);
    std::vector<ArtifactJob*> jobs;
    for (int i = 0; i < count; ++i) {
      jobs.insert(jobs.end(), sets.front().jobs.begin(), sets.front().jobs.end());
      free_nodes_ += sets.front().nodes;
      sets.pop_front();
    }
    for (ArtifactJob* job : jobs) Add(job, sets);
  }

  // Lets the first jobs of every set work for `seconds`. True if a set fell empty.
  bool Execute(double seconds) {
    const bool turn = std::fmod(std::trunc(now_), kTurn) == 0;
    bool released = false;
    for (auto& [size, sets] : sets_) {
      for (auto set = sets.begin(); set != sets.end();) {
        const size_t slots = std::min(set->jobs.size(), static_cast<size_t>(set->slots));
        std::vector<ArtifactJob*> ended;
        for (size_t i = 0; i < slots; ++i) {
          ArtifactJob* job = set->jobs[i];
          double& executed = executed_[job->index];
          executed += std::max(seconds - job->overhead, 0.0);
          job->overhead = 0;
          if (executed >= job->duration) ended.push_back(job);
        }
        CountGpuSeconds({set->jobs.begin(), set->jobs.begin() + static_cast<ptrdiff_t>(slots)},
                        seconds);
        if (turn && set->jobs.size() > slots) {
          std::rotate(set->jobs.begin(), set->jobs.begin() + static_cast<ptrdiff_t>(slots),
                      set->jobs.end());
        }
        for (ArtifactJob* job : ended) {
          const double end = now_ - (executed_[job->index] - job->duration);
          std::erase(set->jobs, job);
          Finish(job, end, end);
        }
        if (set->jobs.empty()) {
          free_nodes_ += set->nodes;
          released = true;
          set = sets.erase(set);
        } else {
          ++set;
        }
      }
    }
    return released;
  }

  const int per_node_;
  int free_nodes_ = 0;
  std::map<int, Sets> sets_;  // By job size.
  std::vector<double> executed_;
};

}  // namespace

std::unique_ptr<ArtifactLoop> MakeGandivaLoop(const Workload& workload,
                                              const SimulateOptions& options) {
  return std::make_unique<GandivaLoop>(workload, options);
}

}  // namespace rubato
