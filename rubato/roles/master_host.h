// The master as a process: the state machine behind a lock, with its journal, its events and its
// orders for the supervisor. Everything a reply promises is in the journal before it is sent.
#ifndef RUBATO_ROLES_MASTER_HOST_H_
#define RUBATO_ROLES_MASTER_HOST_H_

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <thread>

#include "absl/status/statusor.h"
#include "rubato/adapters/files/append_file.h"
#include "rubato/adapters/grpc/master_handler.h"
#include "rubato/base/clock.h"
#include "rubato/base/mutex.h"
#include "rubato/master/effect.h"
#include "rubato/master/master.h"
#include "rubato/roles/job_directory.h"

namespace rubato {

// Called by the service's threads and by its own ticking one; one lock orders them all. What must
// reach the disk itself (manifests) or may take long (removals) is done by a thread of its own, in
// order, so that no commit waits for it; the job is finished when that is done too.
class MasterHost final : public MasterHandler {
 public:
  // Reads the journal, cuts a torn tail off, and goes on from there. Errors of Master::Open and
  // DecodeJournal, with the journal's path.
  static absl::StatusOr<std::unique_ptr<MasterHost>> Open(const JobDirectory& directory,
                                                          MasterOptions options,
                                                          const Clock* clock);
  ~MasterHost() override;

  RegisterReply Register(const RegisterRequest& request) override;
  HeartbeatReply WorkerBeat(const WorkerHeartbeat& beat) override;
  HeartbeatReply ServerBeat(const ServerHeartbeat& beat) override;
  ConferReply Confer(const ConferRequest& request) override;
  LeaseReply Lease(const LeaseRequest& request) override;
  CommitReply Commit(const CommitRequest& request) override;
  void Fail(const FailRequest& request) override;
  AttendReply Attend(const AttendRequest& request) override;
  Snapshot Show() override;
  ScaleReply Scale(const ScaleRequest& request) override;
  void Stop() override;

 private:
  MasterHost(const JobDirectory& directory, AppendFile journal, std::unique_ptr<EventLog> events,
             std::unique_ptr<Master> master, const Clock* clock);

  void Tick();
  // What the master answers, once what it wants done is done.
  template <typename Question>
  auto Ask(Question question);
  void PerformAll() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void Perform(const AppendJournal& effect) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void Perform(const LaunchProcess& effect) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void Perform(const SignalProcess& effect) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void Perform(const JobEvent& effect) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void Perform(const WriteManifest& effect) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void Perform(const WriteBest& effect) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void Perform(const RemoveCheckpoint& effect) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void Perform(const SendOrder& effect) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void Perform(const JobFinished& effect) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void RunFileWork();
  void AddFileWork(std::function<void()> work) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void AddOrder(OrderKind kind, const ProcessKey& process) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  const JobDirectory directory_;
  const Clock& clock_;
  Mutex mu_;
  CondVar ordered_;
  CondVar file_work_added_;
  AppendFile journal_ ABSL_GUARDED_BY(mu_);
  std::unique_ptr<EventLog> events_ ABSL_GUARDED_BY(mu_);
  std::unique_ptr<Master> master_ ABSL_GUARDED_BY(mu_);
  std::deque<Order> orders_ ABSL_GUARDED_BY(mu_);  // Not yet carried out.
  int64_t next_order_ ABSL_GUARDED_BY(mu_);
  std::map<WorkerId, ConferReply> view_orders_ ABSL_GUARDED_BY(mu_);
  CondVar conferred_;
  std::deque<std::function<void()>> file_work_ ABSL_GUARDED_BY(mu_);
  bool finished_ ABSL_GUARDED_BY(mu_) = false;
  bool closing_ ABSL_GUARDED_BY(mu_) = false;
  std::thread ticker_;
  std::thread filer_;
};

}  // namespace rubato

#endif  // RUBATO_ROLES_MASTER_HOST_H_
