#include "rubato/membership/view.h"

#include <algorithm>
#include <optional>

#include "absl/strings/str_cat.h"
#include "rubato/base/rng.h"

namespace rubato {
namespace {

const Standing* Find(const std::vector<Standing>& standings, MemberId id) {
  for (const Standing& standing : standings) {
    if (standing.member.id == id) return &standing;
  }
  return nullptr;
}

bool CanBegin(const Standing& standing, int64_t step) {
  return standing.applied <= step && step <= standing.voted;
}

bool HasCaughtUp(const Standing* standing, int64_t step) {
  return standing != nullptr && standing->applied >= 0 && CanBegin(*standing, step);
}

// See NextView. The first step, or the one after it, whichever suits more of the holders who stay.
int64_t FirstStep(const GroupView& old, const ViewChange& change) {
  std::optional<int64_t> held;  // All have its sum.
  int now = 0, later = 0;
  for (int i = 0; i < old.holders; ++i) {
    const Standing* standing = Find(change.standings, old.members[i].id);
    if (standing != nullptr) held = std::min(standing->voted, held.value_or(standing->voted));
  }
  if (!held) return old.step;
  for (int i = 0; i < old.holders; ++i) {
    const Standing* standing = Find(change.standings, old.members[i].id);
    if (standing == nullptr || change.leaving.contains(old.members[i].id)) continue;
    now += CanBegin(*standing, *held) ? 1 : 0;
    later += CanBegin(*standing, *held + 1) ? 1 : 0;
  }
  return std::max(old.step, *held + (later > 0 && later >= now ? 1 : 0));
}

}  // namespace

int GroupView::RankOf(MemberId member) const {
  for (size_t i = 0; i < members.size(); ++i) {
    if (members[i].id == member) return static_cast<int>(i);
  }
  return -1;
}

bool GroupView::Holds(MemberId member) const {
  const int rank = RankOf(member);
  return rank >= 0 && rank < holders;
}

bool GroupView::IsMajority(const std::set<MemberId>& agreed) const {
  const int count = static_cast<int>(
      std::count_if(agreed.begin(), agreed.end(), [&](MemberId id) { return Holds(id); }));
  const bool with_oldest = holders > 0 && agreed.contains(members[0].id);
  return 2 * count > holders || (2 * count == holders && with_oldest);
}

uint64_t GroupView::Mark() const {
  if (number == 0) return 0;
  uint64_t mark = Mix(Mix(Mix(parent, number), step), holders);
  for (const GroupMember& member : members) {
    mark = Mix(mark, static_cast<uint64_t>(member.id.value()));
  }
  return mark;
}

std::string GroupView::ToString() const {
  std::string text = absl::StrCat("view ", number, " after step ", step, ":");
  for (int i = 0; i < size(); ++i) {
    absl::StrAppend(&text, i == holders ? " | " : " ", members[i].id.ToString());
  }
  return text;
}

const char* Name(LossReason reason) {
  switch (reason) {
    case LossReason::kProcess:
      return "process";
    case LossReason::kRefused:
      return "refused";
    case LossReason::kHearsay:
      return "hearsay";
    case LossReason::kExit:
      return "exit";
    case LossReason::kSocket:
      return "socket";
    case LossReason::kLease:
      return "lease";
    case LossReason::kSilent:
      return "silent";
    case LossReason::kLink:
      return "link";
    case LossReason::kLeft:
      return "left";
  }
  return "unknown";
}

bool IsProof(LossReason reason) { return reason <= LossReason::kExit; }

GroupView NextView(const GroupView& old, const ViewChange& change, RingBug bug) {
  GroupView next{.number = old.number + 1, .parent = old.Mark()};
  next.step = FirstStep(old, change);
  std::vector<GroupMember> learners;
  for (int i = 0; i < old.holders; ++i) {
    const Standing* standing = Find(change.standings, old.members[i].id);
    if (standing == nullptr || change.leaving.contains(old.members[i].id)) continue;
    if (bug == RingBug::kSourceIsRankZero && next.members.empty()) next.step = standing->applied;
    const bool level = bug != RingBug::kNone || CanBegin(*standing, next.step);
    (level ? next.members : learners).push_back(old.members[i]);
  }
  for (int i = old.holders; i < old.size(); ++i) {
    const GroupMember& member = old.members[i];
    if (change.leaving.contains(member.id)) continue;
    if (HasCaughtUp(Find(change.standings, member.id), next.step)) {
      next.members.push_back(member);
    } else if (std::count(change.keep.begin(), change.keep.end(), member) > 0) {
      learners.push_back(member);
    }
  }
  next.holders = next.size();
  next.members.insert(next.members.end(), learners.begin(), learners.end());
  for (const GroupMember& member : change.newcomers) {
    if (next.size() < kMembersMax && !next.Contains(member.id)) next.members.push_back(member);
  }
  if (bug == RingBug::kRankByAddress) {
    std::sort(next.members.begin(), next.members.end(),
              [](const GroupMember& a, const GroupMember& b) { return a.address < b.address; });
  }
  return next;
}

}  // namespace rubato
