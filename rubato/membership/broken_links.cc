#include "rubato/membership/broken_links.h"

#include <algorithm>
#include <tuple>

namespace rubato {
namespace {

constexpr absl::Duration kAccident = absl::Minutes(1);  // Complaints further apart are two.
constexpr absl::Duration kMemory = absl::Minutes(20);   // More than the longest wait.
constexpr absl::Duration kWaitMin = absl::Seconds(10);
constexpr absl::Duration kWaitMax = absl::Minutes(10);

const std::string& AddressOf(const GroupView& view, MemberId member) {
  return view.members[static_cast<size_t>(view.RankOf(member))].address;
}

std::pair<std::string, std::string> Between(const std::string& a, const std::string& b) {
  return std::minmax(a, b);
}

}  // namespace

bool IsBrokenLink(LossReason reason) {
  return reason == LossReason::kSocket || reason == LossReason::kLink;
}

std::set<MemberId> ThinOut(const GroupView& view, Links links,
                           const std::function<bool(MemberId)>& spared) {
  std::set<MemberId> out;
  while (!links.empty()) {
    std::tuple<bool, int64_t, int> most;
    for (int rank = 0; rank < view.size(); ++rank) {
      const MemberId id = view.members[rank].id;
      const auto count = std::count_if(links.begin(), links.end(), [&](const auto& link) {
        return link.first == id || link.second == id;
      });
      if (count > 0) most = std::max(most, {!spared(id), count, rank});
    }
    const MemberId worst = view.members[std::get<2>(most)].id;
    out.insert(worst);
    std::erase_if(links, [&](const auto& l) { return l.first == worst || l.second == worst; });
  }
  return out;
}

void BrokenLinks::Complain(const GroupView& view, MemberId from, MemberId other, absl::Time now) {
  if (from == other || !view.Contains(from) || !view.Contains(other)) return;
  Complaint& last = complaints_[Between(AddressOf(view, from), AddressOf(view, other))];
  if (now > last.at + (last.repeated ? kMemory : kAccident)) last = Complaint();
  if (last.view != 0 && last.view != view.number) last.repeated = true;
  last.view = view.number;
  last.at = now;
}

Links BrokenLinks::Of(const GroupView& view) const {
  Links links;
  for (int a = 0; a < view.size(); ++a) {
    for (int b = a + 1; b < view.size(); ++b) {
      const auto last = complaints_.find(Between(view.members[a].address, view.members[b].address));
      if (last == complaints_.end() || !last->second.repeated) continue;
      if (last->second.view != view.number) continue;
      links.insert(std::minmax(view.members[a].id, view.members[b].id));
    }
  }
  return links;
}

void BrokenLinks::LeaveOut(const GroupMember& member, bool broken, absl::Time now) {
  Bar& bar = bars_[member.address];
  if (now < bar.until) return;
  const bool again = now < bar.until + kMemory;
  if (broken) bar.time = again ? std::clamp(bar.time * 2, kWaitMin, kWaitMax) : kWaitMin;
  bar.until = now + (broken ? bar.time : kWaitMin);
}

bool BrokenLinks::MustWait(const GroupMember& newcomer, absl::Time now) const {
  const auto bar = bars_.find(newcomer.address);
  return bar != bars_.end() && now < bar->second.until;
}

}  // namespace rubato
