// One job's conductor: who is alive, who holds which task, what is committed, what must be
// started again, and when the job is over.
//
//     starting ─▶ training ─▶ evaluating ─▶ done        Stop: ─▶ stopping ─▶ stopped
//                     └───────── an error that will not go away ─▶ failed
//
// A request and the time go in; a reply comes out, and TakeEffects() gives what must be done in
// the world before that reply is sent. Every change of state is one entry, journaled and then
// applied; replaying the entries applies them again, so a restarted master is the old one with
// fresh leases. Not thread-safe: one loop owns it. Never blocks, never reads a clock.
#ifndef RUBATO_MASTER_MASTER_H_
#define RUBATO_MASTER_MASTER_H_

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "rubato/job/job_spec.h"
#include "rubato/master/checkpoints.h"
#include "rubato/master/effect.h"
#include "rubato/master/entry.h"
#include "rubato/master/evaluations.h"
#include "rubato/master/failures.h"
#include "rubato/master/group.h"
#include "rubato/master/members.h"
#include "rubato/master/messages.h"
#include "rubato/master/partition_loads.h"
#include "rubato/master/rebalance.h"
#include "rubato/master/relaunch.h"
#include "rubato/master/slowest_second.h"
#include "rubato/membership/view_authority.h"
#include "rubato/tasks/ledger.h"

namespace rubato {

struct DataFile {
  std::string name;
  int64_t records = 0;
};

// The data as the reader indexed it, files in the order of record numbers.
struct DataShape {
  std::vector<DataFile> train;
  std::vector<DataFile> validation;
  int64_t train_records() const;
  int64_t validation_records() const;
  // "records [1024, 2048) of train.tsv", counted within each file from 0.
  static std::string Describe(const std::vector<DataFile>& files, Interval range);
};

struct MasterOptions {
  JobSpec job;
  DataShape data;
  std::string version;  // Of this binary; processes of another are refused.
  // Go on with a job that was stopped, failed or lost its supervisor: whoever the journal
  // believes alive is dead, and a verdict of stopped or failed is lifted. To be set as long as
  // the supervisor has launched nobody, even if the first resumed master dies.
  bool resume = false;
  int64_t resume_workers = 0;                         // Go on with so many; 0: as many as it had.
  absl::Duration start_grace = absl::Seconds(60);     // From launch to Register, before a kill.
  absl::Duration leave_grace = absl::Seconds(10);     // From kLeave to exit, before a kill.
  absl::Duration server_silence = absl::Seconds(30);  // Before a hung server is killed.
  absl::Duration cut_grace = absl::Seconds(5);  // For a checkpoint's cuts, before training goes on.
  // For a group's checkpoint that nobody says is written: before that is told of, and at the end,
  // where its result was to be, before the job fails.
  absl::Duration save_grace = absl::Seconds(15), save_patience = absl::Hours(1);
  absl::Duration group_silence = absl::Seconds(15);  // Before a group that is silent as a whole is.
  BusyOptions busy;                                  // With params.rebalance.
};

class Master {
 public:
  // A new job if `records` is empty, else the job they tell of. DATA_LOSS naming the record that
  // makes no sense; FAILED_PRECONDITION if the journal is of a job of another shape (records,
  // batch size, seed, ...), naming both, or if the job is done already.
  static absl::StatusOr<std::unique_ptr<Master>> Open(MasterOptions options,
                                                      const std::vector<std::string>& records,
                                                      absl::Time now);

  RegisterReply Register(const RegisterRequest& request, absl::Time now);
  HeartbeatReply Heartbeat(const WorkerHeartbeat& heartbeat, absl::Time now);
  HeartbeatReply Heartbeat(const ServerHeartbeat& heartbeat, absl::Time now);
  // Strategy allreduce: what comes of it are SendOrder effects.
  void Confer(const ConferRequest& request, absl::Time now);
  LeaseReply Lease(const LeaseRequest& request, absl::Time now);
  CommitReply Commit(const CommitRequest& request, absl::Time now);
  // The worker gives the task up, having waited for its pushes. Enough of these fail the job. Or a
  // worker or a server has a checkpoint that cannot be written, or read.
  void Fail(const FailRequest& request, absl::Time now);

