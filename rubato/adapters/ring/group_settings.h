// What the options of a group come to for its parts.
#ifndef RUBATO_ADAPTERS_RING_GROUP_SETTINGS_H_
#define RUBATO_ADAPTERS_RING_GROUP_SETTINGS_H_

#include <string>
#include <vector>

#include "rubato/adapters/ring/elastic_group.h"
#include "rubato/membership/swim_options.h"
#include "rubato/membership/views.h"

namespace rubato {

// INVALID_ARGUMENT, naming the option, if no group can be made with them.
absl::Status CheckOptions(const GroupOptions& options);
SwimOptions SwimFor(GroupNetwork network);
ViewOptions ViewsFor(const GroupOptions& options, const SwimOptions& swim);
// After which silence a connection is taken for dead.
absl::Duration LinkLease(const GroupOptions& options);
// GroupOptions::kept_bytes_max, or what stands for 0.
size_t KeptBytesMax(const GroupOptions& options);
// INVALID_ARGUMENT if nobody has that rank.
absl::Status CheckRoot(int root, const GroupView& view);
// Whether all members are on the machine `node`, and share memory there.
bool AllShareMemory(const GroupView& view, const std::string& node);
// The ranks in the order in which members are to stand side by side in a ring: those of one machine
// together, by age else, so that few sums cross the network. It follows from the view alone.
std::vector<int> RingOrder(const GroupView& view);
// The ranks that share memory with each other, machine by machine, by age; whoever shares none is a
// machine of its own. It follows from the view alone too.
std::vector<std::vector<int>> MachinesOf(const GroupView& view);
// What must be the same for all, a line each.
std::string ContractOf(const GroupOptions& options);

}  // namespace rubato

#endif  // RUBATO_ADAPTERS_RING_GROUP_SETTINGS_H_
