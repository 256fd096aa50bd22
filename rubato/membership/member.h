// One life of one process in a group that has no master to number its members.
#ifndef RUBATO_MEMBERSHIP_MEMBER_H_
#define RUBATO_MEMBERSHIP_MEMBER_H_

#include <string>

#include "rubato/base/ids.h"

namespace rubato {

struct MemberTag {
  static constexpr const char* kPrefix = "member";
};

// Drawn at random when a life begins (63 bits) and never used again: a process that was given up
// for dead and comes back is a new member, so its old messages fence themselves.
using MemberId = Id<MemberTag>;

// More members than this are taken for garbage; a packet of that many fits 64 KB. So no view is
// made of more, and newcomers wait until there is room.
inline constexpr int kMembersMax = 1000;

struct GroupMember {
  MemberId id;
  std::string address;  // Where packets for it go; opaque to the core.
  friend bool operator==(const GroupMember&, const GroupMember&) = default;
};

}  // namespace rubato

#endif  // RUBATO_MEMBERSHIP_MEMBER_H_