  ScaleReply Scale(const ScaleRequest& request, absl::Time now);
  // Ends the job early: workers leave, the servers write a checkpoint if `checkpoint`, and the
  // state becomes kStopped. Stop(false) after Stop(true) does not wait for the checkpoint.
  void Stop(bool checkpoint, absl::Time now);
  // Idempotent; an exit of a life that is not the current one is ignored.
  void Exit(const ExitNotice& notice, absl::Time now);
  // Whatever follows from time passing. Call it every 50 ms or so.
  void Tick(absl::Time now);

  // What the calls since the last one want done, in order. See effect.h.
  std::vector<Effect> TakeEffects();
  Snapshot snapshot() const;
  JobState state() const;
  const Ledger& ledger() const { return ledger_; }
  const Members& members() const { return members_; }
  const View& view() const { return members_.view(); }
  // Modes sync and hybrid: false while `server` has yet to begin from the checkpoint to which all
  // go back. What it holds is set aside then.
  bool HasReturned(int64_t server) const;

 private:
  using Fields = std::vector<std::pair<std::string, JobEvent::Value>>;
  struct Verdict {
    JobState state = JobState::kDone;
    std::string error;
    bool bad_input = false;
  };

  Master(MasterOptions options, const TaskPlanOptions& plan, absl::Time now);
  absl::Status Replay(const std::vector<std::string>& records, absl::Time now);

  // ---- entries: the only way state changes (master_entries.cc) ----
  void Record(const JournalEntry& entry, absl::Time now);
  absl::Status Apply(const JournalEntry& entry, absl::Time now);
  absl::Status ApplyToMembers(const JournalEntry& entry, absl::Time now);
  absl::Status ApplyToTasks(const JournalEntry& entry);
  void ApplyToCourse(const JournalEntry& entry, absl::Time now);
  void ApplyExit(const JournalEntry& entry, absl::Time now);
  void ApplyResume(const JournalEntry& entry);
  void ApplyFounded(const JournalEntry& entry);
  void Reopen(WorkerId worker);  // What it held, counting what must be computed again.
  void ScaleAtResume(absl::Time now);
  void Vacated(WorkerId worker);  // Its place is free: whoever comes next comes for it.

  // ---- what follows, after every call (master_advance.cc) ----
  void Advance(absl::Time now);
  void ReopenFenced(absl::Time now);
  void ReportEvaluation(absl::Time now);
  void EndIfStalled(absl::Time now);
  void AdvanceEvaluation(absl::Time now);
  void AdvanceBest(absl::Time now);
  // Whether training pauses, so that one version of the weights is evaluated and, if it is the
  // best, kept: nobody is given a task to train, `next` that is. A round that is begun is finished
  // first: between two rounds the weights are the same for any number of workers.
  bool Resting(const Task& next, absl::Time now) const;
  void AdvanceCheckpoint(absl::Time now);
  // Modes sync and hybrid: a checkpoint is a cut at one round on all servers, so that all can go
  // back to it. It begins between two rounds, and none begins before each server has made its cut.
  bool InRounds() const { return ledger_.plan().options().round_tasks > 0; }
  bool AwaitsCuts() const { return AwaitedCut() >= 0; }
  int64_t AwaitedCut() const;  // A server; -1: none.
  void GiveUpLateCuts(absl::Time now);
  // At how many rounds every server cut the checkpoint that is complete now; -1: not at the same.
  int64_t RoundsOfCut() const;
  void EndIfOver(absl::Time now);
  void FailIfTooManyBadRows(absl::Time now);
  void BeginCheckpoint(bool last, absl::Time now, const std::string& cause);
  std::string WhyLast() const;
  void CompleteCheckpoint(const SavedState& saved, absl::Time now);
  void Staff(absl::Time now);
  void StaffWorkers(absl::Time now);
  void Dismiss(absl::Time now);

