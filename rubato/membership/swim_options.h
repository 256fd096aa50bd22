// How eagerly the failure detector looks, and what that costs.
#ifndef RUBATO_MEMBERSHIP_SWIM_OPTIONS_H_
#define RUBATO_MEMBERSHIP_SWIM_OPTIONS_H_

#include "absl/status/status.h"
#include "absl/time/time.h"

namespace rubato {

// Each member sends one probe every `probe_period` and answers about one: about 2 packets a
// period in each direction, whatever the size of the group. A silent member (frozen, or behind a
// dead link: a killed process is noticed by its closed socket) is dropped by all after about
//
//     probe_period * (0 to 1, and seldom more, until someone probes it, + 1, the probe)
//       + probe_period * suspicion_factor * max(1, log10(n))
//
// A smaller `suspicion_factor` drops sooner and errs more often; an error costs a view change
// and a copy of the state.
struct SwimOptions {
  absl::Duration probe_period = absl::Milliseconds(200);
  absl::Duration probe_timeout = absl::Milliseconds(100);  // Then others are asked to try.
  int indirect_probes = 2;
  double suspicion_factor = 2.5;
  absl::Duration gossip_period = absl::Milliseconds(100);  // Only while there is news.
  int gossip_fanout = 3;
  // The whole table, exchanged with one other, dead or alive: what finds the other half again
  // after a partition. Costs 30-60 bytes a member each time.
  absl::Duration push_pull_period = absl::Seconds(5);
  int rumours_per_packet = 8;
  double retransmit_factor = 3;  // A rumour rides on factor * ceil(log10(n + 1)) packets.
  absl::Duration forget_after = absl::Minutes(10);  // How long the dead are remembered.

  // What they cost at rest, which swim_test holds against a simulated group. A round trip comes on
  // top of each time.
  //
  // Processes of one machine. 8 members: 11 packets/s and 2.1 KB/s sent by each, and as much
  // received; a frozen one is dropped after 0.6-1.8 s, in the mean 0.8.
  static SwimOptions Loopback();
  // One data centre. 8 members: 10.4 packets/s and 1.8 KB/s sent by each; a frozen one is dropped
  // after 0.7-1.8 s, within a lease of 2 s, in the mean 0.9.
  static SwimOptions Lan();
  // Between continents. 8 members: 1 packet/s and 190 bytes/s sent by each; a frozen one is dropped
  // after 8-18 s, in the mean 10.
  static SwimOptions Wan();

  absl::Status Validate() const;
};

}  // namespace rubato

#endif  // RUBATO_MEMBERSHIP_SWIM_OPTIONS_H_
