// Modes sync and hybrid: a server came back without part of a whole round, and later rounds were
// computed from the weights it made. So all servers go back to the newest checkpoint that is a cut
// at one round, and so does the ledger (docs/design/0003-checkpoints.md):
//
//     ledger at the round of the cut; workers evicted; servers that are up asked to leave
//       │  each server that registers is told to set its log aside and begin from the checkpoint,
//       │  and is taken when nobody is left who knows of later rounds
//       │  one that has less, its file being damaged, say: all go back to the version before
//     all have begun from it ─▶ tasks are leased again
#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "rubato/base/status.h"
#include "rubato/master/master.h"

namespace rubato {

using State = Member::State;

bool Master::GoBack(int64_t server, const std::string& what, const std::string& why,
                    absl::Time now) {
  const auto found = checkpoints_.OfOneRound(ledger_.rounds(), going_back_to_);
  if (!found.has_value()) return false;
  const int64_t version = *found, newest = checkpoints_.complete(), best = checkpoints_.best();
  const int64_t committed = ledger_.records_committed();
  // Their words would be of rounds that are to come again: pulls and pushes bring the number along.
  std::vector<WorkerId> workers;
  for (const auto& [id, worker] : members_.workers()) {
    if (worker.registered && worker.state != State::kEvicted) workers.push_back(id);
  }
  for (const WorkerId id : workers) {
    Record({.kind = EntryKind::kEvicted,
            .id = id.value(),
            .numbers = Members::Numbers(*members_.FindWorker(id))},
           now);
    Say(now, "worker_evicted", {{"worker", id.value()}, {"view", members_.view().number}},
        absl::StrCat("the job goes back to checkpoint ", version));
  }
  Record({.kind = EntryKind::kWentBack,
          .role = Role::kServer,
          .id = server,
          .value = version,
          .numbers = {Spent().useful}},
         now);
  rates_.clear();
  if (version != newest) {
    effects_.emplace_back(RemoveCheckpoint{checkpoints_.dropped(), checkpoints_.kept()});
  }
  if (checkpoints_.best() != best) effects_.emplace_back(WriteBest{checkpoints_.best()});
  Say(now, "went_back",
      {{"server", server},
       {"version", version},
       {"records", committed - ledger_.records_committed()},
       {"step", ledger_.steps()}},
      absl::StrCat(what, why, ": all servers go back to checkpoint ", version, ", to round ",
                   ledger_.rounds()));
  return true;
}

std::string Master::WhyNotBack() const {
  if (checkpoints_.complete() == 0) return "there is no checkpoint to go back to";
  const std::string newest = absl::StrCat("checkpoint ", checkpoints_.complete());
  const bool more = checkpoints_.kept().size() > 1;
  if (going_back_to_ > 0) {
    return absl::StrCat(newest, " has less on that server, and none before it is kept",
                        more ? " that is of one round" : "");
  }
  return absl::StrCat(newest, " is not of one round on all servers, as they are now",
                      more ? ", nor is any before it" : "");
}

absl::Status Master::ApplyWentBack(const JournalEntry& entry) {
  const std::optional<SavedState> saved = checkpoints_.Find(entry.value);
  if (!saved.has_value()) return absl::FailedPreconditionError("no checkpoint to go back to");
  const int64_t before = std::max<int64_t>(ledger_.records_committed(), 1);
  RUBATO_ASSIGN_OR_RETURN(const int64_t records, ledger_.GoBack(saved->rounds));
  records_taken_back_ += records;
  records_recomputed_ += records;
  if (!entry.numbers.empty()) {
    seconds_lost_ +=
        entry.numbers.front() * static_cast<double>(records) / static_cast<double>(before);
  }
  records_before_ = std::min(records_before_, ledger_.records_committed());
  const bool newest = entry.value == checkpoints_.complete();
  checkpoints_.GoBack(entry.value, ledger_.steps());
  if (!newest) manifest_.clear();  // That of an older one was written when that was complete.
  if (evaluations_.GoBack(ledger_.steps())) ledger_.EndEvaluation();
  reported_ = std::min(reported_, evaluations_.results().size());
  if (!evaluations_.Stalled()) ledger_.GoOn();
  going_back_to_ = entry.value;
  returned_.clear();
  for (ServerMember& server : members_.servers()) {
    server.steps_at_launch = std::min(server.steps_at_launch, ledger_.steps());
    // What it wrote of a later one is no part of the job any more.
    if (server.checkpointed > entry.value) {
      server.checkpointed = entry.value;
      server.checkpointed_rounds = ledger_.rounds();
    }
  }
  return absl::OkStatus();
}

bool Master::HasReturned(int64_t server) const {
  return going_back_to_ == 0 || returned_.contains(server);
}

void Master::NoteReturned(int64_t server) {
  if (going_back_to_ == 0) return;
  returned_.insert(server);
  for (int64_t id = 0; id < ActiveServers(); ++id) {
    if (!returned_.contains(id)) return;
  }
  going_back_to_ = 0;
  returned_.clear();
}

std::optional<RegisterReply> Master::ReturnFirst(const RegisterRequest& request) const {
  if (going_back_to_ == 0) return std::nullopt;
  if (request.began_from != going_back_to_) {
    return RegisterReply{.reason = absl::StrCat("all go back to checkpoint ", going_back_to_),
                         .begin_from = going_back_to_};
  }
  const bool workers =
      std::any_of(members_.workers().begin(), members_.workers().end(),
                  [](const auto& entry) { return entry.second.state == State::kEvicted; });
  bool servers = false;
  for (size_t i = 0; i < members_.servers().size(); ++i) {
    servers =
        servers || (members_.servers()[i].registered && !HasReturned(static_cast<int64_t>(i)));
  }
  if (!workers && !servers) return std::nullopt;
  return RegisterReply{.reason = "somebody of before is still there", .wait = true};
}

void Master::DismissThoseOfBefore(absl::Time now) {
  if (going_back_to_ == 0) return;
  for (auto& [id, worker] : members_.workers()) {
    const bool told = worker.asked_to_leave != absl::InfiniteFuture();
    if (worker.state != State::kEvicted || told) continue;
    Send(SignalProcess::Kind::kKill, Role::kWorker, id.value(), 1);
    worker.asked_to_leave = now;
  }
  for (size_t i = 0; i < members_.servers().size(); ++i) {
    ServerMember& server = members_.servers()[i];
    const auto id = static_cast<int64_t>(i);
    const bool told = server.asked_to_leave != absl::InfiniteFuture();
    if (!server.registered || HasReturned(id) || told) continue;
    Send(SignalProcess::Kind::kTerminate, Role::kServer, id, server.incarnation);
    server.asked_to_leave = now;
  }
}

}  // namespace rubato
