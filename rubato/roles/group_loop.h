// A worker of strategy allreduce as a process: it holds the whole model, and takes every step
// together with the others of its group.
//
//     compute thread                                     group's thread    control thread
//     read ─▶ gradient of my microbatches ─▶ sum ─▶ vote ─▶ apply          beat, lease, report
//
// The compute thread owns the model and makes all calls of the group. What the master must know
// (which steps can no longer be undone, who holds the state, the last checkpoint) goes with the
// heartbeats; what it wants (begin or join a group, go on after an evaluation, rest, leave) comes
// back with them and becomes votes, which the group sums with its gradients: so all members do it
// at the same step. While no master answers, training goes on.
#ifndef RUBATO_ROLES_GROUP_LOOP_H_
#define RUBATO_ROLES_GROUP_LOOP_H_

#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "rubato/adapters/ring/elastic_group.h"
#include "rubato/base/clock.h"
#include "rubato/base/mutex.h"
#include "rubato/data/readable.h"
#include "rubato/job/job_spec.h"
#include "rubato/master/messages.h"
#include "rubato/model/trainer.h"
#include "rubato/ring/straggler.h"
#include "rubato/roles/chronicle.h"
#include "rubato/roles/ending_alone.h"
#include "rubato/roles/gradient_stream.h"
#include "rubato/roles/group_evaluator.h"
#include "rubato/roles/loss_mean.h"
#include "rubato/roles/own_checkpoints.h"
#include "rubato/roles/replica_saver.h"
#include "rubato/roles/view_courier.h"
#include "rubato/roles/worker_control.h"
#include "rubato/worker/replica.h"
#include "rubato/worker/steps_in_doubt.h"
#include "rubato/worker/task_reader.h"
#include "rubato/worker/time_ledger.h"

namespace rubato {

struct GroupLoopOptions {
  JobSpec job;
  std::string directory;    // The job's,
  std::string checkpoints;  // and its folder of them.
  std::string group;        // What all workers of the job call it.
  std::string secret;       // What they all know and strangers do not.
  std::string contract;     // What they must have in common, where no master sees to it.
  std::string master;       // Empty: there is none, and `orders` says what to begin with.
  GroupOrders orders;
  // Without a master: how long to wait for those who are to let this worker in,
  absl::Duration join_timeout = absl::InfiniteDuration();
  // who draws how it stands, told often and after each event,
  std::function<void(const Snapshot&)> show;
  // and who says a line to people. Both on the compute thread; neither may be null.
  std::function<void(const std::string&)> say;
  std::string listen = "127.0.0.1:0";  // For the other workers.
  WorkerId id;
  std::string version;
  std::function<bool()> stop;  // True once this process was asked to end.
  const Clock* clock = nullptr;
};

class GroupLoop {
 public:
  // There may be no `validation`. All must outlive the loop.
  GroupLoop(const GroupLoopOptions& options, Trainer& trainer, Readable train, Readable validation);
  ~GroupLoop();

  // Works until told to leave; answers with the exit code. An error is for the log's last line.
  absl::StatusOr<int> Run();

  // Without a master: how it stands, or stood at the end; whether it has been in a group at all;
  // and what it came to.
  Snapshot snapshot();
  bool joined() const { return chronicle_.has_value() && chronicle_->in_group(); }
  struct Result {
    std::string line;     // For people; empty if this worker has no result.
    std::string weights;  // The same for all workers who have the same.
  };
  const Result& result() const { return result_; }

 private:
  // How far training was after a step of the group.
  struct Mark {
    int64_t group_step = 0;
    int64_t steps = 0;
    int64_t records = 0;
    int64_t records_wrong = 0;
    int64_t bad_rows = 0;
  };
  enum class Outcome { kGoOn, kLeft };

