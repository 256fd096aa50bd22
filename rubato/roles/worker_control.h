// A worker's talk with the master: one thread that beats, leases tasks ahead, and reports commits
// until they are heard. While no master answers, the worker goes on with what it holds.
#ifndef RUBATO_ROLES_WORKER_CONTROL_H_
#define RUBATO_ROLES_WORKER_CONTROL_H_

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "rubato/adapters/grpc/master_client.h"
#include "rubato/base/mutex.h"
#include "rubato/master/messages.h"

namespace rubato {

// Thread-safe. Callbacks run on the control thread.
class WorkerControl {
 public:
  struct Options {
    std::string master;
    WorkerId id;
    std::string version;
    absl::Duration heartbeat;
    int64_t tasks_ahead = 2;  // Leased beyond the one being read, to outlast a master's restart.
    absl::Duration ask_again = absl::Milliseconds(20);  // After "wait": for a task.
    bool lease = true;                          // From the start; otherwise from StartLeasing() on.
    std::function<WorkerHeartbeat()> describe;  // Fills loss, time spent, bad rows.
    std::function<void(const View&)> on_view;   // A view this worker is in.
    // Every answer of a master that knows this worker; may be null.
    std::function<void(const HeartbeatReply&)> on_reply;
    // The lease of a task is gone: drop what was done by it.
    std::function<void(TaskId, int64_t lease)> on_lost;
    std::function<void()> on_leave;               // Finish the batch in hand and go.
    std::function<void(std::string)> on_refused;  // Fenced: nothing this worker does counts.
  };
  explicit WorkerControl(Options options);
  ~WorkerControl();

  // Registers, waiting for a master if need be, and starts the thread. FAILED_PRECONDITION with
  // the master's reason if it does not want this worker. Null `stop` or false: keep trying.
  absl::Status Start(const std::function<bool()>& stop);

  // The next task to read, or nothing after `patience`.
  std::optional<Task> NextTask(absl::Duration patience);
  // Reports in order, repeated until the master has heard. A task is held until its whole range
  // is committed, it is released or it has failed.
  void Commit(CommitRequest request);
  void Fail(FailRequest request);
  // Gives up `task` from its last commit on, without blame.
  void HandBack(TaskId task);
  void StartLeasing();
  // Beats again at once, for something has changed that the master waits for.
  void BeatNow();
  // Leases no more; tasks not yet read are handed back.
  void StopLeasing();
  // Whether every report was heard.
  bool Settled();
  // Hands back every task in hand, from its last commit on.
  void ReleaseAll();
  int64_t view();

 private:
  struct Report {
    std::optional<CommitRequest> commit;
    std::optional<FailRequest> fail;
  };

  struct Held {
    int64_t end = 0;
    int64_t committed = 0;  // As reported, heard or not.
    int64_t lease = 0;
  };

  bool Register(std::string* refused);
  void Run();
  void Beat();
  void SendReports();
  bool SendCommit(const CommitRequest& request);
  void AskForTask();
  void Adopt(const View& view);
  void Release(TaskId task, int64_t lease, int64_t upto) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Not if it was leased anew since. 0: whichever.
  void LetGo(TaskId task, int64_t lease) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  bool WantsTask() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  const Options options_;
  const std::unique_ptr<MasterClient> client_;
  Mutex mu_;
  CondVar changed_;
  std::deque<Task> leased_ ABSL_GUARDED_BY(mu_);  // Not yet read.
  std::map<TaskId, Held> holding_ ABSL_GUARDED_BY(mu_);
  std::deque<Report> reports_ ABSL_GUARDED_BY(mu_);
  int64_t view_ ABSL_GUARDED_BY(mu_) = 0;
  bool leasing_ ABSL_GUARDED_BY(mu_);
  bool beat_now_ ABSL_GUARDED_BY(mu_) = false;
  bool closing_ ABSL_GUARDED_BY(mu_) = false;
  bool refused_ = false;  // The control thread's.
  absl::Time ask_again_;  // After "wait": when to ask for a task again.
  std::thread thread_;
};

}  // namespace rubato

#endif  // RUBATO_ROLES_WORKER_CONTROL_H_
