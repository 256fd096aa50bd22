// What a cluster is made of: nodes with GPUs of one type each, CPUs and memory, under racks.
#ifndef RUBATO_CLUSTER_CLUSTER_SPEC_H_
#define RUBATO_CLUSTER_CLUSTER_SPEC_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace rubato {

struct Node {
  int gpus = 0;
  int sockets = 1;  // GPUs are spread evenly over them.
  int cpus = 0;
  int memory_gb = 0;
  int rack = 0;
  int pool = 0;       // Index into ClusterSpec::pools.
  int first_gpu = 0;  // GPUs are numbered through the cluster, those of a node in a row.
};

// All nodes with one type of GPU. A job runs in one pool at a time. The GPUs and the nodes of a
// pool are numbered in a row.
struct Pool {
  std::string gpu_type;  // Empty if the spec names none: the name given with the profiles then.
  int gpus = 0;
  int first_gpu = 0;
  int first_node = 0;
  int nodes = 0;
};

struct ClusterSpec {
  std::vector<Node> nodes;  // By pool, then by rack.
  std::vector<Pool> pools;
  int racks = 0;

  int gpus() const;
};

// A group of like nodes, from which a spec is built.
struct NodeGroup {
  int racks = 1;
  int nodes_per_rack = 1;
  int gpus_per_node = 1;
  int sockets_per_node = 1;
  int cpus_per_node = 0;
  int memory_gb_per_node = 0;
  std::string gpu_type;
};

// INVALID_ARGUMENT if there is no GPU at all or a count is out of range.
absl::StatusOr<ClusterSpec> BuildCluster(const std::vector<NodeGroup>& groups);

// Reads a CSV with the columns num_switch, num_node_p_switch, num_gpu_p_node, num_cpu_p_node and
// mem_p_node, and optionally gpu_type and num_socket_p_node; one row for each group of like
// nodes. `name` is put before messages, as "name:line: ...".
absl::StatusOr<ClusterSpec> ParseClusterCsv(absl::string_view text, absl::string_view name);

// Reads the short form "n16g8", "n16g8:A100" or "n16g8:A100+n4g4:T4": nodes, GPUs on each, type.
absl::StatusOr<ClusterSpec> ParseClusterShorthand(absl::string_view text);
// Whether `text` looks like the short form rather than a file name.
bool IsClusterShorthand(absl::string_view text);

}  // namespace rubato

#endif  // RUBATO_CLUSTER_CLUSTER_SPEC_H_