  absl::StatusOr<int> Work();
  absl::Status Register();
  absl::Status MakeReplica(const GroupOrders& orders);
  absl::Status OpenGroup(const GroupOrders& orders);
  void CloseGroup();
  absl::Status Restore(const std::string& file);
  // With a master, who then finds another to begin the next generation from, if there may be one.
  bool TellUnreadable(const GroupOrders& orders, const absl::Status& opened);
  // A full disk, say: nobody dies of it.
  void CheckpointFailed(const absl::Status& status);
  void SayIfLate(bool late);
  absl::StatusOr<Outcome> TakeStep();
  // Between two steps: what is committed, what must be saved, what the master shall know.
  void AtBoundary(const StepPlan& plan);
  void SaveAtBoundary(const StepPlan& plan);
  void TellProgress();
  absl::StatusOr<bool> TrainingNext();
  void Compute(const StepPlan& plan);
  // What was computed for the step: whether it counted, or must be computed again.
  void Account(int64_t step, bool applied);
  void SettleDoubts();
  void CountRedone(const StepsInDoubt::Work& work);
  // To whoever reads the log, and to the master, who counts; the step begins again.
  void SayFailed(const absl::Status& status);
  // Sums what this worker has computed and voted with what the others have.
  absl::Status Sum(bool training);
  absl::Status SumVotes();  // Last, and never rounded.
  void SayWhyItWaits(const absl::Status& status);
  void TellChange();
  // Of those who are not in the view any more.
  void NoteLastSigns();
  // The next view is there: what of the wait for the step's sum was for those it has lost.
  void CountLostWait();
  // After a step of training: whether this worker is slow beside the others.
  void WatchPace();
  absl::Status ComputeRun(const PlanRange& step, Quota run);
  void CastVotes();
  void Rest();
  void StopEvaluating();
  absl::StatusOr<bool> Commit();
  // Without a master.
  LoneStanding StandingAlone() const;
  bool HasSomethingToKeep() const;  // Should it stop now, and nobody else be there.
  void BeginRecord(const GroupOrders& orders);
  void EndRecord(const absl::StatusOr<int>& result);
  void EnterView(const GroupView& view);
  void BeginTraining();
  std::string WhomItMisses();
  void TellParting(const Parting& parting);
  std::vector<Departure> InOurTime(std::vector<Departure> departures) const;
  Chronicle::Standing StandingNow(absl::Time noticed);
  void Record(std::string kind, Chronicle::Fields fields, std::string cause);
  // What the chronicle has to tell goes to the events, and how it stands to whoever shows it.
  void WriteEvents();
  void ShowNow();
  void ShowSometimes();
  void NoteLoss(double loss);
  void WriteProcesses();
  absl::Status Evaluate(const std::string& why);
  void EvaluateAlone();
  absl::Status SaveAtTheEnd(const std::string& why);
  // DEADLINE_EXCEEDED once nobody has let this worker in for too long.
  absl::Status CheckPatience(const absl::Status& why) const;
  absl::Status FinishAlone();
  absl::StatusOr<int> StopAlone(bool left);
  void CountWhatStays();
  // The step counts for nobody and begins again; without a master, so often and no more.
  absl::StatusOr<Outcome> FailedAgain();
  // Others have ended training, or are gone, before this one had the model.
  absl::StatusOr<int> EndWithout(Ending ending);
  void Enter(Activity activity);
  WorkerHeartbeat Describe();

  const GroupLoopOptions& options_;
  Trainer& trainer_;
  const Readable train_, validation_;
  TaskPlan plan_;  // With a master, as that one cuts it.
  const int microbatches_;
  GradientStream stream_;
  TaskReader reader_;
  std::unique_ptr<GroupEvaluator> evaluator_;  // Null without validation data.
  std::optional<Replica> replica_;
  std::unique_ptr<ViewCourier> courier_;  // With a master; outlives group_.
  std::unique_ptr<ElasticGroup> group_;
  int64_t generation_ = 0;
  float kind_ = 0;  // Summed to tell newcomers what kind of step it is.
  std::deque<Mark> marks_;
  ReplicaSaver saver_;
  absl::Time save_again_ = absl::InfinitePast();      // With a master: after one that failed.
  absl::Time saving_since_ = absl::InfiniteFuture();  // Without one: the checkpoint on its way.
  std::optional<OwnCheckpoints> own_;                 // Without a master.
  Batch batch_;
  StepOutput out_;
  Quota quota_;                                     // Of the step in hand.
  int64_t attempt_ = 0;                             // Its number in the group; a failed one counts.
  std::optional<CanonicalSum> canonical_;           // Deterministic: its gradients.
  absl::Duration computed_;                         // For the step in hand,
  int64_t computed_positions_ = 0;                  // to be told apart if it must begin again.
  absl::Time sums_since_ = absl::InfiniteFuture();  // Waits for its sum, which has yet to come.
  StepsInDoubt doubts_;
  int partings_ = 0;  // Those of the group that doubts_ knows of.
  StragglerWatch pace_;
  struct {
    int64_t count = 0;
    std::string first;  // Why, if it was this worker's part.
  } failures_;          // Of the step in hand.
  // Without a master: what it tells.
  std::optional<Chronicle> chronicle_;
  std::unique_ptr<EventLog> events_;  // Null if it cannot be written.
  JobState state_ = JobState::kStarting;
  std::string error_, ending_;  // Why it failed, or ended as it did.
  Result result_;
  std::vector<EvaluationResult> evaluations_;
  struct {
    double mean = 0, weight = 0;
  } loss_;  // A moving mean of the group's.
  absl::Time opened_, shown_;
  int64_t records_before_ = 0;

  std::map<int64_t, int64_t> last_signs_;  // Since TellChange told some: GroupChange::heard_us.
  bool told_ = false;  // By the sum of a step: the others have trained to the end.
  absl::Time seen_;    // The group, when it last took a step.
  absl::Time said_;    // Why it waits.
  absl::Time beaten_;  // At rest: when the master was last asked.

  Mutex obey_mu_;
  ElasticGroup* obeying_ ABSL_GUARDED_BY(obey_mu_) = nullptr;  // Takes the master's orders.
  Mutex mu_;
  CondVar changed_;
  GroupOrders orders_ ABSL_GUARDED_BY(mu_);
  int64_t checkpoint_wanted_ ABSL_GUARDED_BY(mu_) = 0;
  GroupReport report_ ABSL_GUARDED_BY(mu_);
  TimeLedger time_ ABSL_GUARDED_BY(mu_);
  LossMean losses_ ABSL_GUARDED_BY(mu_);
  bool leaving_ ABSL_GUARDED_BY(mu_) = false;
  std::optional<std::string> fenced_ ABSL_GUARDED_BY(mu_);  // Why.
  // Last, so that its thread ends first.
  std::unique_ptr<WorkerControl> control_;
};

}  // namespace rubato

#endif  // RUBATO_ROLES_GROUP_LOOP_H_
