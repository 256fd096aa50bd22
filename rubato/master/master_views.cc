// Strategy allreduce: the views of the group, issued here. Who is in, from which step, in which
// order: decided by ViewAuthority, journaled, then told to the members.
#include <algorithm>
#include <limits>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "rubato/job/job_spec.h"
#include "rubato/master/master.h"
#include "rubato/membership/wire.h"

namespace rubato {
namespace {

constexpr int64_t kNever = std::numeric_limits<int64_t>::max();
static_assert(kGroupWorkersMax <= kMembersMax);

}  // namespace

void Master::Confer(const ConferRequest& request, absl::Time now) {
  if (Hear(request.worker, now) == nullptr || verdict_.has_value()) return;
  if (request.generation != group_.generation() || request.report.empty()) return;
  const absl::StatusOr<ViewReport> report = DecodeReport(request.report);
  if (!report.ok()) return RefuseReport(request.worker, report.status(), now);
  workers_of_[report->from.id] = request.worker;
  const absl::Status received = authority_->Receive(*report, now);
  if (!received.ok()) {
    Close(JobState::kFailed, absl::StrCat("the group's views: ", std::string(received.message())),
          now);
  }
  TellViews(now);
}

// A worker repeats its reports twice a second: each time as many more have come as before it is
// told again.
void Master::RefuseReport(WorkerId worker, const absl::Status& why, absl::Time now) {
  const int64_t count = ++unreadable_[worker];
  if ((count & (count - 1)) != 0) return;
  Say(now, "report_unreadable", {{"worker", worker.value()}, {"reports", count}},
      absl::StrCat(std::string(why.message()),
                   "; the group hears nothing else of it: is it of the same build as the master?"));
}

// A new generation has views of its own; a restarted master goes on with the last it issued.
void Master::OpenAuthority(absl::Time now) {
  const absl::Duration lease = options_.job.elastic.lease;
  authority_.emplace(AuthorityOptions{.lease = lease}, last_view_, now);
  // Whose end is in the journal need not be waited for.
  for (const GroupMember& member : last_view_.members) {
    if (members_.FindWorker(WorkerOf(member.id)) == nullptr) authority_->Died(member.id, now);
  }
  if (last_view_.number > 0) authority_->RequireOffer(kNever);
}

// The state of this generation has died with its last holder, and nobody else is level with it.
bool Master::Bereft() const {
  return last_view_.number > 0 && authority_ && authority_->bereft() && !MayInherit();
}

// A holder whose process has not ended, as far as anybody knows; silent or not.
bool Master::HolderMayLive() const {
  for (int rank = 0; rank < last_view_.holders; ++rank) {
    const WorkerId worker = WorkerOf(last_view_.members[static_cast<size_t>(rank)].id);
    if (members_.FindWorker(worker) != nullptr) return !Bereft();
  }
  return false;
}

bool Master::MayInherit() const {
  return authority_ && (authority_->HasHeir() || authority_->AwaitsHeir());
}

void Master::TellViews(absl::Time now) {
  if (!authority_.has_value()) return;
  for (const ViewAuthority::Decision& decision : authority_->TakeDecisions()) {
    const GroupView before = last_view_;
    std::vector<std::string> names;
    std::vector<double> numbers;
    for (const GroupMember& member : decision.view.members) {
      names.push_back(WorkerOf(member.id).ToString());
      numbers.push_back(static_cast<double>(WorkerOf(member.id).value()));
    }
    Record({.kind = EntryKind::kViewIssued,
            .incarnation = group_.generation(),
            .text = EncodeGroupView(decision.view),
            .numbers = std::move(numbers)},
           now);
    // The founder has founded. Whoever offers a state from now on was left behind with it, and the
    // ledger may be further: the next generation begins from a checkpoint.
    authority_->RequireOffer(kNever);
    Say(now, "view",
        {{"number", static_cast<int64_t>(decision.view.number)},
         {"members", absl::StrJoin(names, " ")},
         {"holders", static_cast<int64_t>(decision.view.holders)},
         {"group_step", decision.view.step}});
    for (const Loss& loss : decision.losses) {
      NoteLoss(loss, decision.view.number, now);
      TakeTasksBack(WorkerOf(loss.member), now);
    }
    for (const GroupMember& member : decision.view.members) {
      if (before.Holds(member.id) && !decision.view.Holds(member.id)) {
        TellCopies(WorkerOf(member.id), decision.view.number, now);
      }
    }
  }
  for (const ViewAuthority::Send& send : authority_->TakeOrders()) {
    effects_.push_back(SendOrder{.worker = WorkerOf(send.to.id), .order = EncodeOrder(send.order)});
  }
}

void Master::TellCopies(WorkerId worker, uint64_t view, absl::Time now) {
  Fields fields = {{"worker", worker.value()}, {"view", static_cast<int64_t>(view)}};
  const std::string first = failures_.FirstCause(view);
  if (!first.empty()) fields.emplace_back("collateral_of", first);
  Say(now, "worker_copies", std::move(fields), kNotLevelCause);
  TakeTasksBack(worker, now);
}

// The group has gone on without it, or without its state, so it evaluates for nobody: others need
// not wait for its lease.
void Master::TakeTasksBack(WorkerId worker, absl::Time now) {
  for (const Task& task : ledger_.HeldBy(worker)) {
    Record({.kind = EntryKind::kReleased, .id = worker.value(), .task = task.id}, now);
  }
}

WorkerId Master::WorkerOf(MemberId member) const {
  const auto it = workers_of_.find(member);
  return it == workers_of_.end() ? WorkerId() : it->second;
}

bool Master::InGroupView(WorkerId worker) const {
  return authority_.has_value() &&
         std::any_of(workers_of_.begin(), workers_of_.end(), [&](const auto& entry) {
           return entry.second == worker && authority_->view().Contains(entry.first);
         });
}

// Its process has ended. One that `left` is no loss.
void Master::TellGone(WorkerId worker, bool left, absl::Time now) {
  if (!authority_.has_value()) return;
  for (auto it = workers_of_.begin(); it != workers_of_.end();) {
    const auto here = it++;
    if (here->second != worker) continue;
    authority_->Died(here->first, now);
    if (left) workers_of_.erase(here);
  }
  TellViews(now);
}

}  // namespace rubato
