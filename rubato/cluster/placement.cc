#include "rubato/cluster/placement.h"

#include <algorithm>
#include <bit>
#include <set>
#include <utility>

#include "absl/strings/str_format.h"
#include "rubato/base/status.h"

namespace rubato {
namespace {

bool Includes(const std::vector<int>& whole, const std::vector<int>& part) {
  return std::includes(whole.begin(), whole.end(), part.begin(), part.end());
}

std::vector<int> Range(int first, int count) {
  std::vector<int> range(static_cast<size_t>(count));
  for (int i = 0; i < count; ++i) range[static_cast<size_t>(i)] = first + i;
  return range;
}

}  // namespace

Placement::Placement(ClusterSpec spec) : spec_(std::move(spec)) {
  for (size_t n = 0; n < spec_.nodes.size(); ++n) {
    node_of_.insert(node_of_.end(), static_cast<size_t>(spec_.nodes[n].gpus), static_cast<int>(n));
    node_free_.push_back(spec_.nodes[n].gpus);
  }
  owner_.assign(node_of_.size(), -1);
  up_.assign(spec_.nodes.size(), true);
  for (const Pool& pool : spec_.pools) pools_.push_back({.free = pool.gpus, .alive = pool.gpus});
}

absl::Span<const int> Placement::Gpus(JobId job) const {
  const auto at = held_.find(job);
  return at == held_.end() ? absl::Span<const int>() : absl::MakeConstSpan(at->second);
}

Span Placement::SpanOf(JobId job) const {
  const absl::Span<const int> gpus = Gpus(job);
  if (gpus.size() <= 1) return Span::kGpu;
  const int first = NodeOf(gpus.front()), last = NodeOf(gpus.back());
  if (first != last) {
    return node(first).rack == node(last).rack ? Span::kRack : Span::kCluster;
  }
  const int per_socket = node(first).gpus / node(first).sockets;
  const auto socket = [&](int gpu) { return (gpu - node(first).first_gpu) / per_socket; };
  return socket(gpus.front()) == socket(gpus.back()) ? Span::kSocket : Span::kNode;
}

void Placement::Take(JobId job, Gpuset gpus) {
  const int pool = node(NodeOf(gpus.front())).pool;
  for (int gpu : gpus) {
    RUBATO_CHECK(Free(gpu) && Up(NodeOf(gpu)) && node(NodeOf(gpu)).pool == pool);
    owner_[static_cast<size_t>(gpu)] = job.value();
    --node_free_[static_cast<size_t>(NodeOf(gpu))];
  }
  pools_[static_cast<size_t>(pool)].free -= static_cast<int>(gpus.size());
  held_[job] = std::move(gpus);
}

Placement::Gpuset Placement::Release(JobId job) {
  const auto at = held_.find(job);
  if (at == held_.end()) return {};
  Gpuset gpus = std::move(at->second);
  held_.erase(at);
  for (int gpu : gpus) {
    owner_[static_cast<size_t>(gpu)] = -1;
    ++node_free_[static_cast<size_t>(NodeOf(gpu))];
  }
  pools_[static_cast<size_t>(node(NodeOf(gpus.front())).pool)].free +=
      static_cast<int>(gpus.size());
  return gpus;
}

void Placement::Shrink(JobId job, int gpus) {
  // The first GPUs of a block are themselves an aligned block, and those of a set of nodes whole
  // nodes.
  Gpuset kept = Release(job);
  kept.resize(static_cast<size_t>(gpus));
  Take(job, std::move(kept));
}

int Placement::BlockIn(int n, int gpus) const {
  for (int at = node(n).first_gpu; at + gpus <= node(n).first_gpu + node(n).gpus; at += gpus) {
    int i = 0;
    while (i < gpus && Free(at + i)) ++i;
    if (i == gpus) return at;
  }
  return -1;
}

bool Placement::BuddySize(int pool, int gpus) const {
  if (!std::has_single_bit(static_cast<unsigned>(gpus))) return false;
  const Pool& p = spec_.pools[static_cast<size_t>(pool)];
  const int per_node = node(p.first_node).gpus;
  if (p.gpus != per_node * p.nodes) return false;  // Nodes differ.
  return gpus <= per_node ? per_node % gpus == 0 : gpus % per_node == 0;
}

Placement::Gpuset Placement::GrowInPlace(int pool, int gpus, const Gpuset& old) const {
  // `old` is free at this moment.
  if (old.empty() || node(NodeOf(old.front())).pool != pool) return {};
  const int home = NodeOf(old.front());
  const int per_node = node(home).gpus;
  if (gpus <= per_node) {
    const int offset = old.front() - node(home).first_gpu;
    Gpuset block = Range(node(home).first_gpu + offset / gpus * gpus, gpus);
    if (block.back() >= node(home).first_gpu + per_node || !Includes(block, old)) return {};
    return std::all_of(block.begin(), block.end(), [&](int g) { return Free(g); }) ? block
                                                                                   : Gpuset();
  }
  std::set<int> nodes;
  for (int gpu : old) nodes.insert(NodeOf(gpu));
  for (int n : nodes) {
    if (NodeFree(n) != per_node) return {};
  }
  const Pool& p = spec_.pools[static_cast<size_t>(pool)];
  const size_t want = static_cast<size_t>(gpus / per_node);
  for (int n = p.first_node; n < p.first_node + p.nodes && nodes.size() < want; ++n) {
    if (NodeFree(n) == node(n).gpus && Up(n)) nodes.insert(n);
  }
  if (nodes.size() != want) return {};
  Gpuset set;
  for (int n : nodes) {
    for (int i = 0; i < per_node; ++i) set.push_back(node(n).first_gpu + i);
  }
  return set;
}

Placement::Gpuset Placement::FindBlock(int pool, int gpus) const {
  const Pool& p = spec_.pools[static_cast<size_t>(pool)];
  int best_block = -1, best_free = 0;
  for (int n = p.first_node; n < p.first_node + p.nodes; ++n) {
    if (NodeFree(n) < gpus || (best_block >= 0 && NodeFree(n) >= best_free)) continue;
    const int block = BlockIn(n, gpus);
    if (block < 0) continue;
    best_block = block;
    best_free = NodeFree(n);
    if (best_free == gpus) break;
  }
  return best_block < 0 ? Gpuset() : Range(best_block, gpus);
}

Placement::Gpuset Placement::FindNodes(int pool, int gpus) const {
  const Pool& p = spec_.pools[static_cast<size_t>(pool)];
  const int want = gpus / node(p.first_node).gpus;
  // Best fit over racks too: the rack with the fewest free nodes that still suffices.
  std::map<int, std::vector<int>> free_by_rack;
  std::vector<int> any;
  for (int n = p.first_node; n < p.first_node + p.nodes; ++n) {
    if (!Up(n) || NodeFree(n) != node(n).gpus) continue;
    free_by_rack[node(n).rack].push_back(n);
    any.push_back(n);
  }
  if (static_cast<int>(any.size()) < want) return {};
  const std::vector<int>* best = nullptr;
  for (const auto& [rack, nodes] : free_by_rack) {
    if (static_cast<int>(nodes.size()) < want) continue;
    if (best == nullptr || nodes.size() < best->size()) best = &nodes;
  }
  if (best == nullptr) best = &any;
  Gpuset set;
  for (int i = 0; i < want; ++i) {
    const Node& chosen = node((*best)[static_cast<size_t>(i)]);
    for (int g = 0; g < chosen.gpus; ++g) set.push_back(chosen.first_gpu + g);
  }
  return set;
}

Placement::Gpuset Placement::Scatter(int pool, int gpus) const {
  const Pool& p = spec_.pools[static_cast<size_t>(pool)];
  std::vector<int> order;
  int tightest = -1;  // One node that holds it all, with the least left over.
  for (int n = p.first_node; n < p.first_node + p.nodes; ++n) {
    if (NodeFree(n) == 0) continue;
    order.push_back(n);
    if (NodeFree(n) >= gpus && (tightest < 0 || NodeFree(n) < NodeFree(tightest))) tightest = n;
  }
  std::stable_sort(order.begin(), order.end(),
                   [&](int a, int b) { return NodeFree(a) > NodeFree(b); });
  if (tightest >= 0) order = {tightest};
  Gpuset set;
  for (int n : order) {
    for (int g = node(n).first_gpu; g < node(n).first_gpu + node(n).gpus; ++g) {
      if (Free(g) && static_cast<int>(set.size()) < gpus) set.push_back(g);
    }
  }
  std::sort(set.begin(), set.end());
  return static_cast<int>(set.size()) == gpus ? set : Gpuset();
}

Placement::Gpuset Placement::Evacuate(int pool, int gpus, absl::Span<const JobId> pinned,
                                      std::map<JobId, Gpuset>& homeless) {
  const Pool& p = spec_.pools[static_cast<size_t>(pool)];
  const int per_node = node(p.first_node).gpus;
  const int unit = std::min(gpus, per_node);
  // (GPUs in use, first GPU) of every aligned place held by smaller jobs alone.
  std::vector<std::pair<int, int>> places;
  for (int n = p.first_node; n < p.first_node + p.nodes; ++n) {
    if (!Up(n)) continue;
    for (int at = node(n).first_gpu; at < node(n).first_gpu + per_node; at += unit) {
      int used = 0;
      bool movable = true;
      for (int g = at; g < at + unit && movable; ++g) {
        if (Free(g)) continue;
        ++used;
        const JobId owner(owner_[static_cast<size_t>(g)]);
        movable = Gpus(owner).size() < static_cast<size_t>(gpus) &&
                  !std::binary_search(pinned.begin(), pinned.end(), owner);
      }
      if (movable) places.push_back({used, at});
    }
  }
  const size_t want = static_cast<size_t>(gpus / unit);
  if (places.size() < want) return {};
  std::sort(places.begin(), places.end());
  Gpuset set;
  for (size_t i = 0; i < want; ++i) {
    for (int g = places[i].second; g < places[i].second + unit; ++g) {
      set.push_back(g);
      if (Free(g)) continue;
      const JobId job(owner_[static_cast<size_t>(g)]);
      homeless.emplace(job, Release(job));
    }
  }
  std::sort(set.begin(), set.end());
  return set;
}

void Placement::PlaceAll(std::vector<Target> queue, absl::Span<const JobId> pinned,
                         std::map<JobId, Gpuset>& before) {
  const auto larger = [](const Target& a, const Target& b) {
    return a.gpus != b.gpus ? a.gpus > b.gpus : a.job < b.job;
  };
  std::sort(queue.begin(), queue.end(), larger);
  while (!queue.empty()) {
    const Target target = queue.front();
    queue.erase(queue.begin());
    const bool buddy = BuddySize(target.pool, target.gpus);
    Gpuset found;
    if (buddy) {
      const auto old = before.find(target.job);
      if (old != before.end()) found = GrowInPlace(target.pool, target.gpus, old->second);
      const Pool& p = spec_.pools[static_cast<size_t>(target.pool)];
      if (found.empty()) {
        found = target.gpus <= node(p.first_node).gpus ? FindBlock(target.pool, target.gpus)
                                                       : FindNodes(target.pool, target.gpus);
      }
      if (found.empty()) {
        std::map<JobId, Gpuset> homeless;
        found = Evacuate(target.pool, target.gpus, pinned, homeless);
        for (auto& [job, gpus] : homeless) {
          queue.push_back({job, target.pool, static_cast<int>(gpus.size())});
          before.emplace(job, std::move(gpus));
        }
        std::sort(queue.begin(), queue.end(), larger);
      }
    }
    if (found.empty()) found = Scatter(target.pool, target.gpus);
    RUBATO_CHECK(!found.empty());
    Take(target.job, std::move(found));
  }
}

absl::StatusOr<Placement::Change> Placement::Apply(absl::Span<const Target> targets,
                                                   absl::Span<const JobId> pinned) {
  std::vector<int> free;
  for (const PoolState& pool : pools_) free.push_back(pool.free);
  for (const Target& target : targets) {
    const absl::Span<const int> held = Gpus(target.job);
    if (!held.empty()) {
      free[static_cast<size_t>(node(NodeOf(held.front())).pool)] += static_cast<int>(held.size());
    }
    if (target.gpus > 0) free[static_cast<size_t>(target.pool)] -= target.gpus;
  }
  for (size_t i = 0; i < free.size(); ++i) {
    if (free[i] < 0) {
      return absl::ResourceExhaustedError(absl::StrFormat(
          "pool %d has %d GPUs alive, %d too few for the plan", i, pools_[i].alive, -free[i]));
    }
  }
  std::map<JobId, Gpuset> before;  // What every job that may change held.
  std::vector<Target> queue;
  for (const Target& target : targets) {
    const absl::Span<const int> held = Gpus(target.job);
    const int have = static_cast<int>(held.size());
    const bool same_pool = have == 0 || node(NodeOf(held.front())).pool == target.pool;
    if (have == target.gpus && same_pool) continue;
    before.emplace(target.job, Gpuset(held.begin(), held.end()));
    if (target.gpus == 0) {
      Release(target.job);
    } else if (target.gpus < have && same_pool) {
      Shrink(target.job, target.gpus);
    } else {
      Release(target.job);
      queue.push_back(target);
    }
  }
  PlaceAll(std::move(queue), pinned, before);
  for (const Target& target : targets) {
    const absl::Span<const int> held = Gpus(target.job);
    RUBATO_CHECK(held.size() == static_cast<size_t>(target.gpus));
    RUBATO_CHECK(held.empty() || node(NodeOf(held.front())).pool == target.pool);
  }
  Change change;
  for (const auto& [job, old] : before) {
    const auto now = held_.find(job);
    if (now == held_.end() || now->second == old) continue;
    change.changed.push_back(job);
    const Gpuset& gpus = now->second;
    if (!old.empty() && !Includes(gpus, old) && !Includes(old, gpus)) ++change.migrations;
  }
  return change;
}

std::vector<JobId> Placement::FailNode(int n) {
  if (!Up(n)) return {};
  std::set<JobId> lost;
  for (int g = node(n).first_gpu; g < node(n).first_gpu + node(n).gpus; ++g) {
    if (!Free(g)) lost.insert(JobId(owner_[static_cast<size_t>(g)]));
  }
  for (JobId job : lost) Release(job);
  up_[static_cast<size_t>(n)] = false;
  node_free_[static_cast<size_t>(n)] = 0;
  PoolState& pool = pools_[static_cast<size_t>(node(n).pool)];
  pool.free -= node(n).gpus;
  pool.alive -= node(n).gpus;
  // A node that is down owns itself, so that nobody finds its GPUs free.
  for (int g = node(n).first_gpu; g < node(n).first_gpu + node(n).gpus; ++g) {
    owner_[static_cast<size_t>(g)] = INT64_MAX;
  }
  return {lost.begin(), lost.end()};
}

void Placement::RepairNode(int n) {
  if (Up(n)) return;
  up_[static_cast<size_t>(n)] = true;
  node_free_[static_cast<size_t>(n)] = node(n).gpus;
  PoolState& pool = pools_[static_cast<size_t>(node(n).pool)];
  pool.free += node(n).gpus;
  pool.alive += node(n).gpus;
  for (int g = node(n).first_gpu; g < node(n).first_gpu + node(n).gpus; ++g) {
    owner_[static_cast<size_t>(g)] = -1;
  }
}

absl::Status Placement::Check() const {
  std::vector<int64_t> owner(owner_.size(), -1);
  for (const auto& [job, gpus] : held_) {
    for (int gpu : gpus) {
      if (owner[static_cast<size_t>(gpu)] >= 0 || owner_[static_cast<size_t>(gpu)] != job.value()) {
        return absl::InternalError(
            absl::StrFormat("GPU %d is not %s's alone", gpu, job.ToString()));
      }
      if (node(NodeOf(gpu)).pool != node(NodeOf(gpus.front())).pool) {
        return absl::InternalError(absl::StrFormat("%s lies in two pools", job.ToString()));
      }
      owner[static_cast<size_t>(gpu)] = job.value();
    }
  }
  for (size_t n = 0; n < spec_.nodes.size(); ++n) {
    int free = 0;
    for (int g = spec_.nodes[n].first_gpu; g < spec_.nodes[n].first_gpu + spec_.nodes[n].gpus;
         ++g) {
      free += owner[static_cast<size_t>(g)] < 0 ? 1 : 0;
    }
    if (up_[n] ? free != node_free_[n] : free != spec_.nodes[n].gpus) {
      return absl::InternalError(absl::StrFormat("node %d miscounts its free GPUs", n));
    }
  }
  return absl::OkStatus();
}

}  // namespace rubato
