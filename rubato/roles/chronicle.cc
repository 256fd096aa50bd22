#include "rubato/roles/chronicle.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "rubato/adapters/ring/endpoint.h"

namespace rubato {
namespace {

std::string Name(const GroupMember& member) {
  const std::string place = HostPort(member.address);
  return place.empty() ? member.id.ToString() : place;
}

int64_t PidOf(const GroupMember& member) {
  const absl::StatusOr<Endpoint> endpoint = ParseEndpoint(member.address);
  return endpoint.ok() ? endpoint->pid : -1;
}

// Why the others went on without this worker, as they say; `why` if it was its own doing.
std::string PartingCause(const std::optional<LossReason>& reason, const std::string& why) {
  const std::string rest = "; the others went on without it, and it copies the model anew";
  if (!why.empty()) return why + rest;
  if (!reason.has_value()) return "nobody has told this worker why" + rest;
  switch (*reason) {
    case LossReason::kLease:
    case LossReason::kSilent:
      return "it was silent for too long" + rest;
    case LossReason::kLink:
      return "it did not answer in time, or was not at the others' step" + rest;
    default:
      return absl::StrCat("it was taken for dead (", rubato::Name(*reason), ")", rest);
  }
}

// Its parent could say more; here it is what can be seen from outside. Of one that lives: nothing.
std::string CauseOf(const std::string& who, LossReason reason, const Failure& failure) {
  switch (reason) {
    case LossReason::kProcess:
    case LossReason::kExit:
      return absl::StrCat(who, ": its process ended");
    case LossReason::kRefused:
      return absl::StrCat(who, ": nobody listens there any more");
    case LossReason::kHearsay:
      return absl::StrCat(who, ": it said farewell, or others saw its end");
    case LossReason::kSocket:
      return absl::StrCat(who, ": its connection closed, and it answers no more");
    case LossReason::kLease:
    case LossReason::kSilent:
      return SilentCause(who, failure, "");
    case LossReason::kLink:
    case LossReason::kLeft:
      return "";
  }
  return "";
}

}  // namespace

void Chronicle::Enter(const GroupView& view, const std::vector<Departure>& gone,
                      const Standing& standing, absl::Time now) {
  std::vector<std::string> names;
  for (const GroupMember& member : view.members) names.push_back(Name(member));
  Say("view",
      {{"number", static_cast<int64_t>(view.number)},
       {"members", absl::StrJoin(names, " ")},
       {"holders", static_cast<int64_t>(view.holders)},
       {"step", standing.steps}},
      "", now);
  for (const Departure& departure : gone) Depart(departure, view, standing, now);
  const bool first = !in_group();  // Who was there before this worker came is no news.
  for (const GroupMember& member : view.members) {
    const std::string name = Name(member);
    const bool news = !first || name == self_;
    if (!view_.Contains(member.id)) {
      ++seen_;
      const Fields fields = {
          {"worker", name}, {"pid", PidOf(member)}, {"view", static_cast<int64_t>(view.number)}};
      if (news) Say("worker_joined", fields, view.number == 1 ? "it founded the group" : "", now);
    }
    if (news && view.Holds(member.id) && !view_.Holds(member.id)) {
      Say("worker_holds", {{"worker", name}, {"step", standing.steps}}, "", now);
    }
    if (view_.Holds(member.id) && !view.Holds(member.id)) {
      Fields fields = {{"worker", name}, {"view", static_cast<int64_t>(view.number)}};
      const std::string first_cause = failures_.FirstCause(view.number);
      if (!first_cause.empty()) fields.emplace_back("collateral_of", first_cause);
      Say("worker_copies", std::move(fields), kNotLevelCause, now);
    }
  }
  for (const GroupMember& member : view.members) {
    failures_.Forget(WorkerId(member.id.value()));
    missed_.erase(WorkerId(member.id.value()));
  }
  most_ = std::max<int64_t>(most_, view.size());
  view_ = view;
}

void Chronicle::Depart(const Departure& departure, const GroupView& next, const Standing& standing,
                       absl::Time now) {
  const std::string who = Name(departure.member);
  const LossReason reason = departure.loss.reason;
  const int64_t view = static_cast<int64_t>(next.number);
  missed_.erase(WorkerId(departure.member.id.value()));
  if (reason == LossReason::kLeft || standing.over) {
    return Say("worker_left", {{"worker", who}, {"view", view}},
               standing.over ? "training is over" : "it asked to go", now);
  }
  Failure failure = FailureOf(departure, standing, next, now);
  failure.view = next.number;
  const bool lives = failure.cause.empty();
  Say(lives ? "worker_evicted" : "worker_lost", {{"worker", who}, {"view", view}},
      lives ? UnseenCause(who, failure.reason, lives) : failure.cause, now);
  if (!lives) ++lost_;
  failures_.Note(WorkerId(departure.member.id.value()), std::move(failure));
}

Failure Chronicle::FailureOf(const Departure& departure, const Standing& standing,
                             const GroupView& next, absl::Time now) const {
  const std::string who = Name(departure.member);
  const LossReason reason = departure.loss.reason;
  Failure failure = {.noted = now,
                     .noticed = standing.noticed,
                     .heard = std::min(departure.heard, standing.noticed),
                     .pid = PidOf(departure.member),
                     .where = who,
                     .step = standing.steps,
                     .silent = reason == LossReason::kLease || reason == LossReason::kSilent,
                     .noticed_by = NameOf(departure.loss.noticed_by, next),
                     .reason = rubato::Name(reason)};
  if (!view_.Contains(departure.member.id)) {
    failure.state = "joining";
  } else if (!view_.Holds(departure.member.id)) {
    failure.state = "copying";
  }
  failure.cause = CauseOf(who, reason, failure);
  return failure;
}

std::string Chronicle::Miss(const std::vector<Departure>& missed, const Standing& standing,
                            absl::Time now) {
  std::vector<std::string> causes;
  for (const Departure& departure : missed) {
    Failure failure = FailureOf(departure, standing, view_, now);
    if (failure.cause.empty()) continue;
    causes.push_back(failure.cause);
    const WorkerId worker(departure.member.id.value());
    const bool told = failures_.CauseTold(worker) != nullptr;
    if (IsProof(departure.loss.reason) && !told) missed_.try_emplace(worker, std::move(failure));
  }
  return absl::StrJoin(causes, "; ");
}

void Chronicle::Part(const Parting& parting, const Standing& standing, absl::Time now) {
  Standing then = standing;
  if (parting.step >= 0) then.steps = parting.step;
  std::optional<Loss> own;
  std::string first;
  for (const Departure& departure : parting.out) {
    if (Name(departure.member) == self_) {
      own = departure.loss;
      continue;
    }
    const std::string cause = PartWith(departure, then, now);
    if (first.empty()) first = cause;
  }
  Fields fields = {{"worker", self_}};
  if (parting.step >= 0) fields.emplace_back("step", parting.step);
  if (own.has_value()) {
    fields.emplace_back("noticed_by", NameOf(own->noticed_by, view_));
    fields.emplace_back("noticed_how", rubato::Name(own->reason));
  }
  const bool answered_late = own.has_value() && own->reason == LossReason::kLink;
  if (answered_late && !first.empty()) fields.emplace_back("collateral_of", first);
  Say("worker_evicted", std::move(fields),
      PartingCause(own.has_value() ? std::optional(own->reason) : std::nullopt, parting.why), now);
}

std::string Chronicle::PartWith(const Departure& departure, const Standing& standing,
                                absl::Time now) {
  const WorkerId worker(departure.member.id.value());
  const LossReason reason = departure.loss.reason;
  if (reason == LossReason::kLeft || standing.over) return "";
  if (const std::string* told = failures_.CauseTold(worker)) return *told;
  Failure failure = FailureOf(departure, standing, view_, now);
  // For how long, only those know who went on; and one that was out of their reach need not have
  // been out of this worker's.
  if (failure.silent) failure.cause = absl::StrCat(failure.where, ": silent for too long");
  if (!IsProof(reason)) return failure.cause;
  Say("worker_lost", {{"worker", failure.where}}, failure.cause, now);
  ++lost_;
  missed_.erase(worker);
  failures_.Note(worker, failure);
  Tell(worker, failure, now);  // What it cost shows at those who went on.
  return failure.cause;
}

void Chronicle::LoseNewcomer(const Departure& departure, const Standing& standing, absl::Time now) {
  if (standing.over) return;
  const WorkerId worker(departure.member.id.value());
  const Failure failure = FailureOf(departure, standing, view_, now);
  Say("worker_lost", {{"worker", failure.where}}, failure.cause, now);
  ++seen_;
  ++lost_;
  failures_.Note(worker, failure);
  Tell(worker, failure, now);
}

void Chronicle::Resume(const GroupChange& change, absl::Time now) {
  for (auto& [worker, failure] : failures_.Changed(change)) {
    if (failure.silent) failure.cause = SilentCause(failure.where, failure, "");
    failures_.Note(worker, failure);
  }
  const std::map<WorkerId, Failure> open = failures_.open();
  for (const auto& [worker, failure] : open) {
    if (failure.change.has_value()) Tell(worker, failure, now);
  }
}

void Chronicle::End(absl::Time now) {
  for (auto& [worker, failure] : missed_) {  // No view has come without it, and none will.
    Say("worker_lost", {{"worker", failure.where}}, failure.cause, now);
    ++lost_;
    failures_.Note(worker, std::move(failure));
  }
  missed_.clear();
  const std::map<WorkerId, Failure> open = failures_.open();
  for (const auto& [worker, failure] : open) Tell(worker, failure, now);
}

void Chronicle::Tell(WorkerId worker, const Failure& failure, absl::Time now) {
  events_.push_back(RecordOf(failure,
                             {.worker = failure.where,
                              .noticed_by = self_,
                              .cause = UnseenCause(failure.where, failure.reason, /*lives=*/true),
                              .collateral_of = failures_.FirstCause(failure.view)},
                             now));
  failures_.Told(worker);
}

void Chronicle::Say(std::string kind, Fields fields, std::string cause, absl::Time now) {
  events_.push_back({.time = now,
                     .kind = std::move(kind),
                     .fields = std::move(fields),
                     .cause = std::move(cause)});
}

std::vector<JobEvent> Chronicle::TakeEvents() { return std::exchange(events_, {}); }

void Chronicle::Describe(Snapshot* snapshot) const {
  snapshot->view = static_cast<int64_t>(view_.number);
  snapshot->workers_started = snapshot->workers_joined = seen_;
  snapshot->workers_lost = lost_;
  snapshot->workers_max = most_;
  snapshot->workers_alive = snapshot->workers_target = view_.size();
  snapshot->processes.clear();
  for (int rank = 0; rank < view_.size(); ++rank) {
    const GroupMember& member = view_.members[static_cast<size_t>(rank)];
    snapshot->processes.push_back({.role = Role::kWorker,
                                   .id = rank,
                                   .incarnation = 1,
                                   .pid = PidOf(member),
                                   .address = Name(member),
                                   .state = rank < view_.holders ? "running" : "copying"});
  }
}

std::string Chronicle::NameOf(MemberId member, const GroupView& next) const {
  for (const GroupView* view : {&view_, &next}) {
    const int rank = view->RankOf(member);
    if (rank >= 0) return Name(view->members[static_cast<size_t>(rank)]);
  }
  return "another";
}

}  // namespace rubato
