// A worker as a process: read, pull, compute, push, with the next batches under way meanwhile.
//
//     reader thread        compute thread                     client's thread     control thread
//     task ─▶ batches ─▶  open (pull) ─▶ compute ─▶ push  ─▶  acknowledged  ─▶    commit
//
// The compute thread owns the model; everything the threads share sits behind one lock. At most
// max_inflight + 1 batches are between pull and acknowledgement, so with 0 a run of one worker is
// repeatable to the bit.
#ifndef RUBATO_ROLES_WORKER_LOOP_H_
#define RUBATO_ROLES_WORKER_LOOP_H_

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "rubato/adapters/posix/params_client.h"
#include "rubato/base/clock.h"
#include "rubato/base/mutex.h"
#include "rubato/data/readable.h"
#include "rubato/job/job_spec.h"
#include "rubato/master/messages.h"
#include "rubato/model/trainer.h"
#include "rubato/roles/loss_mean.h"
#include "rubato/roles/worker_control.h"
#include "rubato/worker/evaluation.h"
#include "rubato/worker/push_window.h"
#include "rubato/worker/task_reader.h"
#include "rubato/worker/time_ledger.h"
#include "rubato/worker/unique.h"

namespace rubato {

struct WorkerLoopOptions {
  JobSpec job;
  std::string master;
  std::string secret;  // Of the job, for servers beyond this machine.
  WorkerId id;
  std::string version;
  std::function<bool()> stop;  // True once this process was asked to end.
  const Clock* clock = nullptr;
};

class WorkerLoop {
 public:
  // There may be no `validation`. All must outlive the loop.
  WorkerLoop(const WorkerLoopOptions& options, Trainer& trainer, Readable train,
             Readable validation);
  ~WorkerLoop();

  // Works until told to leave; answers with the exit code. An error is for the log's last line.
  absl::StatusOr<int> Run();

 private:
  // A batch on its way from the reader to its acknowledgement.
  struct Work {
    Task task;
    BatchKey key;
    Batch batch;
    std::vector<UniqueIds> ids;            // By table.
    std::vector<std::vector<float>> rows;  // By table, as pulled.
    std::vector<float> dense;
    std::vector<int64_t> steps;  // By server: applied there when it was pulled.
    absl::Status status;         // Why the task cannot be read on; the batch is void.
    bool pulled = false;         // Guarded by mu_, as `status` once the pull is out.
    int refused = 0;             // As stale. The compute thread's, but while a push is out.
    absl::Duration compute;
  };

  absl::Status Connect();
  void Read();
  void ReadTask(const Task& task, TaskReader& reader);
  void Skipped(const BatchKey& key, const SkippedRows& rows);
  bool Prepared(std::shared_ptr<Work> work);  // False if the task was lost meanwhile.
  void OpenBatches();
  void OpenAgain();
  std::shared_ptr<Work> NextPulled();
  void Pull(const std::shared_ptr<Work>& work);
  void Handle(const std::shared_ptr<Work>& work);
  void Train(const std::shared_ptr<Work>& work);
  void Evaluate(Work& work);
  StepInput InputOf(const Work& work) const;
  PushRequest PushOf(const Work& work);  // Without its gradients.
  void Send(const PushRequest& request, const std::shared_ptr<Work>& work);
  void Push(const std::shared_ptr<Work>& work);
  void PushNotFinite(const std::shared_ptr<Work>& work);
  void Acknowledged(const std::shared_ptr<Work>& work, const absl::StatusOr<PushOutcome>& outcome);
  void Refused(const std::shared_ptr<Work>& work) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void SendCommits() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void TellSkipped(CommitRequest* request) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void Drop(TaskId task) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void GiveUp(TaskId task, const absl::Status& why) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void FlushFailures() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void Leave();
  void Enter(Activity activity) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void WaitAs(Activity activity, absl::Duration patience) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  WorkerHeartbeat Describe();

  const WorkerLoopOptions& options_;
  Trainer& trainer_;
  const Readable train_, validation_;
  const int64_t id_columns_;
  const OptimizerSpec optimizer_;
  const GroupColumn group_;  // That it is there was seen by `rubato worker --check`.
  std::unique_ptr<ParamsClient> client_;
  std::unique_ptr<WorkerControl> control_;
  std::thread reader_;
  StepOutput out_;
  size_t skipped_logged_ = 0;  // The reader thread's.

  Mutex mu_;
  CondVar changed_;
  std::deque<std::shared_ptr<Work>> ready_ ABSL_GUARDED_BY(mu_);   // Read, not yet opened.
  std::deque<std::shared_ptr<Work>> again_ ABSL_GUARDED_BY(mu_);   // Refused: to be pulled anew.
  std::deque<std::shared_ptr<Work>> opened_ ABSL_GUARDED_BY(mu_);  // Pull sent, not computed.
  PushWindow window_ ABSL_GUARDED_BY(mu_);
  TimeLedger time_ ABSL_GUARDED_BY(mu_);
  std::map<TaskId, Evaluation> evaluations_ ABSL_GUARDED_BY(mu_);
  std::map<TaskId, absl::Status> failing_ ABSL_GUARDED_BY(mu_);  // Given up; pushes still out.
  std::map<TaskId, int> pushing_ ABSL_GUARDED_BY(mu_);           // Pushes not yet answered.
  std::map<TaskId, int64_t> leases_ ABSL_GUARDED_BY(mu_);        // Task read -> its lease.
  std::set<int64_t> lost_ ABSL_GUARDED_BY(mu_);                  // Leases gone: drop on sight.
  LossMean losses_ ABSL_GUARDED_BY(mu_);
  // Rows left out, by task and batch, until they are told with the commit.
  std::map<TaskId, std::map<int64_t, SkippedRows>> skipped_ ABSL_GUARDED_BY(mu_);
  bool leaving_ ABSL_GUARDED_BY(mu_) = false;
  bool fenced_ ABSL_GUARDED_BY(mu_) = false;
  bool reading_ ABSL_GUARDED_BY(mu_) = false;  // The reader has a task in hand.
  std::string why_ ABSL_GUARDED_BY(mu_);       // Fenced: what the master or a server said.
};

}  // namespace rubato

#endif  // RUBATO_ROLES_WORKER_LOOP_H_
