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
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "rubato/job/job_spec.h"
#include "rubato/master/effect.h"
#include "rubato/master/messages.h"

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
};

struct MasterOptions {
  JobSpec job;
  DataShape data;
  std::string version;  // Of this binary; processes of another are refused.
  // Go on with a job that was stopped, failed or lost its supervisor: whoever the journal
  // believes alive is dead, and a verdict of stopped or failed is lifted.
  bool resume = false;
  absl::Duration start_grace = absl::Seconds(60);     // From launch to Register, before a kill.
  absl::Duration leave_grace = absl::Seconds(10);     // From kLeave to exit, before a kill.
  absl::Duration server_silence = absl::Seconds(30);  // Before a hung server is killed.
};

class Master {
 public:
  // A new job if `records` is empty, else the job they tell of. DATA_LOSS naming the record that
  // makes no sense; FAILED_PRECONDITION if the journal is of a job of another shape (records,
  // batch size, seed, ...), naming both, or if the job is done already.
  static absl::StatusOr<std::unique_ptr<Master>> Open(MasterOptions options,
                                                      const std::vector<std::string>& records,
                                                      absl::Time now);
  ~Master();

  RegisterReply Register(const RegisterRequest& request, absl::Time now);
  HeartbeatReply Heartbeat(const WorkerHeartbeat& heartbeat, absl::Time now);
  HeartbeatReply Heartbeat(const ServerHeartbeat& heartbeat, absl::Time now);
  LeaseReply Lease(const LeaseRequest& request, absl::Time now);
  CommitReply Commit(const CommitRequest& request, absl::Time now);
  // The worker gives the task up, having waited for its pushes. Enough of these fail the job.
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
};

}  // namespace rubato

#endif  // RUBATO_MASTER_MASTER_H_
