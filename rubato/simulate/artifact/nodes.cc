#include "rubato/simulate/artifact/nodes.h"

#include <algorithm>

namespace rubato {
namespace {

constexpr int kClasses[] = {1, 2, 4, 8, 12, 16, 24, 32, 40, 48, 56, 64, 72, 88, 128, 256};

}  // namespace

ArtifactNodes::ArtifactNodes(const ClusterSpec& cluster)
    : nodes_(static_cast<int>(cluster.nodes.size())), per_node_(cluster.nodes[0].gpus) {
  for (int gpus : kClasses) classes_[gpus];
  int rack = -1, number = 0;
  for (int n = 0; n < nodes_; ++n) {
    const int its_rack = cluster.nodes[static_cast<size_t>(n)].rack;
    number = its_rack == rack ? number + 1 : 0;
    rack = its_rack;
    number_.push_back(number);
    free_.push_back(n);
  }
}

void ArtifactNodes::Release(const std::vector<ArtifactJob*>& jobs) {
  for (ArtifactJob* job : jobs) {
    const auto at = group_of_.find(job);
    if (at == group_of_.end()) continue;
    Group* group = at->second;
    group_of_.erase(at);
    job->placed = false;
    std::erase(group->jobs, job);
    group->used -= job->gpus;
    if (!group->jobs.empty()) continue;
    free_.insert(free_.end(), group->nodes.begin(), group->nodes.end());
    std::stable_sort(free_.begin(), free_.end(), [&](int a, int b) {
      return number_[static_cast<size_t>(a)] < number_[static_cast<size_t>(b)];
    });
    for (auto& [gpus, groups] : classes_) std::erase(groups, group);
    groups_.remove_if([&](const Group& other) { return &other == group; });
  }
}

void ArtifactNodes::SortByUse(Class& groups) {
  std::stable_sort(groups.begin(), groups.end(),
                   [](const Group* a, const Group* b) { return a->used < b->used; });
}

void ArtifactNodes::Put(ArtifactJob* job, Group* group, int own_class) {
  group->used += job->gpus;
  group->jobs.push_back(job);
  job->placed = true;
  group_of_[job] = group;
  const int left = group->capacity - group->used;
  int to = own_class;
  for (auto at = classes_.rbegin(); left > 0 && at != classes_.rend(); ++at) {
    if (at->first > left || left % at->first != 0) continue;
    to = at->first;
    break;
  }
  classes_[to].push_back(group);
  SortByUse(classes_[to]);
  SortByUse(classes_[own_class]);
}

bool ArtifactNodes::Place(ArtifactJob* job) {
  Class& own = classes_[job->gpus];
  const auto fits = [&](const Group* group) { return group->used + job->gpus <= group->capacity; };
  const auto rotate = [](Class& groups) {
    groups.push_back(groups.front());
    groups.pop_front();
  };
  if (!own.empty()) {
    Group* group = own.front();
    if (fits(group)) {
      own.pop_front();
      Put(job, group, job->gpus);
      return true;
    }
    rotate(own);
  }
  for (auto at = classes_.rbegin(); at != classes_.rend() && at->first > job->gpus; ++at) {
    if (at->second.empty()) continue;
    Group* group = at->second.front();
    if (fits(group)) {
      at->second.pop_front();
      Put(job, group, job->gpus);
      return true;
    }
    rotate(at->second);
  }
  const int need = (job->gpus + per_node_ - 1) / per_node_;
  if (need > static_cast<int>(free_.size())) return false;
  Group* group = &groups_.emplace_back();
  group->capacity = need * per_node_;
  for (int i = 0; i < need; ++i) {
    group->nodes.push_back(free_.front());
    free_.pop_front();
  }
  Put(job, group, job->gpus);
  return true;
}

void ArtifactNodes::FindKnownSets() {
  std::vector<std::pair<Group*, int>> at_node(static_cast<size_t>(nodes_), {nullptr, 0});
  for (auto& [gpus, groups] : classes_) {
    for (Group* group : groups) {
      for (int n : group->nodes) at_node[static_cast<size_t>(n)] = {group, gpus};
    }
  }
  std::set<const ArtifactJob*> counted;
  for (int n = 0; n < nodes_; ++n) {
    const auto [group, gpus] = at_node[static_cast<size_t>(n)];
    if (group == nullptr) continue;
    int rank = n * per_node_;
    const bool whole = gpus >= per_node_;
    for (ArtifactJob* job : group->jobs) {
      if (!counted.insert(job).second) continue;
      job->known_set = !known_.insert({rank, job->gpus}).second;
      rank += job->gpus;
      if (whole) break;
    }
  }
}

}  // namespace rubato