  // ---- how many servers there are, and who owns what (master_servers.cc) ----
  int64_t ActiveServers() const;
  absl::Status ScaleServers(int64_t servers, absl::Time now);
  absl::Status ApplyToServers(const JournalEntry& entry);
  void HearMove(const ServerHeartbeat& heartbeat, absl::Time now);
  // How busy partitions are; a server that has been too busy for too long gives some away.
  void HearLoad(const ServerHeartbeat& heartbeat, absl::Time now);
  void BeginBusyMove(absl::Time now);
  void CutWhatMoved(absl::Time now);
  bool ServerIsUp(int64_t server) const;
  bool MayMove() const;  // Nothing that forbids it is under way.
  // False if one of the two is not up. `times_mean`, if not 0, is the giver's load.
  bool BeginMove(const MoveOrder& move, double times_mean, absl::Time now);
  std::string WhyMoved(const MoveOrder& move) const;
  // Who shall keep the copy of a server's log; -1 without params.replicas.
  int64_t KeeperOf(int64_t server) const;
  // Whether no server needs one that is on its way out any more.
  bool CopiesSettled() const;
  void AdvanceServers(absl::Time now);
  void SettleServers(absl::Time now);
  void SampleRate(absl::Time now);
  double Rate(absl::Time now) const;  // Of records committed.

  void Close(JobState state, const std::string& error, absl::Time now, int64_t records_repeated = 0,
             bool bad_input = false);
  // Whether every server has told, in this life, what it holds with the last checkpoint.
  bool ServersSettled() const;
  // Whether every server applied exactly what the ledger committed, and that is everything.
  absl::Status Audit(int64_t* records_repeated) const;

  // ---- strategy allreduce (master_group.cc) ----
  bool together() const { return options_.job.strategy == "allreduce"; }
  void HearGroup(WorkerId id, const GroupReport& report, absl::Time now);
  void TellPace(WorkerId id, const GroupReport& report, bool lagged, absl::Time now);
  GroupOrders OrdersFor(WorkerId id) const;
  void FoundGroup(absl::Time now);
  void BeginGeneration(WorkerId founder, absl::Time now);
  // The founder cannot read what its group was to begin from: the one before it will do.
  void FallBack(const FailRequest& request, absl::Time now);
  void FailStep(const FailRequest& request, absl::Time now);
  void WatchSave(absl::Time now);
  void EndGroupIfOver(absl::Time now);
  // Views and failures (master_views.cc, master_failures.cc).
  void OpenAuthority(absl::Time now);
  bool Bereft() const;
  bool HolderMayLive() const;
  bool MayInherit() const;  // Someone is level with the holders, should they die, or may be.
  // A report that is no report, as of another build, is nobody's: it is counted and told.
  void RefuseReport(WorkerId worker, const absl::Status& why, absl::Time now);
  void TellViews(absl::Time now);
  void TakeTasksBack(WorkerId worker, absl::Time now);
  // It held the model, and is in the view to learn it anew.
  void TellCopies(WorkerId worker, uint64_t view, absl::Time now);
  bool InGroupView(WorkerId worker) const;
  void TellGone(WorkerId worker, bool left, absl::Time now);
  WorkerId WorkerOf(MemberId member) const;
  Failure FailureOf(WorkerId worker, absl::Time now) const;
  bool WasAskedToLeave(WorkerId worker) const;
  // Why `worker` was given up; null if it was not.
  const std::string* FirstCauseOf(WorkerId worker) const;
  void NoteFailure(WorkerId worker, Failure failure, absl::Time now);
  void NoteEnd(WorkerId worker, std::string cause, const ExitNotice& seen, absl::Time now);
  void NoteSilence(WorkerId worker, absl::string_view more, absl::Time now);
  void NoteGone(WorkerId worker, std::string cause, absl::Time now);
  void NoteLoss(const Loss& loss, uint64_t view, absl::Time now);
  void NoteChange(const GroupChange& change, absl::Time now);
  void NoteFounding(absl::Time now);
  void NoteHolder(const GroupReport& report, absl::Time now);
  // Whether others of a group waited for `worker`: what that took is in its record.
  bool ConcernsGroup(WorkerId worker, const Failure& failure) const;
  bool AwaitsMore(WorkerId worker, const Failure& failure, absl::Time now) const;
  void TellFailures(absl::Time now);
  void TellFailure(WorkerId worker, const Failure& failure, absl::Time now);
  absl::Status ApplyView(const JournalEntry& entry);
  absl::Status ApplyFailure(const JournalEntry& entry);
  // Whether the holders' weights are the same bits, and every record is in them once.
  absl::Status AuditGroup(int64_t* records_repeated) const;

