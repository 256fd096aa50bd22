// One record for each failure: who, where, why, at which step, who noticed, and what it cost. Its
// pieces come from the parent of the process, from the issuer of views and from a survivor; the
// record is written when all are there, or when it is clear that no more will come.
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

Failure& Master::FailureOf(WorkerId worker, absl::Time now) {
  const auto [it, fresh] = failures_.try_emplace(worker);
  if (fresh) {
    it->second.noted = now;
    it->second.step = ledger_.steps();
    if (const WorkerMember* member = members_.FindWorker(worker)) {
      it->second.pid = member->pid;
      it->second.heard = member->heard;
    }
    if (const GroupReport* report = group_.ReportOf(worker)) it->second.where = report->address;
  }
  return it->second;
}

// The next view is without `loss.member`.
void Master::NoteLoss(const Loss& loss, uint64_t view, absl::Time now) {
  const WorkerId worker = WorkerOf(loss.member);
  if (loss.reason == LossReason::kLeft || !worker.valid()) return;
  const WorkerMember* member = members_.FindWorker(worker);
  if (member != nullptr && member->state == Member::State::kLeaving) return;
  Failure& failure = FailureOf(worker, now);
  failure.view = view;
  failure.reason = Name(loss.reason);
  failure.noticed_by =
      loss.noticed_by.valid() ? WorkerOf(loss.noticed_by).ToString() : std::string("master");
}

// A survivor tells what the change to `change.view` took.
void Master::NoteChange(const GroupChange& change) {
  if (change.view == 0) return;
  for (auto& [worker, failure] : failures_) {
    if (failure.view == change.view && !failure.change.has_value()) failure.change = change;
  }
}

void Master::TellFailures(absl::Time now) {
  for (auto it = failures_.begin(); it != failures_.end();) {
    const Failure& failure = it->second;
    const bool complete = !failure.cause.empty() && failure.change.has_value();
    if (!complete && now - failure.noted < kPatience) {
      ++it;
      continue;
    }
    Fields fields = {{"worker", it->first.value()},
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
    Say(now, "failure", std::move(fields),
        !failure.cause.empty()
            ? failure.cause
            : UnseenCause(it->first, members_.FindWorker(it->first), failure.reason));
    it = failures_.erase(it);
  }
}

}  // namespace rubato
