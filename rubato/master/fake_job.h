// A job for tests of the master: its processes do what the test says, its journal is in memory.
#ifndef RUBATO_MASTER_FAKE_JOB_H_
#define RUBATO_MASTER_FAKE_JOB_H_

#include <csignal>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "rubato/base/status.h"
#include "rubato/master/journal.h"
#include "rubato/master/master.h"

namespace rubato {

// 40 records in 4 tasks of 2 batches of 5; 2 servers, 1 to 3 workers, 2 to begin with.
inline MasterOptions SmallJob() {
  MasterOptions options;
  options.job.batch_size = 5;
  options.job.batches_per_task = 2;
  options.job.servers = 2;
  options.job.workers = {.min = 1, .max = 3, .start = 2};
  options.job.shuffle.tasks = false;
  options.data = {.train = {{"a.tsv", 25}, {"b.tsv", 15}}};
  options.version = std::string("1");
  return options;
}

class FakeJob {
 public:
  explicit FakeJob(MasterOptions options = SmallJob()) : options(std::move(options)) { Open(); }

  // ---- the world ----
  void Open() {
    const auto decoded = DecodeJournal(journal, options.version);
    RUBATO_CHECK_OK(decoded.status());
    auto opened = Master::Open(options, decoded->records, now);
    RUBATO_CHECK_OK(opened.status());
    master = *std::move(opened);
    Perform();
  }
  void Perform() {
    for (const Effect& effect : master->TakeEffects()) {
      if (const auto* append = std::get_if<AppendJournal>(&effect)) journal += append->bytes;
      if (const auto* launch = std::get_if<LaunchProcess>(&effect)) launched.push_back(*launch);
      if (const auto* signal = std::get_if<SignalProcess>(&effect)) signalled.push_back(*signal);
      if (const auto* event = std::get_if<JobEvent>(&effect)) {
        events.push_back(event->kind);
        causes[event->kind] = event->cause;
        fields[event->kind] = {event->fields.begin(), event->fields.end()};
      }
      if (const auto* write = std::get_if<WriteManifest>(&effect)) manifests.push_back(*write);
      if (const auto* write = std::get_if<WriteBest>(&effect)) best = write->version;
      if (const auto* gone = std::get_if<RemoveCheckpoint>(&effect)) {
        removed.push_back(gone->version);
        kept = gone->kept;
      }
      if (const auto* send = std::get_if<SendOrder>(&effect))
        orders[send->worker.value()] = send->order;
      if (const auto* over = std::get_if<JobFinished>(&effect)) finished = *over;
    }
  }
  void Pass(absl::Duration time) {
    // In ticks, as the loop does.
    for (const absl::Time end = now + time; now < end; Perform()) {
      now = std::min(now + absl::Milliseconds(50), end);
      master->Tick(now);
    }
  }
  // How many processes of `role` were launched since the last time somebody asked.
  std::vector<LaunchProcess> TakeLaunched(Role role) {
    std::vector<LaunchProcess> taken;
    std::erase_if(launched, [&](const LaunchProcess& launch) {
      if (launch.role == role) taken.push_back(launch);
      return launch.role == role;
    });
    return taken;
  }

  // ---- workers ----
  RegisterReply JoinWorker(int64_t id) {
    return Done(master->Register({.id = id, .pid = 100 + id, .version = "1"}, now));
  }
  HeartbeatReply Beat(int64_t worker) {
    return Done(master->Heartbeat(WorkerHeartbeat{.worker = WorkerId(worker)}, now));
  }
  LeaseReply Lease(int64_t worker, std::vector<TaskId> holding = {}) {
    return Done(master->Lease({.worker = WorkerId(worker), .holding = holding}, now));
  }
  // Pushes everywhere, then commits.
  CommitReply Commit(int64_t worker, const Task& task, int64_t upto, bool release = false) {
    CommitRequest request = {
        .worker = WorkerId(worker), .task = task.id, .upto = upto, .release = release};
    if (task.kind == TaskKind::kEvaluate) request.sums = sums;
    for (auto& applied : disks) {
      if (task.kind == TaskKind::kTrain) applied[task.epoch].Add(task.begin, upto);
    }
    return Done(master->Commit(request, now));
  }
  void Fail(int64_t worker, const Task& task, const std::string& error) {
    master->Fail({.worker = WorkerId(worker), .task = task.id, .error = error}, now);
    Perform();
  }
  // Leases and commits until there is nothing more to do.
  void WorkOff(int64_t worker) {
    for (LeaseReply reply = Lease(worker); reply.verdict == LeaseReply::Verdict::kTask;
         reply = Lease(worker)) {
      Commit(worker, reply.task, reply.task.end);
    }
  }
  void Exit(Role role, int64_t id, int64_t incarnation, int code, int signal,
            std::string last_words = "") {
    master->Exit({.role = role,
                  .id = id,
                  .incarnation = incarnation,
                  .exit_code = code,
                  .signal = signal,
                  .last_words = std::move(last_words)},
                 now);
    Perform();
  }
  void KillWorker(int64_t id) { Exit(Role::kWorker, id, 1, 0, SIGKILL); }
  void CrashWorker(int64_t id, std::string words) {
    Exit(Role::kWorker, id, 1, 1, 0, std::move(words));
  }

