// One record for each failure: who, where, why, at which step, who noticed, and what it cost. It is
// written as soon as all its pieces are there, or when it is clear that no more will come.
#include <utility>

#include "absl/strings/str_cat.h"
#include "rubato/master/master.h"

namespace rubato {
namespace {

constexpr absl::Duration kPatience = absl::Seconds(3);  // For somebody who saw it end.

// As the journal keeps it.
absl::Time ToTheMicro(absl::Time t) { return absl::FromUnixMicros(absl::ToUnixMicros(t)); }

}  // namespace

// What is known of `worker`'s end so far, or what can be said of any.
Failure Master::FailureOf(WorkerId worker, absl::Time now) const {
  const auto it = failures_.open().find(worker);
  if (it != failures_.open().end()) return it->second;
  Failure failure = {.noted = ToTheMicro(now), .noticed = ToTheMicro(now), .step = ledger_.steps()};
  if (const WorkerMember* member = members_.FindWorker(worker)) {
    failure.pid = member->pid;
    failure.heard = ToTheMicro(member->heard);
    failure.where = member->address;
  }
  if (const GroupReport* report = group_.ReportOf(worker)) {
    failure.where = report->address;
    if (!report->holds) failure.state = "copying";
  }
  return failure;
}

// However it goes then is no failure.
bool Master::WasAskedToLeave(WorkerId worker) const {
  const WorkerMember* member = members_.FindWorker(worker);
  return member != nullptr && member->state == Member::State::kLeaving;
}

const std::string* Master::FirstCauseOf(WorkerId worker) const {
  const auto it = failures_.open().find(worker);
  if (it != failures_.open().end() && !it->second.cause.empty()) return &it->second.cause;
  return failures_.CauseTold(worker);
}

void Master::NoteFailure(WorkerId worker, Failure failure, absl::Time now) {
  const auto it = failures_.open().find(worker);
  if (it != failures_.open().end() && it->second == failure) return;
  Record({.kind = EntryKind::kFailure, .id = worker.value(), .text = EncodeFailure(failure)}, now);
}

// Its parent tells why it ended; one whose end was told already is not told of again.
void Master::NoteEnd(WorkerId worker, std::string cause, const ExitNotice& seen, absl::Time now) {
  if (failures_.CauseTold(worker) != nullptr) return;
  Failure failure = FailureOf(worker, now);
  if (!failure.cause.empty()) return;  // What came first is the cause.
  failure.cause = std::move(cause);
  // One that never registered, or never was in the group, has not told.
  if (failure.pid == 0) failure.pid = seen.pid;
  if (failure.where.empty()) failure.where = seen.host;
  NoteFailure(worker, std::move(failure), now);
}

// It ended while nobody looked, and nobody remembers when it was heard last.
void Master::NoteGone(WorkerId worker, std::string cause, absl::Time now) {
  const bool known = failures_.open().contains(worker);
  if (failures_.CauseTold(worker) != nullptr) return;
  Failure failure = FailureOf(worker, now);
  if (!failure.cause.empty()) return;
  failure.cause = std::move(cause);
  if (!known) failure.heard = absl::Time();
  if (failure.reason.empty()) {
    failure.reason = "resume";
    failure.noticed_by = "master";
  }
  NoteFailure(worker, std::move(failure), now);
}

// Nobody saw it end. Others may have missed it before its lease ran out here: the record tells the
// time after which the first did.
void Master::NoteSilence(WorkerId worker, absl::string_view more, absl::Time now) {
  if (WasAskedToLeave(worker) || failures_.CauseTold(worker) != nullptr) return;
  Failure failure = FailureOf(worker, now);
  if (!failure.cause.empty()) return;
  failure.silent = true;
  failure.cause = SilentCause(worker.ToString(), failure, more);
  if (failure.reason.empty()) {
    failure.reason = Name(LossReason::kSilent);
    failure.noticed_by = "master";
  }
  NoteFailure(worker, std::move(failure), now);
}

// The next view is without `loss.member`.
void Master::NoteLoss(const Loss& loss, uint64_t view, absl::Time now) {
  const WorkerId worker = WorkerOf(loss.member);
  if (loss.reason == LossReason::kLeft || !worker.valid()) return;
  if (WasAskedToLeave(worker)) return;
  // One that went as it was asked to, or whose end was told, is no loss.
  const bool gone = members_.FindWorker(worker) == nullptr && !failures_.open().contains(worker);
  if (gone || failures_.CauseTold(worker) != nullptr) return;
  Failure failure = FailureOf(worker, now);
  failure.view = view;
  failure.reason = Name(loss.reason);
  failure.noticed_by =
      loss.noticed_by.valid() ? WorkerOf(loss.noticed_by).ToString() : std::string("master");
  NoteFailure(worker, std::move(failure), now);
}

// A survivor tells what the change to `change.view` took.
void Master::NoteChange(const GroupChange& change, absl::Time now) {
  if (change.view == 0) return;
  for (auto& [worker, failure] : failures_.Changed(change)) {
    // The others of its group hear of it more often than the master does.
    for (const auto& [member, heard_us] : change.heard_us) {
      if (WorkerOf(MemberId(member)) == worker) failure.heard = absl::FromUnixMicros(heard_us);
    }
    if (failure.silent) failure.cause = SilentCause(worker.ToString(), failure, "");
    NoteFailure(worker, std::move(failure), now);
  }
}

bool Master::ConcernsGroup(WorkerId worker, const Failure& failure) const {
  return failure.view > 0 || failure.generation > 0 || InGroupView(worker) ||
         worker == group_.founder();
}

// Nobody is left who could tell what the ends of these took: the next generation is founded.
void Master::NoteFounding(absl::Time now) {
  const std::map<WorkerId, Failure> open = failures_.open();
  for (const auto& [worker, known] : open) {
    if (known.change.has_value() || !ConcernsGroup(worker, known)) continue;
    Failure failure = known;
    failure.generation = group_.generation() + 1;
    failure.founded = ToTheMicro(now);
    failure.held.reset();
    NoteFailure(worker, std::move(failure), now);
  }
}

// Someone holds the state of this generation, and trains or has nothing left to train: before its
// steps are counted.
void Master::NoteHolder(const GroupReport& report, absl::Time now) {
  const std::map<WorkerId, Failure> open = failures_.open();
  for (const auto& [worker, known] : open) {
    if (known.generation != group_.generation() || known.change.has_value()) continue;
    Failure failure = known;
    const absl::Time here = ToTheMicro(now);
    if (!failure.held.has_value()) failure.held = here;
    if (report.steps > ledger_.steps() || report.checksum != 0) {
      failure.change = {.noticed_us = absl::ToUnixMicros(failure.noticed),
                        .agree_us = absl::ToInt64Microseconds(failure.founded - failure.noticed),
                        .reconnect_us = absl::ToInt64Microseconds(*failure.held - failure.founded),
                        .redo_us = absl::ToInt64Microseconds(here - *failure.held)};
    }
    NoteFailure(worker, std::move(failure), now);
  }
}

// Whether its parent, a survivor or the next generation may have more to say.
bool Master::AwaitsMore(WorkerId worker, const Failure& failure, absl::Time now) const {
  if (verdict_.has_value()) return false;
  const absl::Duration age = now - failure.noted;
  if (failure.cause.empty()) return age < kPatience;
  if (failure.change.has_value() || !ConcernsGroup(worker, failure)) return false;
  return age < options_.start_grace;  // A process may have to start first.
}

void Master::TellFailures(absl::Time now) {
  const std::map<WorkerId, Failure> open = failures_.open();
  for (const auto& [worker, failure] : open) {
    if (AwaitsMore(worker, failure, now)) continue;
    TellFailure(worker, failure, now);
    Record({.kind = EntryKind::kFailure, .id = worker.value(), .value = 1}, now);
  }
}

void Master::TellFailure(WorkerId worker, const Failure& failure, absl::Time now) {
  const WorkerMember* member = members_.FindWorker(worker);
  const bool lives = member != nullptr && member->state == Member::State::kRunning;
  Failure told = failure;
  if (!ConcernsGroup(worker, failure)) told.state = "joining";  // No view has had it.
  // One whose own end nobody saw fell out when another died: that one's end is the first cause.
  effects_.push_back(RecordOf(told,
                              {.worker = worker.value(),
                               .noticed_by = "supervisor",
                               .cause = UnseenCause(worker.ToString(), failure.reason, lives),
                               .collateral_of = failures_.FirstCause(failure.view)},
                              now));
}

}  // namespace rubato
