#include "rubato/ring/company.h"

#include <algorithm>

namespace rubato {
namespace {

// Others who only change their view are heard of again within this time.
constexpr absl::Duration kDeserted = absl::Seconds(3);

}  // namespace

void Company::Note(const Peer& peer, absl::Time now) {
  finished = finished || peer.told_finished();
  heard = std::max(heard, peer.heard(now));
  if (!peer.stranger().empty()) stranger = peer.stranger();
}

bool Company::Over(absl::Time now) const { return finished && now - heard > kDeserted; }

}  // namespace rubato
