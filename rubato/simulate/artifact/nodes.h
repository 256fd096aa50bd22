// Where the artifact puts jobs, as far as it matters: which ranks work together.
//
// All jobs are placed anew at every decision. Nodes shared by small jobs are kept in classes by the
// largest profiled count that divides what is free on them; multi-node jobs take the first free
// nodes. Afterwards ranks are counted through the cluster, and a job whose rank set was seen since
// the last restart has a cheaper start.
#ifndef RUBATO_SIMULATE_ARTIFACT_NODES_H_
#define RUBATO_SIMULATE_ARTIFACT_NODES_H_

#include <deque>
#include <list>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "rubato/cluster/cluster_spec.h"
#include "rubato/simulate/artifact/job.h"

namespace rubato {

class ArtifactNodes {
 public:
  explicit ArtifactNodes(const ClusterSpec& cluster);

  // Takes these off, as far as they are placed, one after the other.
  void Release(const std::vector<ArtifactJob*>& jobs);
  // False if there is no room; the job is then left without a place.
  bool Place(ArtifactJob* job);
  // Counts ranks and sets known_set of every job placed.
  void FindKnownSets();
  void ForgetKnownSets() { known_.clear(); }
  int gpus_per_node() const { return per_node_; }

 private:
  struct Group {
    std::vector<int> nodes;
    int used = 0;
    int capacity = 0;
    std::vector<ArtifactJob*> jobs;
  };
  using Class = std::deque<Group*>;

  void Put(ArtifactJob* job, Group* group, int own_class);
  static void SortByUse(Class& groups);

  const int nodes_;
  const int per_node_;
  // Each node's number under its own switch. The artifact sorts free nodes by that alone, so the
  // nodes of several switches are interleaved.
  std::vector<int> number_;
  std::list<Group> groups_;
  std::map<int, Class> classes_;  // By GPU count.
  std::map<const ArtifactJob*, Group*> group_of_;
  std::deque<int> free_;                 // By number, those of one number as they came back.
  std::set<std::pair<int, int>> known_;  // (first rank, ranks): sets are always contiguous here.
};

}  // namespace rubato

#endif  // RUBATO_SIMULATE_ARTIFACT_NODES_H_
