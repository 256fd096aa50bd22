#include "rubato/membership/view_authority.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_format.h"

namespace rubato {
namespace {

constexpr double kClockSeconds = 0.02;  // Between two reports that tell the rate of steps.
// Some may yet be in the step before the one that all are to finish.
constexpr double kPatienceSteps = 2;

}  // namespace

absl::Status AuthorityOptions::Validate() const {
  if (retry <= absl::ZeroDuration() || answer_within < retry || lease < answer_within) {
    return absl::InvalidArgumentError(
        absl::StrFormat("retry (%s) must be above 0 and at most answer_within (%s), and that "
                        "at most lease (%s)",
                        absl::FormatDuration(retry), absl::FormatDuration(answer_within),
                        absl::FormatDuration(lease)));
  }
  return absl::OkStatus();
}

ViewAuthority::ViewAuthority(AuthorityOptions options, GroupView last, absl::Time now)
    : options_(options), view_(std::move(last)) {
  for (const GroupMember& member : view_.members) heard_[member.id] = now;
  OrderAll(now);  // Whoever has missed the view hears of it, and all report.
}

absl::Status ViewAuthority::Receive(const ViewReport& report, absl::Time now) {
  const MemberId id = report.from.id;
  if (report.view > view_.number) {
    return absl::FailedPreconditionError(
        absl::StrFormat("%s is in view %d, but the last one in the journal is %d", id.ToString(),
                        report.view, view_.number));
  }
  const bool contained = view_.Contains(id);
  if (contained) Clock(report, now);
  if (evicted_.contains(id)) {
    Order(report.from, /*evicted=*/true);
  } else if (!contained && report.view == 0) {
    if (report.leaving || links_.MustWait(report.from, now)) {
      newcomers_.erase(id);
      return absl::OkStatus();
    }
    if (newcomers_.insert_or_assign(id, Newcomer{report.from, report.offer, now}).second) {
      arrivals_.push_back(id);
    }
  } else if (report.view < view_.number) {
    Order(report.from);  // It has missed a view, and enters it or is fenced by it.
  } else {
    if (!IsOvertaken(report)) {
      reports_[id] = report;
      Accuse(report, now);
    }
    // One that fell silent and speaks again before the decision is back.
    const auto out = out_.find(id);
    if (out != out_.end() && !IsProof(out->second.reason)) out_.erase(out);
  }
  Tick(now);
  return absl::OkStatus();
}

// What it says no more is withdrawn: the other has been heard again.
void ViewAuthority::Accuse(const ViewReport& report, absl::Time now) {
  const MemberId id = report.from.id;
  const auto still = [&](MemberId member) {
    return std::any_of(report.lost.begin(), report.lost.end(),
                       [&](const Loss& loss) { return loss.member == member; });
  };
  std::erase_if(accused_, [&](const auto& accusation) {
    return accusation.first.second == id && !still(accusation.first.first);
  });
  for (const Loss& loss : report.lost) {
    if (loss.member == id || !view_.Contains(loss.member)) continue;
    accused_.try_emplace({loss.member, id}, Accusation{loss, now});
    if (IsProof(loss.reason)) PutOut(loss);
    if (IsBrokenLink(loss.reason)) links_.Complain(view_, id, loss.member, now);
  }
}

absl::Time ViewAuthority::CountsFrom(const Accusation& accusation) const {
  const absl::Time heard = heard_.at(accusation.loss.member);
  return std::min(heard, accusation.since) + options_.lease / 2;
}

const ViewAuthority::Accusation* ViewAuthority::AccusationOf(MemberId member) const {
  const Accusation* first = nullptr;
  for (const auto& [who, accusation] : accused_) {
    if (who.first != member) continue;
    if (first == nullptr || accusation.since < first->since) first = &accusation;
  }
  return first;
}

void ViewAuthority::Died(MemberId member, absl::Time now) {
  newcomers_.erase(member);
  if (view_.Contains(member)) PutOut({member, MemberId(), LossReason::kExit});
  Tick(now);
}

// Proof outweighs suspicion, but who noticed first stays noted.
void ViewAuthority::PutOut(const Loss& loss) {
  const auto [it, is_new] = out_.try_emplace(loss.member, loss);
  if (!is_new && IsProof(loss.reason) && !IsProof(it->second.reason)) it->second = loss;
}

void ViewAuthority::Tick(absl::Time now) {
  ticked_ = now;
  Expire(now);
  if (view_.number > 0 && bereft()) heirs_until_ = std::min(heirs_until_, now + options_.lease);
  Advance(now);
  wake_ = NextWake(now);
}

void ViewAuthority::Expire(absl::Time now) {
  for (const auto& [id, heard] : heard_) {
    if (now >= heard + options_.lease) PutOut({id, MemberId(), LossReason::kSilent});
  }
  std::erase_if(newcomers_, [&](const auto& newcomer) {
    return now >= newcomer.second.heard + options_.lease;
  });
  std::erase_if(arrivals_, [&](MemberId id) { return !newcomers_.contains(id); });
  if (phase_ != Phase::kLettingGo || now < began_ + options_.answer_within) return;
  for (const auto& [who, accusation] : accused_) {
    if (!HasLetGo(who.first) && now >= CountsFrom(accusation)) PutOut(accusation.loss);
  }
}

bool ViewAuthority::HasLetGo(MemberId member) const {
  const auto report = reports_.find(member);
  return report != reports_.end() && report->second.let_go;
}

bool ViewAuthority::IsOvertaken(const ViewReport& report) const {
  if (!HasLetGo(report.from.id)) return false;
  return !report.let_go || report.progress.applied < reports_.at(report.from.id).progress.applied;
}

bool ViewAuthority::Urgent(absl::Time now) const {
  // Whoever let go without being told to by this master may have been told by the one before.
  const bool told = phase_ == Phase::kAtStepEnd;
  const bool missed = std::any_of(accused_.begin(), accused_.end(), [&](const auto& accusation) {
    return now >= CountsFrom(accusation.second);
  });
  return missed || !out_.empty() ||
         std::any_of(reports_.begin(), reports_.end(), [&](const auto& report) {
           return report.second.let_go && (report.second.urgent || !told);
         });
}

bool ViewAuthority::Wanted() const {
  if (!newcomers_.empty() && view_.size() < kMembersMax) return view_.number > 0;
  // The last holder cannot go while others depend on it.
  const bool may_leave = view_.holders > 1 || view_.size() == 1;
  return std::any_of(reports_.begin(), reports_.end(), [&](const auto& report) {
    const bool holds = view_.Holds(report.first);
    return (report.second.leaving && (may_leave || !holds)) || (report.second.level && !holds);
  });
}

bool ViewAuthority::AllWhoCopyAreLevel() const {
  const bool all = std::all_of(view_.members.begin() + view_.holders, view_.members.end(),
                               [&](const GroupMember& member) {
                                 const auto report = reports_.find(member.id);
                                 return report != reports_.end() && report->second.level;
                               });
  return all && view_.holders < view_.size() && newcomers_.empty();
}

bool ViewAuthority::IsDead(MemberId member) const {
  const auto out = out_.find(member);
  return out != out_.end() && IsProof(out->second.reason);
}

bool ViewAuthority::bereft() const {
  return std::all_of(view_.members.begin(), view_.members.begin() + view_.holders,
                     [&](const GroupMember& holder) { return IsDead(holder.id); });
}

bool ViewAuthority::IsHeir(MemberId member) const {
  const auto report = reports_.find(member);
  return report != reports_.end() && !view_.Holds(member) && !IsOut(member) &&
         report->second.progress.applied >= view_.step;
}

bool ViewAuthority::HasHeir() const {
  return std::any_of(view_.members.begin(), view_.members.end(),
                     [&](const GroupMember& member) { return IsHeir(member.id); });
}

// What was said may be out of date, even after letting go: the state may have been complete since.
bool ViewAuthority::AwaitsHeir() const {
  if (view_.number == 0 || !bereft() || ticked_ >= heirs_until_) return false;
  return std::any_of(view_.members.begin(), view_.members.end(),
                     [&](const GroupMember& member) { return !IsDead(member.id); });
}

void ViewAuthority::Advance(absl::Time now) {
  if (bereft() && view_.number > 0 && phase_ < Phase::kLettingGo) Begin(Phase::kLettingGo, now);
  if (Urgent(now) && phase_ < Phase::kLettingGo) Begin(Phase::kLettingGo, now);
  switch (phase_) {
    case Phase::kSettled:
      if (Wanted() || (view_.number == 0 && !newcomers_.empty())) Begin(Phase::kGathering, now);
      break;
    case Phase::kGathering:
      if (now < began_ + options_.gather && !AllWhoCopyAreLevel()) break;
      Begin(view_.number == 0 ? Phase::kLettingGo : Phase::kAsking, now);
      break;
    case Phase::kAsking:
      if (!AllAnswered()) break;
      after_step_ = EndOfStep() + Headroom(now - began_);
      Begin(Phase::kAtStepEnd, now);
      break;
    case Phase::kAtStepEnd:
      if (now >= began_ + Patience()) Begin(Phase::kLettingGo, now);
      break;
    case Phase::kLettingGo:
      break;
  }
  if (phase_ >= Phase::kAtStepEnd && Complete()) return Decide(now);
  if (phase_ >= Phase::kAsking && now >= resend_) OrderAll(now);
}

void ViewAuthority::Begin(Phase phase, absl::Time now) {
  phase_ = phase;
  began_ = now;
  if (phase == Phase::kLettingGo) after_step_ = 0;
  if (phase < Phase::kAsking) return;
  asked_ = ++sequence_;
  OrderAll(now);
}

void ViewAuthority::OrderAll(absl::Time now) {
  resend_ = now + options_.retry;
  for (const GroupMember& member : view_.members) {
    const auto report = reports_.find(member.id);
    const bool answered =
        phase_ == Phase::kAsking && report != reports_.end() && report->second.answers == asked_;
    // The silent are told too: if all others wait for one, it had better hear of it.
    if (!answered && !HasLetGo(member.id) && !IsDead(member.id)) Order(member);
  }
}

void ViewAuthority::Order(const GroupMember& to, bool evicted) {
  ViewOrder order{.view = view_, .let_go = phase_ >= Phase::kAtStepEnd};
  order.after_step = after_step_;
  order.evicted = evicted;
  order.sequence = phase_ == Phase::kSettled ? ++sequence_ : asked_;
  orders_.push_back({to, std::move(order)});
}

// Whether all holders have said where they are since they were asked.
bool ViewAuthority::AllAnswered() const {
  for (int rank = 0; rank < view_.holders; ++rank) {
    const auto report = reports_.find(view_.members[rank].id);
    if (report == reports_.end() || report->second.answers != asked_) return false;
  }
  return true;
}

int64_t ViewAuthority::EndOfStep() const {
  int64_t end = 0;
  for (const auto& [id, report] : reports_) {
    if (!view_.Holds(id)) continue;
    end = std::max(end, report.progress.finished + (report.progress.working ? 1 : 0));
  }
  return end;
}

// A sign of life. How fast it trains shows from one that tells of a new step to the next that does:
// where steps take longer, most reports tell of none.
void ViewAuthority::Clock(const ViewReport& report, absl::Time now) {
  heard_[report.from.id] = now;
  if (report.view != view_.number) return;
  const int64_t finished = report.progress.finished;
  Pace& last = paces_.try_emplace(report.from.id, Pace{now, finished}).first->second;
  const double seconds = absl::ToDoubleSeconds(now - last.at);
  if (finished <= last.finished || seconds < kClockSeconds) return;
  rate_ = static_cast<double>(finished - last.finished) / seconds;
  last = {now, finished};
}

absl::Duration ViewAuthority::Patience() const {
  if (rate_ <= 0) return options_.patience;
  return std::max(options_.patience, absl::Seconds(kPatienceSteps / rate_));
}

// One, where a step is short beside the patience for it, and twice what the round trip saw. Long
// steps are hardly ever over just then, and waiting for one more would cost more than redoing it.
int64_t ViewAuthority::Headroom(absl::Duration round_trip) const {
  const double patience = rate_ * absl::ToDoubleSeconds(options_.patience) / 4;
  const double wanted = 1 + 2 * rate_ * absl::ToDoubleSeconds(round_trip);
  return static_cast<int64_t>(std::min(wanted, patience));
}

// Whether the next view can be made: holders, learners about to be, and those whom others miss have
// let go or are out, and with a holder among those who let go, no step of this view can finish any
// more. With none, every holder must be known to be dead, and all who learn have let go.
bool ViewAuthority::Complete() const {
  bool holder_let_go = false;
  for (const GroupMember& member : view_.members) {
    const bool holds = view_.Holds(member.id);
    const auto report = reports_.find(member.id);
    const bool level = report != reports_.end() && report->second.level;
    holder_let_go = holder_let_go || (holds && HasLetGo(member.id) && !IsOut(member.id));
    const bool must_answer = holds || level || AccusationOf(member.id) != nullptr;
    if (must_answer && !HasLetGo(member.id) && !IsOut(member.id)) return false;
  }
  if (holder_let_go) return true;
  if (!bereft()) return false;
  bool offered = false;
  for (const auto& [id, newcomer] : newcomers_) offered |= newcomer.offer >= least_offer_;
  for (const GroupMember& member : view_.members) {
    if (!IsOut(member.id) && !HasLetGo(member.id)) return false;
  }
  return HasHeir() || (offered && !AwaitsHeir());
}

// Learners go first, since they hold nothing; then whoever has most broken links, the youngest of
// equals. A link between two holders costs only one of them, so the state is never dropped; nor is
// it when all holders are dead, and those who may follow them stand in their place.
std::set<MemberId> ViewAuthority::BadlyLinked(absl::Time now) const {
  Links links = links_.Of(view_);
  const auto lives = [&](MemberId id) { return HasLetGo(id) && !IsOut(id); };
  for (const auto& [who, accusation] : accused_) {
    if (accusation.loss.reason != LossReason::kLease || now < CountsFrom(accusation)) continue;
    links.insert(std::minmax(who.first, who.second));
  }
  std::erase_if(links, [&](const auto& link) { return !lives(link.first) || !lives(link.second); });
  return ThinOut(view_, std::move(links), [this, orphaned = bereft()](MemberId id) {
    return view_.Holds(id) || (orphaned && IsHeir(id));
  });
}

std::vector<GroupMember> ViewAuthority::NewcomersInOrder() const {
  std::vector<GroupMember> members;
  for (MemberId id : arrivals_) {
    const auto newcomer = newcomers_.find(id);
    if (newcomer != newcomers_.end()) members.push_back(newcomer->second.member);
  }
  return members;
}

void ViewAuthority::Decide(absl::Time now) {
  const Links broken = links_.Of(view_);  // The others only seem to be.
  for (MemberId id : BadlyLinked(now)) {
    PutOut({id, MemberId(), LossReason::kLink});
    const bool is_broken = std::any_of(broken.begin(), broken.end(), [&](const auto& link) {
      return link.first == id || link.second == id;
    });
    links_.LeaveOut(view_.members[static_cast<size_t>(view_.RankOf(id))], is_broken, now);
  }
  ViewChange change;
  bool holder_stays = false;
  bool any_holder = false;
  for (const GroupMember& member : view_.members) {
    if (IsOut(member.id)) continue;
    change.keep.push_back(member);
    if (!HasLetGo(member.id)) continue;
    const ViewReport& report = reports_.at(member.id);
    change.standings.push_back({member, report.progress.applied, report.progress.voted});
    if (report.leaving) change.leaving.insert(member.id);
    any_holder = any_holder || view_.Holds(member.id);
    holder_stays = holder_stays || (view_.Holds(member.id) && !report.leaving);
  }
  change.newcomers = NewcomersInOrder();
  // If all holders want to go, the oldest sees the others off, unless there are none.
  const bool someone_else = change.keep.size() > 1 || !change.newcomers.empty();
  if (!holder_stays && someone_else) {
    for (const GroupMember& member : change.keep) {
      if (view_.Holds(member.id) && change.leaving.erase(member.id) > 0) break;
    }
  }
  if (any_holder) return Issue(NextView(view_, change, options_.bug), /*founded=*/false, now);
  Issue(Found(view_, std::move(change)), /*founded=*/true, now);
}

// The holders are dead. Learners who were level hold the state as well as they did; failing them,
// the newcomer that offers the furthest state founds the group anew. A member's own weights are no
// longer what it once offered.
GroupView ViewAuthority::Found(const GroupView& old, ViewChange change) const {
  GroupView heirs{.number = old.number, .step = old.step};
  for (const Standing& standing : change.standings) {
    if (standing.applied >= old.step) heirs.members.push_back(standing.member);
  }
  heirs.holders = heirs.size();
  for (const GroupMember& member : change.keep) {
    if (!heirs.Contains(member.id)) heirs.members.push_back(member);
  }
  if (heirs.holders > 0) return NextView(heirs, change);
  std::vector<std::pair<int64_t, GroupMember>> offers;
  for (const GroupMember& member : change.keep) offers.emplace_back(-1, member);
  for (const GroupMember& member : change.newcomers) {
    offers.emplace_back(newcomers_.at(member.id).offer, member);
  }
  std::stable_sort(offers.begin(), offers.end(),
                   [](const auto& a, const auto& b) { return a.first > b.first; });
  GroupView next{.number = old.number + 1, .holders = 1, .step = offers[0].first};
  for (const auto& [offer, member] : offers) {
    if (next.size() < kMembersMax) next.members.push_back(member);
  }
  return next;
}

void ViewAuthority::Issue(GroupView next, bool founded, absl::Time now) {
  next.parent = view_.Mark();
  Decision decision{.view = next, .founded = founded};
  const GroupView old = std::exchange(view_, std::move(next));
  for (const GroupMember& member : old.members) {
    if (view_.Contains(member.id)) continue;
    evicted_.insert(member.id);
    const auto out = out_.find(member.id);
    const Accusation* const accused = AccusationOf(member.id);
    Loss loss{member.id, MemberId(), LossReason::kLeft};
    if (out != out_.end()) loss = out->second;
    // The first to notice is the one to name.
    if (accused != nullptr && out != out_.end()) loss = accused->loss;
    decision.losses.push_back(loss);
  }
  decisions_.push_back(std::move(decision));
  phase_ = Phase::kSettled;
  after_step_ = 0;
  reports_.clear();
  heard_.clear();
  paces_.clear();
  out_.clear();
  accused_.clear();
  heirs_until_ = absl::InfiniteFuture();
  for (const GroupMember& member : view_.members) {
    heard_[member.id] = now;
    newcomers_.erase(member.id);
  }
  for (const GroupMember& member : old.members) {
    if (!view_.Contains(member.id)) Order(member);
  }
  for (const GroupMember& member : view_.members) Order(member);
}

absl::Time ViewAuthority::NextWake(absl::Time now) const {
  absl::Time wake = absl::InfiniteFuture();
  for (const auto& [id, heard] : heard_) {
    if (!IsOut(id)) wake = std::min(wake, heard + options_.lease);
  }
  for (const auto& [who, accusation] : accused_) {
    if (CountsFrom(accusation) > now) wake = std::min(wake, CountsFrom(accusation));
  }
  if (phase_ == Phase::kGathering) wake = std::min(wake, began_ + options_.gather);
  if (phase_ >= Phase::kAsking) wake = std::min(wake, resend_);
  return std::max(wake, now + absl::Milliseconds(1));
}

std::vector<ViewAuthority::Decision> ViewAuthority::TakeDecisions() {
  return std::exchange(decisions_, {});
}

std::vector<ViewAuthority::Send> ViewAuthority::TakeOrders() { return std::exchange(orders_, {}); }

}  // namespace rubato
