// The job directory: everything about one job that outlives its processes.
//
//   job.yaml        the job as resolved              journal         the master's append-only log
//   events.jsonl    what happened, a line each       processes.json  role, id, pid, address, state
//   index/          byte offsets of the data         checkpoints/V/  one folder a version
//                                                    checkpoints/BEST  the best one's version
//   servers/S/      a server's push log, and copies  metrics/        TensorBoard event files
//   addresses/      where servers with replicas listen
//   logs/           ROLE-ID.log                      summary.json    written at the end
//   features.yaml   the features, if the job has some
//   group.secret    what the job's processes know each other by beyond one machine
#ifndef RUBATO_ROLES_JOB_DIRECTORY_H_
#define RUBATO_ROLES_JOB_DIRECTORY_H_

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "rubato/master/effect.h"
#include "rubato/master/messages.h"

namespace rubato {

class JobDirectory {
 public:
  explicit JobDirectory(std::string path) : path_(std::move(path)) {}

  // Makes the folder and its children. ALREADY_EXISTS if a job, or anything else, lives there.
  static absl::StatusOr<JobDirectory> Create(const std::string& path);
  // `./rubato-jobs/NAME-N` with the first free N.
  static absl::StatusOr<JobDirectory> CreateNext(const std::string& name);
  // NOT_FOUND, with what is missing, if `path` holds no job.
  static absl::StatusOr<JobDirectory> Open(const std::string& path);

  const std::string& path() const { return path_; }
  std::string job_file() const { return path_ + "/job.yaml"; }
  std::string features() const { return path_ + "/features.yaml"; }
  std::string journal() const { return path_ + "/journal"; }
  std::string events() const { return path_ + "/events.jsonl"; }
  std::string processes_path() const { return path_ + "/processes.json"; }
  std::string summary() const { return path_ + "/summary.json"; }
  std::string checkpoints() const { return path_ + "/checkpoints"; }
  // Which of the checkpoints is the job's model, if it keeps its best (evaluate.keep_best).
  std::string best() const { return checkpoints() + "/BEST"; }
  // Nothing if the job keeps none. DATA_LOSS, naming the file, if it was changed.
  absl::StatusOr<std::optional<int64_t>> BestVersion() const;
  // What workers, and servers of parameters, know each other by where they are not on one machine.
  std::string secret() const { return path_ + "/group.secret"; }
  std::string metrics() const { return path_ + "/metrics"; }
  std::string train_index() const { return path_ + "/index/train"; }
  std::string validation_index() const { return path_ + "/index/validation"; }
  std::string server(ServerId id) const;
  std::string log(Role role, int64_t id) const;

  // One supervisor at a time: FAILED_PRECONDITION, naming its pid, while another holds it. The
  // lock goes with the returned object, and with the process.
  absl::StatusOr<std::shared_ptr<void>> Lock() const;
  bool Locked() const;  // By anybody.

  // Whether it is that of a worker that trains without a master, or did.
  bool IsOfLoneWorker() const;
  // FAILED_PRECONDITION, with the way to go on, if so: a master that begins there would put its
  // checkpoints in the place of those.
  absl::Status CheckHasMaster() const;
  // FAILED_PRECONDITION if the job is done: it has nothing to go on with, and its directory is left
  // as it is.
  absl::Status CheckNotDone() const;

  static constexpr const char* kNoMaster = "none";  // In place of the master's address.
  // What processes.json says, and replacing it atomically.
  static std::string ProcessesText(const std::vector<ProcessStatus>& processes,
                                   const std::string& master_address);
  absl::Status WriteProcesses(const std::string& text) const;
  // The master's address from processes.json of a running job. FAILED_PRECONDITION, with the way
  // to go on, if the job is not running; UNAVAILABLE while it starts.
  absl::StatusOr<std::string> MasterAddress() const;

 private:
  std::string path_;
};

// Appends lines to events.jsonl; each is one write, so several processes may share the file.
class EventLog {
 public:
  static absl::StatusOr<std::unique_ptr<EventLog>> Open(const std::string& path);
  ~EventLog();
  // `fields` are JSON members without braces ("\"worker\":3"), or empty.
  void Write(absl::Time now, absl::string_view kind, absl::string_view fields);
  void Write(const JobEvent& event);

 private:
  explicit EventLog(int file) : file_(file) {}
  int file_;
};

}  // namespace rubato

#endif  // RUBATO_ROLES_JOB_DIRECTORY_H_