  // ---- servers ----
  RegisterReply JoinServer(int64_t id, int64_t incarnation = 1) {
    return Done(master->Register({.role = Role::kServer,
                                  .id = id,
                                  .incarnation = incarnation,
                                  .pid = 10 + id,
                                  .version = "1",
                                  .address = "unix:/s",
                                  .applied = disks[static_cast<size_t>(id)]},
                                 now));
  }
  // Says what it has and obeys: takes the view, writes the checkpoint that is wanted.
  HeartbeatReply BeatServer(int64_t id, int64_t incarnation = 1) {
    const HeartbeatReply reply =
        Done(master->Heartbeat(ServerHeartbeat{.server = ServerId(id),
                                               .incarnation = incarnation,
                                               .view = server_view[static_cast<size_t>(id)],
                                               .applied = disks[static_cast<size_t>(id)],
                                               .checkpointed = checkpointed,
                                               .log_bytes = log_bytes[static_cast<size_t>(id)],
                                               .cut = cuts[static_cast<size_t>(id)],
                                               .cut_rounds = cut_rounds[static_cast<size_t>(id)]},
                               now));
    server_view[static_cast<size_t>(id)] = reply.view.number;
    if (reply.checkpoint_wanted > cuts[static_cast<size_t>(id)]) {
      cuts[static_cast<size_t>(id)] = reply.checkpoint_wanted;
      cut_rounds[static_cast<size_t>(id)] = reply.rounds;
    }
    return reply;
  }
  void BeatServers() {
    for (int64_t id = 0; id < options.job.servers; ++id) BeatServer(id);
  }
  void JoinServers() {
    for (int64_t id = 0; id < options.job.servers; ++id) JoinServer(id);
  }
  // Lets the servers write the checkpoint that is wanted, and everyone go home if told.
  void WriteCheckpoint() {
    const int64_t wanted = BeatServer(0).checkpoint_wanted;
    BeatServer(1);
    checkpointed = wanted;
    BeatServers();
  }

  template <typename Reply>
  Reply Done(Reply reply) {
    Perform();
    return reply;
  }

  MasterOptions options;
  absl::Time now = absl::FromUnixSeconds(1000);
  std::string journal;
  std::unique_ptr<Master> master;
  std::vector<std::map<int64_t, IntervalSet>> disks{3};
  std::vector<int64_t> server_view = {0, 0, 0};
  int64_t checkpointed = 0;
  std::vector<int64_t> cuts = {0, 0, 0}, cut_rounds = {0, 0, 0};
  std::vector<int64_t> log_bytes = {0, 0, 0};
  EvaluationSums sums;
  std::vector<LaunchProcess> launched;
  std::vector<SignalProcess> signalled;
  std::vector<std::string> events;
  // Of the last event of each kind.
  std::map<std::string, std::string> causes;
  std::map<std::string, std::map<std::string, JobEvent::Value>> fields;
  std::vector<WriteManifest> manifests;
  int64_t best = 0;
  std::vector<int64_t> removed, kept;
  std::map<int64_t, std::string> orders;  // The newest view order for each worker.
  std::optional<JobFinished> finished;
};

}  // namespace rubato

#endif  // RUBATO_MASTER_FAKE_JOB_H_
