#include "rubato/adapters/ring/group_settings.h"

#include <algorithm>
#include <array>
#include <map>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "rubato/adapters/ring/endpoint.h"

namespace rubato {
namespace {

constexpr const char* kWires[] = {"fp32", "bf16", "fp16"};  // By WireFormat.

// Changes with what is summed with whom, and in which order: builds that differ in it would mix up
// each other's frames.
constexpr absl::string_view kSums = "order of sums: machine by machine, in memory first\n";
// So do those of which one does not say what it calls: see CallWord.
constexpr absl::string_view kCalls = "calls: named to each other\n";

}  // namespace

absl::Status CheckOptions(const GroupOptions& options) {
  if (options.kept_bytes_max < 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("kept_bytes_max is ", options.kept_bytes_max, ": it must not be negative"));
  }
  if (options.microbatches < 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("microbatches is ", options.microbatches, ": a step needs at least 1"));
  }
  const bool issued = options.report != nullptr;
  const bool has_state = options.first_step >= 0 || !options.join.empty();
  if (options.first_step < -1 || (!issued && !has_state)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "first_step is ", options.first_step, ": it is the step that a founder's state is after, ",
        "0 for a new one; -1, for none, is for members of a master's group or who join others"));
  }
  if (issued && options.report_period <= absl::ZeroDuration()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "report_period is ", absl::FormatDuration(options.report_period), ": it must be above 0"));
  }
  return absl::OkStatus();
}

SwimOptions SwimFor(GroupNetwork network) {
  switch (network) {
    case GroupNetwork::kLoopback:
      return SwimOptions::Loopback();
    case GroupNetwork::kLan:
      return SwimOptions::Lan();
    case GroupNetwork::kWan:
      return SwimOptions::Wan();
  }
  return SwimOptions::Lan();
}

ViewOptions ViewsFor(const GroupOptions& options, const SwimOptions& swim) {
  ViewOptions views;
  views.quorum = options.quorum;
  views.retry = swim.probe_timeout / 4;
  // A worker without a core for a moment must not be dropped for it. On one machine the dead are
  // known by their processes; elsewhere silence may be all there is.
  const int patience = options.network == GroupNetwork::kLan ? 4 : 2;
  views.promise_timeout = swim.probe_period * patience;
  views.takeover = swim.probe_period * (patience + patience / 2);
  views.gather = swim.gossip_period;
  return views;
}

// A second passes before the kernel asks, and one answer may be lost.
absl::Duration LinkLease(const GroupOptions& options) {
  return std::max(options.lease, absl::Seconds(options.network == GroupNetwork::kWan ? 10 : 2));
}

size_t KeptBytesMax(const GroupOptions& options) {
  if (options.kept_bytes_max > 0) return options.kept_bytes_max;
  size_t state = 0;
  for (const absl::Span<char> piece : options.state) state += piece.size();
  return std::max(2 * state, size_t{256} << 20);
}

absl::Status CheckRoot(int root, const GroupView& view) {
  if (root >= 0 && root < view.size()) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("root ", root, " is no rank of ", view.ToString()));
}

bool AllShareMemory(const GroupView& view, const std::string& node) {
  return std::all_of(view.members.begin(), view.members.end(), [&](const GroupMember& member) {
    const absl::StatusOr<Endpoint> endpoint = ParseEndpoint(member.address);
    return endpoint.ok() && endpoint->node == node && endpoint->memory_fd >= 0;
  });
}

std::vector<int> RingOrder(const GroupView& view) {
  std::vector<Endpoint> places;
  for (const GroupMember& member : view.members) {
    places.push_back(ParseEndpoint(member.address).value_or(Endpoint()));
  }
  // The oldest that `rank` is like stands for all of them.
  const auto first = [&](int rank, auto alike) {
    int oldest = 0;
    while (oldest < rank && !alike(places[oldest], places[rank])) ++oldest;
    return oldest;
  };
  const auto same_node = [](const Endpoint& a, const Endpoint& b) {
    return a.node == b.node && !a.node.empty();
  };
  // Of one machine are also those who may not see each other's memory, for rights or namespaces.
  const auto same_machine = [&](const Endpoint& a, const Endpoint& b) {
    return same_node(a, b) || (a.host == b.host && !a.host.empty());
  };
  std::vector<std::array<int, 3>> order;  // By machine, node, age.
  for (int rank = 0; rank < view.size(); ++rank) {
    const int alike = first(rank, same_machine);
    const int machine = alike < rank ? order[alike][0] : rank;
    order.push_back({machine, first(rank, same_node), rank});
  }
  std::sort(order.begin(), order.end());
  std::vector<int> ranks;
  for (const auto& place : order) ranks.push_back(place[2]);
  return ranks;
}

std::vector<std::vector<int>> MachinesOf(const GroupView& view) {
  std::vector<std::vector<int>> machines;
  std::map<std::string, size_t> by_node;  // Of those who share memory.
  for (int rank = 0; rank < view.size(); ++rank) {
    const Endpoint place = ParseEndpoint(view.members[rank].address).value_or(Endpoint());
    size_t machine = machines.size();
    if (place.memory_fd >= 0) machine = by_node.emplace(place.node, machine).first->second;
    if (machine == machines.size()) machines.emplace_back();
    machines[machine].push_back(rank);
  }
  return machines;
}

std::string ContractOf(const GroupOptions& options) {
  std::vector<size_t> sizes;
  for (const absl::Span<char> piece : options.state) sizes.push_back(piece.size());
  return absl::StrCat("name: ", options.name, "\nmicrobatches: ", options.microbatches,
                      "\nquorum: ", options.quorum == Quorum::kMajority ? "majority" : "any",
                      "\nwire: ", kWires[static_cast<int>(options.wire)],
                      "\nbytes of state: ", absl::StrJoin(sizes, " + "), "\n", kSums, kCalls,
                      options.early_apply ? "steps: applied early\n" : "", options.contract);
}

}  // namespace rubato