  // ---- servers that lost what was committed (master_take_back.cc) ----
  struct Lost {
    std::map<int64_t, IntervalSet> records;  // By epoch.
    int64_t partitions = 0;                  // Of its own, that it has not at all.
    bool empty() const { return records.empty() && partitions == 0; }
    int64_t size() const;  // In records.
  };
  // What a server that comes back should have and has not.
  Lost LostBy(const RegisterRequest& request) const;
  // What it lost is committed no more, and trained again; if that cannot be, the job fails and the
  // answer is false. `who` and `why` are for the event.
  bool TakeBack(int64_t server, const Lost& lost, const std::string& who, const std::string& why,
                absl::Time now);
  absl::Status ApplyTakenBack(const JournalEntry& entry);
  // A server's life before may have acknowledged more than there is now.
  void ForgetTheDeadLife();
  // In the end: what was acknowledged by a server, then lost by it and committed only after it had
  // registered anew. True if there was any.
  bool TakeBackAtTheEnd(absl::Time now);
  // Modes sync and hybrid, when all have written a checkpoint: what a cut lacks of its rounds, so
  // that none is complete which nobody should go back to. True if there was any.
  bool TakeBackAtACut(absl::Time now);
  bool TakeBackMissing(int64_t server, const std::map<int64_t, IntervalSet>& committed,
                       absl::Time now);
  // ---- all servers go back to a checkpoint (master_go_back.cc) ----
  // In modes sync and hybrid, where one that lost part of a whole round cannot catch up. `what`
  // and `why` are for the event. False if there is none that all could go back to.
  bool GoBack(int64_t server, const std::string& what, const std::string& why, absl::Time now);
  std::string WhyNotBack() const;  // If there is none.
  absl::Status ApplyWentBack(const JournalEntry& entry);
  // Before a server is taken into the job again. Null: nothing forbids it.
  std::optional<RegisterReply> ReturnFirst(const RegisterRequest& request) const;
  void DismissThoseOfBefore(absl::Time now);
  void NoteReturned(int64_t server);

  // ---- losses (master_losses.cc) ----
  void ExitWorker(const ExitNotice& notice, absl::Time now);
  void ExitServer(const ExitNotice& notice, absl::Time now);
  void FailTask(const FailRequest& failed, absl::Time now);
  void FailCheckpoint(const FailRequest& request, absl::Time now);
  void FailIfHopeless(Role role, absl::Time now);
  void EvictSilent(absl::Time now);
  // A job that lost its supervisor is resumed: whoever was at work then is lost.
  void NoteGone(absl::Time now);
  absl::Duration SilenceOf(WorkerId id, const WorkerMember& worker) const;
  void KillStuck(absl::Time now);

  LeaseReply Lent(Task task) const;

  // ---- data that is away (master_away.cc) ----
  void HearAway(WorkerMember& worker, const std::optional<DataAway>& away, absl::Time now);
  void TellBack(absl::Time now);

  // ---- words (master_report.cc) ----
  RegisterReply RegisterWorker(const RegisterRequest& request, absl::Time now);
  RegisterReply RegisterServer(const RegisterRequest& request, absl::Time now);
  // Null unless it is registered and not evicted; counts as a sign of life.
  WorkerMember* Hear(WorkerId id, absl::Time now);
  void NoteSpent(const WorkerMember& worker, WorkerId id, absl::Time now);
  int64_t BadRows() const;  // Skipped, in the whole job.
  TimeSpent Spent() const;  // By all workers, of all lives.
  void RepeatEffects(absl::Time now);
  void Say(absl::Time now, std::string kind, Fields fields, std::string cause = "");
  void Send(SignalProcess::Kind kind, Role role, int64_t id, int64_t incarnation);
  void NameBadRows(const CommitRequest& request, absl::Time now);
  std::string Manifest() const;
  std::string Describe(const Task& task) const;
  std::string WhyLaunched(const WorkerMember& worker) const;

