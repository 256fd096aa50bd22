// What a process has heard of its group, in all of its lives.
#ifndef RUBATO_RING_COMPANY_H_
#define RUBATO_RING_COMPANY_H_

#include <cstdint>
#include <set>
#include <string>

#include "absl/time/time.h"
#include "rubato/ring/peer.h"

namespace rubato {

struct Company {
  uint64_t origin = 0;                      // The founding that it belonged to last; 0: none yet.
  std::set<uint64_t> finished;              // Of all foundings: see Peer::finished.
  absl::Time heard = absl::InfinitePast();  // See Peer::heard.
  std::string stranger;                     // See Peer::stranger.

  // What `peer`, the life of this moment, knows. Also when that life ends.
  void Note(const Peer& peer, absl::Time now);
  // One of its founding has said that the group has done what it was for. To one that belongs to
  // none yet, anyone may say so; what another founding has done does not make up for one's own.
  bool Finished() const;
  // Whether the group has done what it was for, and nobody is there any more to take this process
  // further: it came too late for the state, and need not wait for it.
  bool Over(absl::Time now) const;
};

}  // namespace rubato

#endif  // RUBATO_RING_COMPANY_H_
