#include "rubato/membership/swim_options.h"

#include "absl/strings/str_format.h"

namespace rubato {

SwimOptions SwimOptions::Loopback() {
  SwimOptions options;
  options.probe_period = absl::Milliseconds(200);
  options.probe_timeout = absl::Milliseconds(60);
  options.indirect_probes = 1;
  options.suspicion_factor = 2;
  options.gossip_period = absl::Milliseconds(20);
  options.push_pull_period = absl::Seconds(2);
  return options;
}

SwimOptions SwimOptions::Lan() { return SwimOptions(); }

SwimOptions SwimOptions::Wan() {
  SwimOptions options;
  options.probe_period = absl::Seconds(2);
  options.probe_timeout = absl::Milliseconds(800);
  options.indirect_probes = 3;
  options.suspicion_factor = 3;
  options.gossip_period = absl::Milliseconds(400);
  options.push_pull_period = absl::Seconds(30);
  return options;
}

absl::Status SwimOptions::Validate() const {
  if (probe_timeout <= absl::ZeroDuration() || probe_timeout * 2 > probe_period) {
    return absl::InvalidArgumentError(absl::StrFormat(
        "probe_timeout is %s: it must be above 0 and at most half of probe_period (%s), so that "
        "an indirect probe fits behind it",
        absl::FormatDuration(probe_timeout), absl::FormatDuration(probe_period)));
  }
  if (suspicion_factor < 1) {
    return absl::InvalidArgumentError(absl::StrFormat(
        "suspicion_factor is %g: below 1 a suspect cannot answer in time", suspicion_factor));
  }
  if (gossip_period <= absl::ZeroDuration() || push_pull_period <= absl::ZeroDuration()) {
    return absl::InvalidArgumentError("gossip_period and push_pull_period must be above 0");
  }
  if (gossip_fanout < 1 || rumours_per_packet < 1 || indirect_probes < 0) {
    return absl::InvalidArgumentError(
        "gossip_fanout and rumours_per_packet must be at least 1, indirect_probes at least 0");
  }
  return absl::OkStatus();
}

}  // namespace rubato
