#include "rubato/ring/company.h"

#include <algorithm>

namespace rubato {
namespace {

// Others who only change their view are heard of again within this time.
constexpr absl::Duration kDeserted = absl::Seconds(3);

}  // namespace

void Company::Note(const Peer& peer, absl::Time now) {
  if (peer.origin() != 0) origin = peer.origin();
  finished.insert(peer.finished().begin(), peer.finished().end());
  heard = std::max(heard, peer.heard(now));
  if (!peer.stranger().empty()) stranger = peer.stranger();
}

bool Company::Finished() const {
  return origin == 0 ? !finished.empty() : finished.contains(origin);
}

bool Company::Over(absl::Time now) const { return Finished() && now - heard > kDeserted; }

}  // namespace rubato
