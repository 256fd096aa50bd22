// What a worker without a master tells: events and records of failures in its directory, and how it
// stands, for a bar and for the summary.
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "rubato/adapters/ring/control_loop.h"
#include "rubato/roles/exit_codes.h"
#include "rubato/roles/group_loop.h"

namespace rubato {
namespace {

constexpr absl::Duration kShow = absl::Milliseconds(100);
constexpr double kKeepLoss = 0.99;  // Of the mean so far, with each step.

}  // namespace

void GroupLoop::BeginRecord(const GroupOrders& orders) {
  opened_ = options_.clock->Now();
  records_before_ = orders.found ? replica_->records() : -1;
  if (auto events = EventLog::Open(JobDirectory(options_.directory).events()); events.ok()) {
    events_ = *std::move(events);
  }
  chronicle_.emplace(group_->address());
  WriteProcesses();  // That it has no master can be seen while it waits to be let in.
  options_.say(absl::StrCat("listening on ", group_->address()));
  if (!group_->encrypted()) {
    options_.say(
        absl::StrCat("what workers send each other can be read on the way: ",
                     options_.secret.empty() ? "no --secret-file" : "allreduce.encrypt is off"));
  }
  const bool resumed = !orders.restore.empty();
  Record(resumed ? "resumed" : "started",
         {{"worker", group_->address()},
          {"pid", static_cast<int64_t>(getpid())},
          {"steps", replica_->steps()}},
         resumed        ? absl::StrCat("rubato worker --resume, from checkpoint ", orders.restore)
         : orders.found ? "it founds a group"
                        : absl::StrCat("it joins the group at ", absl::StrJoin(orders.join, ", ")));
}

// From the group's clock to everyone's.
std::vector<Departure> GroupLoop::InOurTime(std::vector<Departure> departures) const {
  const absl::Duration offset = options_.clock->Now() - ControlLoop::Now();
  for (Departure& departure : departures) departure.heard += offset;
  return departures;
}

Chronicle::Standing GroupLoop::StandingNow(absl::Time noticed) {
  // Who holds the model has it as of the view's first step.
  return {.steps = group_->learning() ? snapshot().steps : replica_->steps(),
          .over = replica_->phase() == Replica::Phase::kEnded || told_ || group_->told_finished(),
          .noticed = noticed};
}

std::string GroupLoop::WhomItMisses() {
  const absl::Time now = options_.clock->Now();
  return chronicle_->Miss(InOurTime(group_->missed()), StandingNow(now), now);
}

void GroupLoop::TellParting(const Parting& parting) {
  const absl::Time now = options_.clock->Now();
  chronicle_->Part({parting.step, InOurTime(parting.out), parting.why}, StandingNow(now), now);
  WriteEvents();
}

void GroupLoop::EnterView(const GroupView& view) {
  const ChangeTimes change = group_->last_change();
  const absl::Time now = options_.clock->Now();
  const absl::Time noticed = now - (ControlLoop::Now() - change.noticed);
  chronicle_->Enter(view, InOurTime(change.gone), StandingNow(noticed), now);
  BeginTraining();
  WriteProcesses();
  WriteEvents();
}

// One that has yet to copy the model does not train, however long the others take to let it.
void GroupLoop::BeginTraining() {
  if (state_ == JobState::kStarting && !group_->learning()) state_ = JobState::kTraining;
}

void GroupLoop::Record(std::string kind, Chronicle::Fields fields, std::string cause) {
  chronicle_->Say(std::move(kind), std::move(fields), std::move(cause), options_.clock->Now());
  WriteEvents();
}

void GroupLoop::WriteEvents() {
  const std::vector<JobEvent> events = chronicle_->TakeEvents();
  if (events.empty()) return;
  for (const JobEvent& event : events) {
    if (events_) events_->Write(event);
  }
  ShowNow();
}

void GroupLoop::ShowNow() {
  shown_ = options_.clock->Now();
  options_.show(snapshot());
}

void GroupLoop::ShowSometimes() {
  const absl::Time now = options_.clock->Now();
  if (now - shown_ < kShow) return;
  for (const Departure& departure : InOurTime(group_->TakeLostNewcomers())) {
    chronicle_->LoseNewcomer(departure, StandingNow(now), now);
  }
  WriteEvents();
  ShowNow();
}

void GroupLoop::NoteLoss(double loss) {
  if (!std::isfinite(loss)) return;
  loss_.weight = kKeepLoss * loss_.weight + (1 - kKeepLoss);
  loss_.mean += (loss - loss_.mean) * (1 - kKeepLoss) / loss_.weight;
}

void GroupLoop::WriteProcesses() {
  // For people and tools; training does not wait for a full disk.
  JobDirectory(options_.directory)
      .WriteProcesses(JobDirectory::ProcessesText(snapshot().processes, JobDirectory::kNoMaster))
      .IgnoreError();
}

Snapshot GroupLoop::snapshot() {
  Snapshot snapshot = {.state = state_,
                       .error = error_,
                       .checkpoint = own_->complete(),
                       .loss = loss_.mean,
                       .loss_known = loss_.weight > 0,
                       .run_began = opened_,
                       .records_before = std::max<int64_t>(records_before_, 0),
                       .evaluations = evaluations_};
  // Before it is in the group there is nothing to show.
  snapshot.records_expected = joined() ? plan_.records() : 0;
  if (chronicle_.has_value()) chronicle_->Describe(&snapshot);
  MutexLock lock(mu_);
  snapshot.steps = report_.steps;
  snapshot.records_committed = report_.records;
  snapshot.records_repeated = report_.records_wrong;
  snapshot.records_recomputed = report_.records_redone;
  snapshot.bad_rows = report_.bad_rows;
  snapshot.epoch = report_.records / std::max<int64_t>(plan_.options().records, 1);
  snapshot.spent = time_.Spent(options_.clock->Now());
  for (ProcessStatus& process : snapshot.processes) {
    if (process.address != chronicle_->self()) continue;
    process.lagging = report_.lagging;
    if (state_ >= JobState::kDone) process.state = "exited";
  }
  return snapshot;
}

void GroupLoop::EndRecord(const absl::StatusOr<int>& result) {
  if (!joined()) return;  // Nothing happened, and nothing is kept of it.
  Enter(Activity::kOther);
  const bool trained = !result_.line.empty();
  state_ = !result.ok() ? JobState::kFailed : trained ? JobState::kDone : JobState::kStopped;
  if (!result.ok()) error_ = std::string(result.status().message());
  const absl::Time now = options_.clock->Now();
  const Snapshot last = snapshot();
  chronicle_->End(now);
  chronicle_->Say(std::string(JobStateName(state_)),
                  {{"steps", last.steps}, {"records", last.records_committed}},
                  result.ok() ? ending_ : error_, now);
  WriteProcesses();
  WriteEvents();
}

}  // namespace rubato