  MasterOptions options_;
  // Journaled:
  Ledger ledger_;
  Members members_;
  Evaluations evaluations_;
  Checkpoints checkpoints_;
  std::string manifest_;  // Of the newest complete one, as all was then. Empty: there was a newer.
  Group group_;
  GroupView last_view_;                      // Of this generation.
  std::map<MemberId, WorkerId> workers_of_;  // As members of the group introduced themselves.
  Failures failures_;
  std::vector<LaunchPlace> worker_places_;
  std::vector<LaunchPlace> server_places_;
  CrashLoop worker_crashes_, server_crashes_;
  int64_t not_finite_ = 0;  // Tasks failed for a NaN or an infinity.
  int64_t target_ = 0;
  int64_t servers_target_ = 0;
  int64_t moves_ = 0;     // The number of the last.
  double move_busy_ = 0;  // That it is for load: its giver's, in means. 0: it is for number.
  bool moved_since_cut_ = false;  // Partitions, since the last checkpoint began.
  // The checkpoint from which every server has to begin, 0 for none, and which have. Until all have
  // nothing can be committed, so that one that dies on the way loses nothing by beginning again.
  int64_t going_back_to_ = 0;
  std::set<int64_t> returned_;
  ServersScaled scaling_;  // The last.
  absl::Time scaling_began_;
  SlowestSecond scaling_rate_;  // Of records committed, since it began.
  int64_t restarts_ = 0;
  bool stop_requested_ = false;
  bool stop_checkpoint_ = false;
  std::optional<Verdict> verdict_;
  int64_t records_repeated_ = 0;
  int64_t records_recomputed_ = 0;
  int64_t records_taken_back_ = 0;
  double seconds_lost_ = 0;  // Of useful time: what came of it went with the last who had it.
  int64_t bad_rows_ = 0;
  std::string last_bad_row_;
  absl::Time run_began_;
  int64_t records_before_ = 0;  // Committed by then.
  // Of this life only:
  std::map<WorkerId, int64_t> unreadable_;  // How many reports of each could not be read.
  bool cut_due_ = false;                    // A checkpoint waits for the end of the round at hand.
  absl::Time cut_awaited_ = absl::InfiniteFuture();  // Since then, from servers that are up.
  int64_t late_cuts_ = 0;                            // The checkpoint for which nobody waits.
  std::vector<Effect> effects_;
  std::deque<std::pair<absl::Time, int64_t>> rates_;  // Records committed, now and then.
  PartitionLoads loads_;
  absl::Time busy_since_ = absl::InfiniteFuture();  // Someone could give something away.
  absl::Time busy_moved_ = absl::InfinitePast();    // When someone last did.
  int64_t move_refused_ = 0;                        // The last move of which that was told.
  absl::Time last_tick_;
  std::optional<absl::Time> dismissed_;  // When everyone was told to go.
  bool finished_ = false;
  size_t reported_ = 0;                     // Evaluations whose end was told.
  std::optional<ViewAuthority> authority_;  // Of this generation.
  // Attempts at the group's next step that failed: generation and number, and the first error.
  std::set<std::pair<int64_t, int64_t>> step_failures_;
  std::string step_error_;
  // The checkpoint that a group waits for, and who is to write it.
  struct LateSave {
    int64_t version = 0;
    WorkerId writer;
    bool over = false;  // Nobody trains any more.
    absl::Time since;
    bool told = false;
  } late_save_;
  int64_t checkpoint_failures_ = 0;  // In a row.
  double loss_ = 0;
  double loss_weight_ = 0;
  std::optional<DataAway> away_;  // As it was told,
  absl::Time away_since_;         // and since when it was away then.
  absl::Time back_at_ = absl::InfinitePast();
};

}  // namespace rubato

#endif  // RUBATO_MASTER_MASTER_H_
