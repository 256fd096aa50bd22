// Holds a job's processes on this machine: starts, signals and reaps them as the master orders, and
// starts the master again when it dies. It decides nothing else.
#ifndef RUBATO_ROLES_SUPERVISOR_H_
#define RUBATO_ROLES_SUPERVISOR_H_

#include <deque>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "rubato/adapters/grpc/master_client.h"
#include "rubato/adapters/posix/process_table.h"
#include "rubato/base/mutex.h"
#include "rubato/master/orders.h"
#include "rubato/roles/job_directory.h"

namespace rubato {

class Supervisor {
 public:
  struct Options {
    std::string program;  // The rubato binary.
    std::string job_dir;  // Absolute.
    std::string run_dir;  // For sockets; short, since their paths may have 107 characters.
    bool resume = false;  // The job ran before, under another supervisor.
    int64_t workers = 0;  // Then: to begin with; 0: as many as it had.
  };
  explicit Supervisor(Options options);
  ~Supervisor();  // Kills every process left.

  // Starts the master.
  absl::Status Start();
  // Waits up to `patience` for something to do and does it: reap, report, restart the master, carry
  // out orders. An error means the job cannot go on: the master cannot be kept alive.
  absl::Status Turn(absl::Duration patience);

  // What the master last said.
  const Snapshot& snapshot() const { return snapshot_; }
  bool finished() const { return finished_; }
  // Records that were committed before this run: more than none after a resume.
  int64_t records_before() const { return records_before_; }
  int64_t master_lives() const { return master_lives_; }
  // Every child known, dead ones included, for processes.json.
  std::vector<ProcessStatus> Processes() const;
  const std::string& master_address() const { return master_address_; }
  // Asks the master for a clean stop; it is tried again until it is heard.
  void RequestStop() { stop_wanted_ = true; }
  // Asks it for another number of processes, likewise. If it will not, Turn says why.
  void RequestScale(const ScaleRequest& request) { scale_wanted_ = request; }
  // Ends what is left after the job: SIGTERM, and SIGKILL after `grace`.
  void EndAll(absl::Duration grace);
  // Ends a job in its midst; snapshot() is then what the master knew when nobody else lived.
  void EndAtOnce();

 private:
  struct Child {
    ProcessKey key;
    pid_t pid = 0;
    bool alive = true;
    std::string state = "running";
    ExitNotice exit;  // Once it is gone.
  };

  absl::Status StartMaster();
  absl::Status Launch(const ProcessKey& key);
  absl::Status Reap();
  absl::Status MasterDied(const ChildExit& exit);
  absl::Status CarryOut(const Order& order);
  void Report();
  void Absorb(const AttendReply& reply);
  AttendRequest Describe() const;
  absl::Status TellProcesses();
  absl::Status AskToScale();
  void PollOrders();  // The thread that listens for orders.

  const Options options_;
  const JobDirectory directory_;
  const std::string master_address_;
  ProcessTable table_;
  std::unique_ptr<MasterClient> client_;
  pid_t master_pid_ = 0;       // 0: it has exited,
  pid_t last_master_pid_ = 0;  // and was this one.
  int64_t master_lives_ = 0;
  std::deque<absl::Time> master_deaths_;  // Recent ones, to notice a crash loop.
  std::map<ProcessKey, Child> children_;
  std::vector<ExitNotice> unreported_;
  std::string processes_written_;  // The text last put into processes.json.
  int64_t orders_done_ = 0;
  bool fresh_master_ = true;
  bool stop_wanted_ = false;
  ScaleRequest scale_wanted_;
  bool finished_ = false;
  bool heard_ = false;  // A master has spoken.
  int64_t records_before_ = 0;
  Snapshot snapshot_;

  Mutex mu_;
  CondVar arrived_;
  std::deque<AttendReply> replies_ ABSL_GUARDED_BY(mu_);  // From the listening thread.
  AttendRequest asking_ ABSL_GUARDED_BY(mu_);             // What it sends.
  bool closing_ ABSL_GUARDED_BY(mu_) = false;
  std::thread listener_;
};

}  // namespace rubato

#endif  // RUBATO_ROLES_SUPERVISOR_H_
