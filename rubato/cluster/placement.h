// Which GPUs each job holds: the leaves of the tree cluster > rack > node > socket > GPU.
//
// Small jobs get aligned blocks inside a node (buddies), large ones whole nodes. Best fit: the
// block is cut from the node whose free count is closest to the need. While sizes are powers of
// two that divide the nodes, enough free GPUs always means that a block exists or can be made by
// moving smaller jobs; other sizes are scattered over as few nodes as possible.
//
// Jobs are moved only when a block cannot be had otherwise; every move is counted. A GPU has at
// most one owner, and a job's GPUs lie in one pool: whatever is taken is checked, in release too,
// to be free, in service and of one pool, and every target to hold what it should. Deterministic.
// Not thread-safe.
#ifndef RUBATO_CLUSTER_PLACEMENT_H_
#define RUBATO_CLUSTER_PLACEMENT_H_

#include <cstdint>
#include <map>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "rubato/cluster/cluster_spec.h"
#include "rubato/cluster/curve.h"
#include "rubato/cluster/job_id.h"

namespace rubato {

class Placement {
 public:
  // What a job should hold from now on. Jobs not named keep their number of GPUs.
  struct Target {
    JobId job;
    int pool = 0;
    int gpus = 0;  // 0 releases everything.
  };
  struct Change {
    std::vector<JobId> changed;  // Ascending: the jobs that hold GPUs and hold other ones now.
    int migrations = 0;          // Jobs that had to leave a GPU which their new size allowed.
  };

  explicit Placement(ClusterSpec spec);

  // Brings every target about, or nothing: RESOURCE_EXHAUSTED if a pool has too few GPUs alive.
  // Jobs in `pinned` (ascending) are not moved to make room for others, who are scattered instead.
  absl::StatusOr<Change> Apply(absl::Span<const Target> targets,
                               absl::Span<const JobId> pinned = {});

  // Takes a node out of service; the jobs that held GPUs there lose all of theirs and are
  // returned, ascending. Nothing happens to a node that is down already.
  std::vector<JobId> FailNode(int node);
  void RepairNode(int node);

  // The job's GPUs, ascending; empty if it holds none.
  absl::Span<const int> Gpus(JobId job) const;
  // The GPUs of every job that holds some, by job.
  const std::map<JobId, std::vector<int>>& held() const { return held_; }
  Span SpanOf(JobId job) const;
  int free_gpus(int pool) const { return pools_[static_cast<size_t>(pool)].free; }
  int alive_gpus(int pool) const { return pools_[static_cast<size_t>(pool)].alive; }
  const ClusterSpec& spec() const { return spec_; }
  // INTERNAL naming the first broken promise, if any; O(GPUs).
  absl::Status Check() const;

 private:
  struct PoolState {
    int free = 0;
    int alive = 0;
  };
  using Gpuset = std::vector<int>;  // Ascending.

  Node& node(int i) { return spec_.nodes[static_cast<size_t>(i)]; }
  const Node& node(int i) const { return spec_.nodes[static_cast<size_t>(i)]; }
  int NodeOf(int gpu) const { return node_of_[static_cast<size_t>(gpu)]; }
  bool Free(int gpu) const { return owner_[static_cast<size_t>(gpu)] < 0; }
  bool Up(int n) const { return up_[static_cast<size_t>(n)]; }
  int NodeFree(int n) const { return node_free_[static_cast<size_t>(n)]; }

  void Take(JobId job, Gpuset gpus);
  Gpuset Release(JobId job);
  void Shrink(JobId job, int gpus);
  // A first free aligned block of `gpus` in node `n`, or -1. `gpus` divides its GPU count.
  int BlockIn(int n, int gpus) const;
  // Whether a job of `gpus` can be had as buddies in this pool.
  bool BuddySize(int pool, int gpus) const;
  // Each finds GPUs for a job without moving anyone; empty if it cannot.
  Gpuset GrowInPlace(int pool, int gpus, const Gpuset& old) const;
  Gpuset FindBlock(int pool, int gpus) const;
  Gpuset FindNodes(int pool, int gpus) const;
  Gpuset Scatter(int pool, int gpus) const;
  // Empties the cheapest place for a buddy of `gpus`; the jobs put out are appended to `homeless`
  // with what they held. Empty if there is none.
  Gpuset Evacuate(int pool, int gpus, absl::Span<const JobId> pinned,
                  std::map<JobId, Gpuset>& homeless);
  // Finds room for everyone in `queue`, largest first.
  void PlaceAll(std::vector<Target> queue, absl::Span<const JobId> pinned,
                std::map<JobId, Gpuset>& before);

  ClusterSpec spec_;
  std::vector<int> node_of_;    // By GPU.
  std::vector<int64_t> owner_;  // By GPU; -1 is free.
  std::vector<int> node_free_;  // By node; 0 while it is down.
  std::vector<bool> up_;        // By node.
  std::vector<PoolState> pools_;
  std::map<JobId, Gpuset> held_;  // Ordered, so that evacuation is repeatable.
};

}  // namespace rubato

#endif  // RUBATO_CLUSTER_PLACEMENT_H_
