// Which members do not reach each other though both live, by what they complain of.
//
// A connection that breaks, or falls silent, may have done so by accident, and a new view of the
// same members mends it. When the same two complain again in a later view, it is their link, and
// one of them must make room: the others cannot train with both. Whoever made room comes again
// under another id, and its link may still be dead; so it has to wait before it is let in, longer
// each time. Who only seems dead to another, and makes room for it, waits no longer than the first
// time: that may have been a mistake, and its next life is believed to live.
#ifndef RUBATO_MEMBERSHIP_BROKEN_LINKS_H_
#define RUBATO_MEMBERSHIP_BROKEN_LINKS_H_

#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <utility>

#include "absl/time/time.h"
#include "rubato/membership/view.h"

namespace rubato {

// Unordered pairs, the smaller id first.
using Links = std::set<std::pair<MemberId, MemberId>>;

// Whether this is how a broken link shows itself: both ends may live.
bool IsBrokenLink(LossReason reason);

// The members of `view` to leave out so that no link is left: learners first, since they hold
// nothing, but for those `spared`; then whoever has most of them; then the youngest.
std::set<MemberId> ThinOut(const GroupView& view, Links links,
                           const std::function<bool(MemberId)>& spared);

class BrokenLinks {
 public:
  // `from`, in `view`, has lost its connection to `other`, a member too.
  void Complain(const GroupView& view, MemberId from, MemberId other, absl::Time now);
  // Those of `view` that were complained of in it, and before.
  Links Of(const GroupView& view) const;
  // `member`, whose link is broken or else only seems to be, makes room, and is not let in again
  // for a while.
  void LeaveOut(const GroupMember& member, bool broken, absl::Time now);
  bool MustWait(const GroupMember& newcomer, absl::Time now) const;

 private:
  struct Complaint {
    uint64_t view = 0;  // The last.
    absl::Time at = absl::InfinitePast();
    bool repeated = false;
  };
  struct Bar {
    absl::Time until = absl::InfinitePast();
    absl::Duration time;  // For a broken link.
  };
  // By address, which a process keeps from one life to the next.
  std::map<std::pair<std::string, std::string>, Complaint> complaints_;
  std::map<std::string, Bar> bars_;
};

}  // namespace rubato

#endif  // RUBATO_MEMBERSHIP_BROKEN_LINKS_H_
