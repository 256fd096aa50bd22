// Looks over the shoulder of Placement, with books of its own.
//
// After every decision it is shown where all jobs lie. Nothing that it holds against that comes
// from Placement itself, so a mistake there does not vouch for itself. O(GPUs) a look. Not
// thread-safe.
#ifndef RUBATO_CLUSTER_PLACEMENT_AUDIT_H_
#define RUBATO_CLUSTER_PLACEMENT_AUDIT_H_

#include <cstdint>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "rubato/cluster/cluster_spec.h"
#include "rubato/cluster/job_id.h"

namespace rubato {

class PlacementAudit {
 public:
  // What a job was planned, and what it got.
  struct Held {
    JobId job;
    int gpus = 0;
    int pool = 0;
    absl::Span<const int> where;  // Ascending.
    bool pinned = false;          // Must lie where it lay, while its number stays.
  };

  explicit PlacementAudit(const ClusterSpec& spec);
  void FailNode(int node) { Serve(node, kDown); }
  void RepairNode(int node) { Serve(node, nodes_[static_cast<size_t>(node)].pool); }

  // All jobs that hold GPUs, ascending, and those that are said to hold other ones than at the last
  // look (they pay for it). INTERNAL naming the job and the GPU if a job holds another number than
  // planned, lies outside its pool or on a node out of service, shares a GPU, was moved though
  // pinned, or holds other GPUs though nobody said so.
  absl::Status Look(absl::Span<const Held> jobs, absl::Span<const JobId> changed);

 private:
  static constexpr int kDown = -1;
  static constexpr int64_t kNobody = -1;

  void Serve(int node, int pool);
  // Writes the job down as the owner of its GPUs, `kept` of which it had before.
  absl::Status Take(const Held& held, int& kept);
  absl::Status CheckChange(const Held& held, int kept, bool said);
  // Of a job at the last look; to be asked in ascending order.
  int GpusBefore(JobId job);

  std::vector<Node> nodes_;
  std::vector<int> serves_;                                    // By GPU: its pool, or kDown.
  std::vector<int64_t> owner_;                                 // By GPU, as of this look,
  std::vector<int64_t> before_;                                // and of the last.
  std::vector<std::pair<JobId, int>> counts_, counts_before_;  // Ascending by job.
  size_t next_before_ = 0;  // Where in counts_before_ the next job is looked for.
};

}  // namespace rubato

#endif  // RUBATO_CLUSTER_PLACEMENT_AUDIT_H_
