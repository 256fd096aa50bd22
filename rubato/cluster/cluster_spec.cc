#include "rubato/cluster/cluster_spec.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "rubato/base/status.h"
#include "rubato/cluster/csv.h"

namespace rubato {
namespace {

constexpr int kGpusMax = 1 << 20;

absl::Status CheckGroup(const NodeGroup& group) {
  const bool sane = group.racks > 0 && group.nodes_per_rack > 0 && group.gpus_per_node > 0 &&
                    group.sockets_per_node > 0;
  const double gpus = 1.0 * group.racks * group.nodes_per_rack * group.gpus_per_node;
  if (sane && group.sockets_per_node > group.gpus_per_node) {
    return absl::InvalidArgumentError(absl::StrFormat(
        "nodes with %d sockets for %d GPUs; sockets are those that GPUs hang on, so "
        "there are at most as many",
        group.sockets_per_node, group.gpus_per_node));
  }
  if (sane && gpus <= kGpusMax) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrFormat(
      "a cluster of %d x %d nodes with %d GPUs and %d sockets each; all must be "
      "positive, and at most %d GPUs in all",
      group.racks, group.nodes_per_rack, group.gpus_per_node, group.sockets_per_node, kGpusMax));
}

void AddNodes(const NodeGroup& group, int pool, int first_rack, ClusterSpec& spec) {
  Pool& grown = spec.pools[static_cast<size_t>(pool)];
  for (int rack = 0; rack < group.racks; ++rack) {
    for (int i = 0; i < group.nodes_per_rack; ++i) {
      spec.nodes.push_back({.gpus = group.gpus_per_node,
                            .sockets = group.sockets_per_node,
                            .cpus = group.cpus_per_node,
                            .memory_gb = group.memory_gb_per_node,
                            .rack = first_rack + rack,
                            .pool = pool,
                            .first_gpu = grown.first_gpu + grown.gpus});
      grown.gpus += group.gpus_per_node;
      ++grown.nodes;
    }
  }
}

}  // namespace

int ClusterSpec::gpus() const {
  int sum = 0;
  for (const Pool& pool : pools) sum += pool.gpus;
  return sum;
}

absl::StatusOr<ClusterSpec> BuildCluster(const std::vector<NodeGroup>& groups) {
  if (groups.empty()) return absl::InvalidArgumentError("the cluster has no nodes");
  ClusterSpec spec;
  std::vector<std::string> types;
  std::vector<int> first_rack;
  for (const NodeGroup& group : groups) {
    RUBATO_RETURN_IF_ERROR(CheckGroup(group));
    if (std::find(types.begin(), types.end(), group.gpu_type) == types.end()) {
      types.push_back(group.gpu_type);
    }
    first_rack.push_back(spec.racks);
    spec.racks += group.racks;
  }
  int gpus = 0;
  for (size_t pool = 0; pool < types.size(); ++pool) {
    spec.pools.push_back({.gpu_type = types[pool],
                          .first_gpu = gpus,
                          .first_node = static_cast<int>(spec.nodes.size())});
    for (size_t i = 0; i < groups.size(); ++i) {
      if (groups[i].gpu_type != types[pool]) continue;
      AddNodes(groups[i], static_cast<int>(pool), first_rack[i], spec);
    }
    gpus += spec.pools.back().gpus;
  }
  return spec;
}

absl::StatusOr<ClusterSpec> ParseClusterCsv(absl::string_view text, absl::string_view name) {
  RUBATO_ASSIGN_OR_RETURN(const CsvTable table, ParseCsv(text, name));
  RUBATO_ASSIGN_OR_RETURN(const size_t racks, table.Require({"num_switch"}));
  RUBATO_ASSIGN_OR_RETURN(const size_t nodes, table.Require({"num_node_p_switch"}));
  RUBATO_ASSIGN_OR_RETURN(const size_t gpus, table.Require({"num_gpu_p_node"}));
  const auto cpus = table.Find({"num_cpu_p_node"});
  const auto memory = table.Find({"mem_p_node"});
  const auto sockets = table.Find({"num_socket_p_node"});
  const auto type = table.Find({"gpu_type"});
  std::vector<NodeGroup> groups;
  for (const CsvTable::Row& row : table.rows) {
    const auto whole = [&](size_t column, int low) {
      return table.Whole(row, column, low, kGpusMax);
    };
    NodeGroup group;
    RUBATO_ASSIGN_OR_RETURN(group.racks, whole(racks, 1));
    RUBATO_ASSIGN_OR_RETURN(group.nodes_per_rack, whole(nodes, 1));
    RUBATO_ASSIGN_OR_RETURN(group.gpus_per_node, whole(gpus, 1));
    if (cpus) {
      RUBATO_ASSIGN_OR_RETURN(group.cpus_per_node, whole(*cpus, 0));
    }
    if (memory) {
      RUBATO_ASSIGN_OR_RETURN(group.memory_gb_per_node, whole(*memory, 0));
    }
    if (sockets) {
      RUBATO_ASSIGN_OR_RETURN(group.sockets_per_node, whole(*sockets, 1));
    }
    if (type) group.gpu_type = std::string(row.cells[*type]);
    if (absl::Status s = CheckGroup(group); !s.ok()) return table.Error(row, s.message());
    groups.push_back(std::move(group));
  }
  auto spec = BuildCluster(groups);
  if (!spec.ok()) return Annotate(spec.status(), name);
  return spec;
}

namespace {

// Digits alone, where SimpleAtoi would also take blanks and signs.
bool ReadCount(absl::string_view text, int& count) {
  return !text.empty() && std::all_of(text.begin(), text.end(), absl::ascii_isdigit) &&
         absl::SimpleAtoi(text, &count);
}

// A GPU type, as it stands in profiles and file names.
bool IsTypeName(absl::string_view text) {
  return !text.empty() && std::none_of(text.begin(), text.end(), absl::ascii_isspace);
}

}  // namespace

bool IsClusterShorthand(absl::string_view text) {
  if (text.size() < 4 || text[0] != 'n') return false;
  const size_t g = text.find('g');
  return g != absl::string_view::npos && text.find('.') == absl::string_view::npos &&
         text.find('/') == absl::string_view::npos && text[1] >= '0' && text[1] <= '9';
}

absl::StatusOr<ClusterSpec> ParseClusterShorthand(absl::string_view text) {
  std::vector<NodeGroup> groups;
  for (absl::string_view part : absl::StrSplit(text, '+')) {
    const std::vector<absl::string_view> halves = absl::StrSplit(part, absl::MaxSplits(':', 1));
    const std::vector<absl::string_view> sizes =
        absl::StrSplit(halves[0].substr(std::min<size_t>(1, halves[0].size())), 'g');
    NodeGroup group;
    if (!absl::StartsWith(part, "n") || sizes.size() != 2 ||
        !ReadCount(sizes[0], group.nodes_per_rack) || !ReadCount(sizes[1], group.gpus_per_node) ||
        (halves.size() == 2 && !IsTypeName(halves[1]))) {
      return absl::InvalidArgumentError(absl::StrCat("cluster \"", text, "\": \"", part,
                                                     "\" should read like n16g8 or n16g8:A100"));
    }
    if (halves.size() == 2) group.gpu_type = std::string(halves[1]);
    groups.push_back(std::move(group));
  }
  auto spec = BuildCluster(groups);
  if (!spec.ok()) return Annotate(spec.status(), absl::StrCat("cluster \"", text, "\""));
  return spec;
}

}  // namespace rubato
