#include "rubato/membership/wire.h"

#include <utility>

#include "absl/strings/str_format.h"
#include "rubato/base/bytes.h"
#include "rubato/base/status.h"

namespace rubato {
namespace {

constexpr uint16_t kMagic = 0x6272;  // "rb"
constexpr uint8_t kVersion = 2;
constexpr uint8_t kPacketVersion = 5;
constexpr uint8_t kSwim = 0;
constexpr uint8_t kViews = 1;

void PutMember(ByteWriter& out, const GroupMember& member) {
  out.Put<int64_t>(member.id.value());
  out.PutString(member.address);
}

GroupMember GetMember(ByteReader& in) {
  const MemberId id(in.Get<int64_t>());
  return {id, std::string(in.GetString())};
}

void PutBallot(ByteWriter& out, const Ballot& ballot) {
  out.Put(ballot.round);
  out.Put(ballot.proposer.value());
}

Ballot GetBallot(ByteReader& in) {
  const uint32_t round = in.Get<uint32_t>();
  return {round, MemberId(in.Get<int64_t>())};
}

void PutView(ByteWriter& out, const GroupView& view) {
  out.Put(view.number);
  out.Put<int32_t>(view.holders);
  out.Put(view.step);
  out.Put(view.parent);
  out.Put<uint32_t>(view.members.size());
  for (const GroupMember& member : view.members) PutMember(out, member);
}

absl::StatusOr<GroupView> GetView(ByteReader& in) {
  GroupView view;
  view.number = in.Get<uint64_t>();
  view.holders = in.Get<int32_t>();
  view.step = in.Get<int64_t>();
  view.parent = in.Get<uint64_t>();
  const uint32_t count = in.Get<uint32_t>();
  if (count > kMembersMax || view.holders < 0 || view.holders > static_cast<int>(count)) {
    return absl::InvalidArgumentError(
        absl::StrFormat("a view of %d members, %d holders", count, view.holders));
  }
  for (uint32_t i = 0; i < count && in.ok(); ++i) view.members.push_back(GetMember(in));
  return view;
}

void PutLosses(ByteWriter& out, const std::vector<Loss>& losses) {
  out.Put<uint32_t>(losses.size());
  for (const Loss& loss : losses) {
    out.Put(loss.member.value());
    out.Put(loss.noticed_by.value());
    out.Put(static_cast<uint8_t>(loss.reason));
  }
}

template <typename Enum>
absl::StatusOr<Enum> GetEnum(ByteReader& in, Enum last) {
  const uint8_t value = in.Get<uint8_t>();
  if (value > static_cast<uint8_t>(last)) {
    return absl::InvalidArgumentError(absl::StrFormat("unknown kind %d", value));
  }
  return static_cast<Enum>(value);
}

absl::StatusOr<std::vector<Loss>> GetLosses(ByteReader& in) {
  const uint32_t count = in.Get<uint32_t>();
  if (count > kMembersMax) {
    return absl::InvalidArgumentError(absl::StrFormat("%d members lost at once", count));
  }
  std::vector<Loss> losses;
  for (uint32_t i = 0; i < count && in.ok(); ++i) {
    Loss loss;
    loss.member = MemberId(in.Get<int64_t>());
    loss.noticed_by = MemberId(in.Get<int64_t>());
    RUBATO_ASSIGN_OR_RETURN(loss.reason, GetEnum(in, LossReason::kLeft));
    losses.push_back(loss);
  }
  return losses;
}

void PutSwim(ByteWriter& out, const SwimMessage& message) {
  out.Put(static_cast<uint8_t>(message.kind));
  out.Put(message.sequence);
  PutMember(out, message.target);
  out.Put<uint32_t>(message.rumours.size());
  for (const Rumour& rumour : message.rumours) {
    PutMember(out, rumour.member);
    out.Put(static_cast<uint8_t>(rumour.health));
    out.Put(rumour.incarnation);
  }
}

absl::StatusOr<SwimMessage> GetSwim(ByteReader& in, const GroupMember& from) {
  SwimMessage message;
  message.from = from;
  RUBATO_ASSIGN_OR_RETURN(message.kind, GetEnum(in, SwimMessage::Kind::kPull));
  message.sequence = in.Get<uint64_t>();
  message.target = GetMember(in);
  const uint32_t count = in.Get<uint32_t>();
  if (count > kMembersMax) {
    return absl::InvalidArgumentError(absl::StrFormat("%d rumours in one packet", count));
  }
  for (uint32_t i = 0; i < count && in.ok(); ++i) {
    Rumour rumour;
    rumour.member = GetMember(in);
    RUBATO_ASSIGN_OR_RETURN(rumour.health, GetEnum(in, Health::kGone));
    rumour.incarnation = in.Get<uint32_t>();
    message.rumours.push_back(std::move(rumour));
  }
  return message;
}

void PutViews(ByteWriter& out, const ViewMessage& message) {
  out.Put(static_cast<uint8_t>(message.kind));
  out.Put(message.number);
  PutBallot(out, message.ballot);
  PutBallot(out, message.accepted);
  out.Put(message.applied);
  out.Put(message.voted);
  out.Put(message.after_step);
  out.Put<uint8_t>(message.view.has_value());
  if (message.view) PutView(out, *message.view);
  PutLosses(out, message.gone);
}

absl::StatusOr<ViewMessage> GetViews(ByteReader& in, const GroupMember& from) {
  ViewMessage message;
  message.from = from;
  RUBATO_ASSIGN_OR_RETURN(message.kind, GetEnum(in, ViewMessage::Kind::kComplaint));
  message.number = in.Get<uint64_t>();
  message.ballot = GetBallot(in);
  message.accepted = GetBallot(in);
  message.applied = in.Get<int64_t>();
  message.voted = in.Get<int64_t>();
  message.after_step = in.Get<int64_t>();
  if (in.Get<uint8_t>() != 0) {
    RUBATO_ASSIGN_OR_RETURN(message.view, GetView(in));
  }
  RUBATO_ASSIGN_OR_RETURN(message.gone, GetLosses(in));
  return message;
}

}  // namespace

std::string EncodePacket(const Packet& packet) {
  std::string bytes;
  ByteWriter out(bytes);
  const bool swim = std::holds_alternative<SwimMessage>(packet.body);
  out.Put(kMagic);
  out.Put(kPacketVersion);
  out.Put(swim ? kSwim : kViews);
  out.Put(packet.group);
  out.Put(packet.view);
  out.Put(packet.mark);
  out.Put(packet.origin);
  out.Put(packet.step);
  PutMember(out, packet.from);
  out.Put(packet.finished.value());
  out.Put(packet.denied.value());
  if (swim) {
    PutSwim(out, std::get<SwimMessage>(packet.body));
  } else {
    PutViews(out, std::get<ViewMessage>(packet.body));
  }
  return bytes;
}

absl::StatusOr<Packet> DecodePacket(absl::string_view bytes) {
  ByteReader in(bytes);
  if (in.Get<uint16_t>() != kMagic || in.Get<uint8_t>() != kPacketVersion) {
    return absl::InvalidArgumentError("not a packet of a group, or of another version");
  }
  const uint8_t kind = in.Get<uint8_t>();
  Packet packet;
  packet.group = in.Get<uint64_t>();
  packet.view = in.Get<uint64_t>();
  packet.mark = in.Get<uint64_t>();
  packet.origin = in.Get<uint64_t>();
  packet.step = in.Get<int64_t>();
  packet.from = GetMember(in);
  packet.finished = MemberId(in.Get<int64_t>());
  packet.denied = MemberId(in.Get<int64_t>());
  if (kind == kSwim) {
    RUBATO_ASSIGN_OR_RETURN(packet.body, GetSwim(in, packet.from));
  } else if (kind == kViews) {
    RUBATO_ASSIGN_OR_RETURN(packet.body, GetViews(in, packet.from));
  } else {
    return absl::InvalidArgumentError(absl::StrFormat("unknown packet kind %d", kind));
  }
  RUBATO_RETURN_IF_ERROR(in.Check("packet"));
  if (in.remaining() > 0) return absl::InvalidArgumentError("bytes behind the packet's end");
  return packet;
}

std::string EncodeGroupView(const GroupView& view) {
  std::string bytes;
  ByteWriter out(bytes);
  PutView(out, view);
  return bytes;
}

absl::StatusOr<GroupView> DecodeGroupView(absl::string_view bytes) {
  ByteReader in(bytes);
  RUBATO_ASSIGN_OR_RETURN(GroupView view, GetView(in));
  RUBATO_RETURN_IF_ERROR(in.Check("view"));
  return view;
}

std::string EncodeReport(const ViewReport& report) {
  std::string bytes;
  ByteWriter out(bytes);
  out.Put(kVersion);
  PutMember(out, report.from);
  out.Put(report.view);
  for (const bool flag :
       {report.let_go, report.urgent, report.level, report.leaving, report.progress.working}) {
    out.Put<uint8_t>(flag);
  }
  out.Put(report.progress.finished);
  out.Put(report.progress.applied);
  out.Put(report.progress.voted);
  out.Put(report.offer);
  out.Put(report.answers);
  PutLosses(out, report.lost);
  return bytes;
}

absl::StatusOr<ViewReport> DecodeReport(absl::string_view bytes) {
  ByteReader in(bytes);
  if (in.Get<uint8_t>() != kVersion) {
    return absl::InvalidArgumentError("a report of a member of another version");
  }
  ViewReport report;
  report.from = GetMember(in);
  report.view = in.Get<uint64_t>();
  for (bool* flag :
       {&report.let_go, &report.urgent, &report.level, &report.leaving, &report.progress.working}) {
    *flag = in.Get<uint8_t>() != 0;
  }
  report.progress.finished = in.Get<int64_t>();
  report.progress.applied = in.Get<int64_t>();
  report.progress.voted = in.Get<int64_t>();
  report.offer = in.Get<int64_t>();
  report.answers = in.Get<uint64_t>();
  RUBATO_ASSIGN_OR_RETURN(report.lost, GetLosses(in));
  RUBATO_RETURN_IF_ERROR(in.Check("report"));
  return report;
}

std::string EncodeOrder(const ViewOrder& order) {
  std::string bytes;
  ByteWriter out(bytes);
  out.Put(kVersion);
  PutView(out, order.view);
  out.Put<uint8_t>(order.let_go);
  out.Put<uint8_t>(order.evicted);
  out.Put(order.after_step);
  out.Put(order.sequence);
  return bytes;
}

absl::StatusOr<ViewOrder> DecodeOrder(absl::string_view bytes) {
  ByteReader in(bytes);
  if (in.Get<uint8_t>() != kVersion) {
    return absl::InvalidArgumentError("an order of a master of another version");
  }
  ViewOrder order;
  RUBATO_ASSIGN_OR_RETURN(order.view, GetView(in));
  order.let_go = in.Get<uint8_t>() != 0;
  order.evicted = in.Get<uint8_t>() != 0;
  order.after_step = in.Get<int64_t>();
  order.sequence = in.Get<uint64_t>();
  RUBATO_RETURN_IF_ERROR(in.Check("order"));
  return order;
}

}  // namespace rubato
