// One record for each failure: who, where, why, at which step, who noticed, and what it cost. It is
// written when all its pieces are there, or when it is clear that no more will come.
#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "rubato/master/master.h"

namespace rubato {
namespace {

constexpr absl::Duration kPatience = absl::Seconds(3);

// What to say of a worker that left the group and whose end nobody has told of.
std::string UnseenCause(WorkerId worker, const WorkerMember* member, const std::string& reason) {
  const bool lives = member != nullptr && member->state == Member::State::kRunning;
  return absl::StrCat(worker.ToString(), ": out of the group (", reason, ")",
                      lives ? ", though its process lives: it joins again" : "");
}

}  // namespace

// What is known of `worker`'s end so far, or what can be said of any.
Failure Master::FailureOf(WorkerId worker, absl::Time now) const {
  const auto it = failures_.open().find(worker);
  if (it != failures_.open().end()) return it->second;
  // As the journal keeps it.
  const auto to_the_micro = [](absl::Time t) {
    return absl::FromUnixMicros(absl::ToUnixMicros(t));
  };
  Failure failure = {.noted = to_the_micro(now), .step = ledger_.steps()};
  if (const WorkerMember* member = members_.FindWorker(worker)) {
    failure.pid = member->pid;
    failure.heard = to_the_micro(member->heard);
  }
  if (const GroupReport* report = group_.ReportOf(worker)) failure.where = report->address;
  return failure;
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

// Its parent or its lease tells why it ended; one whose end was told already is not told of again.
void Master::NoteEnd(WorkerId worker, std::string cause, absl::Time now, const ExitNotice* seen) {
  if (failures_.CauseTold(worker) != nullptr) return;
  Failure failure = FailureOf(worker, now);
  if (!failure.cause.empty()) return;  // What came first is the cause.
  failure.cause = std::move(cause);
  if (seen == nullptr && failure.reason.empty()) {
    failure.reason = Name(LossReason::kSilent);
    failure.noticed_by = "master";
  }
  // One that never registered, or never was in the group, has not told.
  if (seen != nullptr && failure.pid == 0) failure.pid = seen->pid;
  if (seen != nullptr && failure.where.empty()) failure.where = seen->host;
  NoteFailure(worker, std::move(failure), now);
}

// The next view is without `loss.member`.
void Master::NoteLoss(const Loss& loss, uint64_t view, absl::Time now) {
  const WorkerId worker = WorkerOf(loss.member);
  if (loss.reason == LossReason::kLeft || !worker.valid()) return;
  const WorkerMember* member = members_.FindWorker(worker);
  if (member != nullptr && member->state == Member::State::kLeaving) return;
  // One that went as it was asked to, or whose end was told, is no loss.
  const bool gone = member == nullptr && !failures_.open().contains(worker);
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
  const std::map<WorkerId, Failure> open = failures_.open();
  for (const auto& [worker, known] : open) {
    if (known.view != change.view || known.change.has_value()) continue;
    Failure failure = known;
    failure.change = change;
    NoteFailure(worker, std::move(failure), now);
  }
}

void Master::TellFailures(absl::Time now) {
  const std::map<WorkerId, Failure> open = failures_.open();
  for (const auto& [worker, failure] : open) {
    const bool complete = !failure.cause.empty() && failure.change.has_value();
    if (!complete && now - failure.noted < kPatience && !verdict_.has_value()) continue;
    TellFailure(worker, failure, now);
    Record({.kind = EntryKind::kFailure, .id = worker.value(), .value = 1}, now);
  }
}

void Master::TellFailure(WorkerId worker, const Failure& failure, absl::Time now) {
  Fields fields = {{"worker", worker.value()},
                   {"pid", failure.pid},
                   {"where", failure.where},
                   {"step", failure.step},
                   {"noticed_by", failure.noticed_by.empty() ? "supervisor" : failure.noticed_by},
                   {"noticed_how", failure.reason.empty() ? "exit" : failure.reason}};
  if (failure.change.has_value()) {
    const GroupChange& change = *failure.change;
    const auto ms = [](int64_t us) { return static_cast<double>(us) / 1000; };
    const int64_t heard = absl::ToUnixMicros(failure.heard);
    fields.emplace_back("view", static_cast<int64_t>(failure.view));
    // From its last sign of life, so at most this long.
    fields.emplace_back("detect_ms", ms(std::max<int64_t>(change.noticed_us - heard, 0)));
    fields.emplace_back("agree_ms", ms(change.agree_us));
    fields.emplace_back("reconnect_ms", ms(change.reconnect_us));
    fields.emplace_back("redo_ms", ms(change.redo_us));
  }
  // One whose own end nobody saw fell out when another died: that one's end is the first cause.
  if (failure.cause.empty()) {
    const std::string first = failures_.FirstCause(failure.view);
    if (!first.empty()) fields.emplace_back("collateral_of", first);
  }
  Say(now, "failure", std::move(fields),
      !failure.cause.empty() ? failure.cause
                             : UnseenCause(worker, members_.FindWorker(worker), failure.reason));
}

}  // namespace rubato
