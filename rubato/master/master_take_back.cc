// Servers that come back with less than was committed: a log was cut or damaged, a power cut took
// what was not on disk. What they lost is trained again. Servers that have it recognise it, so it
// counts once everywhere all the same (docs/design/0003-checkpoints.md).
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "rubato/base/status.h"
#include "rubato/master/master.h"

namespace rubato {
namespace {

// What helps now, or would have.
std::string Mend(const JobSpec& job) {
  return absl::StrCat(
      job.params.replicas == 0
          ? "; with params.replicas: 1 another server would have a copy of its push log"
          : "; the server that kept the copy of its push log has none either",
      ". If a copy of its folder is left, put it back and resume; else begin the job anew in "
      "another directory");
}

// What `applied` lacks of `committed`.
void AddMissing(const IntervalSet& committed, const IntervalSet& applied, IntervalSet* missing) {
  for (const Interval& run : committed.Intervals()) {
    for (const Interval& gap : applied.Gaps(run.begin, run.end)) missing->Add(gap.begin, gap.end);
  }
}

IntervalSet AppliedIn(const std::map<int64_t, IntervalSet>& applied, int64_t epoch) {
  const auto it = applied.find(epoch);
  return it == applied.end() ? IntervalSet() : it->second;
}

std::string CountsOf(const std::map<int64_t, IntervalSet>& records) {
  std::vector<std::string> parts;
  for (const auto& [epoch, set] : records) {
    parts.push_back(absl::StrCat(set.size(), " records of epoch ", epoch));
  }
  return absl::StrJoin(parts, " and ");
}

}  // namespace

int64_t Master::Lost::size() const {
  int64_t size = 0;
  for (const auto& [epoch, set] : records) size += set.size();
  return size;
}

Master::Lost Master::LostBy(const RegisterRequest& request) const {
  const IntervalSet owned = members_.view().map.PartitionsOf(request.id);
  std::vector<PartitionsHeld> held = request.held;
  if (held.empty()) held = {{owned, request.applied}};
  if (request.blank && ledger_.steps() > 0) held.clear();
  Lost lost = {.partitions = owned.size()};
  for (const PartitionsHeld& part : held) {
    // What it holds besides was given away, and it does not know yet.
    const int64_t here = part.partitions.Intersect(owned).size();
    lost.partitions -= here;
    if (here == 0) continue;
    for (int64_t epoch = 0; epoch < ledger_.plan().epochs(); ++epoch) {
      IntervalSet missing;
      AddMissing(ledger_.Committed(epoch), AppliedIn(part.applied, epoch), &missing);
      for (const Interval& run : missing.Intervals()) lost.records[epoch].Add(run.begin, run.end);
    }
  }
  return lost;
}

bool Master::TakeBack(int64_t server, const Lost& lost, const std::string& who,
                      const std::string& why, absl::Time now) {
  const std::string damage = why.empty() ? "" : absl::StrCat("; ", why);
  if (lost.partitions > 0) {
    Close(JobState::kFailed,
          absl::StrCat(who, lost.partitions,
                       " of its partitions: neither its log nor a checkpoint of its own has them",
                       damage, Mend(options_.job)),
          now);
    return false;
  }
  const std::string what = absl::StrCat(who, CountsOf(lost.records));
  for (const auto& [epoch, records] : lost.records) {
    const absl::Status may = ledger_.MayTakeBack(epoch, records);
    if (may.ok()) continue;
    if (GoBack(server, what, damage, now)) return true;
    Close(JobState::kFailed,
          absl::StrCat(what, damage, ", and mode ", options_.job.mode, " cannot train them again: ",
                       std::string(may.message()), ", and ", WhyNotBack(), Mend(options_.job)),
          now);
    return false;
  }
  const int64_t before = records_taken_back_;
  const double share = static_cast<double>(lost.size()) /
                       static_cast<double>(std::max<int64_t>(ledger_.records_committed(), 1));
  Record({.kind = EntryKind::kTakenBack,
          .role = Role::kServer,
          .id = server,
          .incarnation = members_.servers()[static_cast<size_t>(server)].incarnation,
          .value = lost.size(),
          .text = EncodePositions(lost.records),
          .numbers = {Spent().useful * share}},
         now);
  rates_.clear();
  Say(now, "records_taken_back",
      {{"server", server}, {"records", records_taken_back_ - before}, {"step", ledger_.steps()}},
      absl::StrCat(what, ": they are trained again", damage));
  return true;
}

absl::Status Master::ApplyTakenBack(const JournalEntry& entry) {
  RUBATO_ASSIGN_OR_RETURN(const auto lost, DecodePositions(entry.text));
  for (const auto& [epoch, records] : lost) {
    RUBATO_ASSIGN_OR_RETURN(const int64_t again, ledger_.TakeBack(epoch, records));
    records_taken_back_ += again;
    records_recomputed_ += again;
  }
  // A worker may have been told by the server's last life that it has a batch, and not have told
  // the master yet: no commit of before counts.
  ledger_.RenewLeases();
  ledger_.EndEvaluation();
  evaluations_.TakeBack(ledger_.steps());
  checkpoints_.TakeBack(ledger_.steps());
  if (!entry.numbers.empty()) seconds_lost_ += entry.numbers.front();
  records_before_ = std::min(records_before_, ledger_.records_committed());
  for (ServerMember& server : members_.servers()) {
    server.steps_at_launch = std::min(server.steps_at_launch, ledger_.steps());
  }
  return absl::OkStatus();
}

// A worker may know from the dead life alone that a batch is applied there, and wait for other
// servers yet: it computes that again, and those who have it say so. In modes sync and hybrid a
// round would be whole without it; in mode async it would be found to be missing in the end, unless
// its partitions have moved to a server that never died.
void Master::ForgetTheDeadLife() { ledger_.RenewLeases(); }

bool Master::TakeBackAtTheEnd(absl::Time now) {
  std::map<int64_t, IntervalSet> committed;
  for (int64_t epoch = 0; epoch < ledger_.plan().epochs(); ++epoch) {
    committed[epoch] = ledger_.Committed(epoch);
  }
  for (size_t i = 0; i < members_.servers().size(); ++i) {
    if (TakeBackMissing(static_cast<int64_t>(i), committed, now)) return true;
  }
  return false;
}

// What a server tells of its cut it tells with all that it had applied by then, or later.
bool Master::TakeBackAtACut(absl::Time now) {
  if (!InRounds()) return false;
  for (size_t i = 0; i < members_.servers().size(); ++i) {
    const ServerMember& server = members_.servers()[i];
    const bool told = server.last.checkpointed == checkpoints_.wanted();
    if (!told || server.checkpointed_rounds < 0) continue;
    const auto of_rounds = ledger_.OfRounds(server.checkpointed_rounds);
    if (TakeBackMissing(static_cast<int64_t>(i), of_rounds, now)) return true;
  }
  return false;
}

bool Master::TakeBackMissing(int64_t id, const std::map<int64_t, IntervalSet>& committed,
                             absl::Time now) {
  const ServerMember& server = members_.servers()[static_cast<size_t>(id)];
  // Only with a process can anything be lost; whatever else is missing is a mistake.
  if (server.incarnation < 2 || !members_.view().map.Owns(id)) return false;
  Lost lost;
  for (const auto& [epoch, positions] : committed) {
    IntervalSet missing;
    AddMissing(positions, AppliedIn(server.last.applied, epoch), &missing);
    if (!missing.empty()) lost.records[epoch] = std::move(missing);
  }
  if (lost.empty()) return false;
  const std::string who = absl::StrCat("server-", id, " turns out to have lost ");
  TakeBack(id, lost, who, "", now);  // Or the job has failed.
  return true;
}

}  // namespace rubato
