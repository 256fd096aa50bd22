// The control messages of a group as bytes, little-endian, one packet a datagram:
//
//     magic u16 · version u8 · kind u8 · group u64 · view u64 · mark u64 · origin u64 · ...
//
// `group` is a hash of the group's name and secret, so that other groups are refused before
// anything of them is believed; `view` is the sender's, the fence of every message. Against
// strangers who mean harm, the adapter seals the packet as a whole where there is a secret.
#ifndef RUBATO_MEMBERSHIP_WIRE_H_
#define RUBATO_MEMBERSHIP_WIRE_H_

#include <cstdint>
#include <string>
#include <variant>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "rubato/membership/issued_views.h"
#include "rubato/membership/swim.h"
#include "rubato/membership/views.h"

namespace rubato {

struct Packet {
  uint64_t group = 0;
  uint64_t view = 0;  // The sender's view number,
  uint64_t mark = 0;  // and its mark; 0: not said.
  // Which founding the sender's view goes back to; 0: it has none, or a master's. Those of one job
  // and secret may be several, a dead one's last member and one resumed from its checkpoint.
  uint64_t origin = 0;
  int64_t step = -1;  // The last step that the sender has finished in that view.
  GroupMember from;
  // The life that is told: the group has done what it was for, and the sender is about to go. Null:
  // nobody is. A life's id never comes again, so a recording says nothing to a later one.
  MemberId finished;
  MemberId denied;  // Whose memory the sender may not open; null: nobody's.
  std::variant<SwimMessage, ViewMessage> body;
};

std::string EncodePacket(const Packet& packet);
// INVALID_ARGUMENT for bytes that are no packet of this version, DATA_LOSS for one cut short.
absl::StatusOr<Packet> DecodePacket(absl::string_view bytes);

// What a member and the master that issues its views tell each other; the master's own messages
// carry these.
std::string EncodeReport(const ViewReport& report);
absl::StatusOr<ViewReport> DecodeReport(absl::string_view bytes);
std::string EncodeOrder(const ViewOrder& order);
absl::StatusOr<ViewOrder> DecodeOrder(absl::string_view bytes);
// For a journal.
std::string EncodeGroupView(const GroupView& view);
absl::StatusOr<GroupView> DecodeGroupView(absl::string_view bytes);

}  // namespace rubato

#endif  // RUBATO_MEMBERSHIP_WIRE_H_
