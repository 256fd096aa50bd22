// rubato master, server, worker: the roles of a job, started by `rubato train`, usable by hand.
#include <cstdio>
#include <memory>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "rubato/adapters/files/files.h"
#include "rubato/adapters/grpc/master_service.h"
#include "rubato/adapters/posix/check_address.h"
#include "rubato/adapters/posix/real_clock.h"
#include "rubato/adapters/posix/secret_file.h"
#include "rubato/adapters/posix/signals.h"
#include "rubato/adapters/ring/endpoint.h"
#include "rubato/adapters/torch_loader/load_trainer.h"
#include "rubato/adapters/yaml/job_file.h"
#include "rubato/base/status.h"
#include "rubato/cli/commands.h"
#include "rubato/cli/lone_worker.h"
#include "rubato/cli/version.h"
#include "rubato/job/contract.h"
#include "rubato/model/named_tables.h"
#include "rubato/roles/checkpoint_weights.h"
#include "rubato/roles/data_set.h"
#include "rubato/roles/exit_codes.h"
#include "rubato/roles/group_loop.h"
#include "rubato/roles/master_host.h"
#include "rubato/roles/metrics_page.h"
#include "rubato/roles/server_host.h"
#include "rubato/roles/worker_loop.h"
#include "rubato/worker/evaluation.h"

namespace rubato {
namespace {

struct RoleFlags {
  std::string job_dir;
  std::string listen;
  std::string master;
  std::string job;                // A worker by itself: the job file,
  std::vector<std::string> set;   // what of it shall be otherwise,
  std::vector<std::string> join;  // and who is there already;
  std::string go_on;              // or the job directory whose checkpoint a group begins with;
  std::string secret_file;        // and what keeps strangers out;
  std::string join_timeout;       // how long it waits to be let in,
  bool json = false;              // and whether its summary goes to stdout.
  int64_t id = 0;
  int64_t incarnation = 1;
  int64_t workers = 0;
  bool resume = false;
  bool check = false;
};

constexpr absl::Duration kJoinTimeout = absl::Minutes(10);  // Machines may start one by one.

bool AskedToStop() { return StopSignals() > 0; }

// What the master hears and says is in plain sight (docs/security.md).
void WarnOfOpenPort(const std::string& listen) {
  if (StaysHere(listen)) return;
  std::fprintf(stderr,
               "warning: --listen %s: whoever reaches this port can read and change the job; "
               "nothing there is encrypted, and nobody proves who he is. 127.0.0.1 and unix:/path "
               "stay on this machine\n",
               listen.c_str());
}

absl::StatusOr<int> RunMaster(const RoleFlags& flags) {
  CatchStopSignals();
  RUBATO_RETURN_IF_ERROR(Annotate(CheckListenAddress(flags.listen), "--listen"));
  WarnOfOpenPort(flags.listen);
  RUBATO_ASSIGN_OR_RETURN(const JobDirectory directory, JobDirectory::Open(flags.job_dir));
  RUBATO_ASSIGN_OR_RETURN(const JobSpec spec, LoadJobFile(directory.job_file()));
  RUBATO_ASSIGN_OR_RETURN(const DataShape shape, ReadDataShape(spec, directory));
  const RealClock clock;
  RUBATO_ASSIGN_OR_RETURN(const std::unique_ptr<MasterHost> host,
                          MasterHost::Open(directory,
                                           {.job = spec,
                                            .data = shape,
                                            .version = kVersion,
                                            .resume = flags.resume,
                                            .resume_workers = flags.workers},
                                           &clock));
  RUBATO_ASSIGN_OR_RETURN(const std::unique_ptr<MasterService> service,
                          MasterService::Start(flags.listen, host.get()));
  std::fprintf(stderr, "the master of %s listens on %s\n", spec.name.c_str(),
               service->address().c_str());
  MetricsPage metrics({.key = "metrics", .address = spec.metrics, .text = [&] {
                         return PrometheusText(host->Show(), spec.name);
                       }});
  while (!AskedToStop()) {
    metrics.KeepUp(absl::Now());
    absl::SleepFor(absl::Milliseconds(50));
  }
  return kRoleDone;
}

// For servers of parameters and their workers, who need one beyond this machine alone: where it
// cannot be had they go on without, and whoever is to leave the machine is refused.
std::string SecretIfAny(const JobDirectory& directory) {
  absl::StatusOr<std::string> secret = ReadOrMakeSecret(directory.secret());
  if (secret.ok()) return *std::move(secret);
  std::fprintf(stderr, "no secret, so that nothing may leave this machine: %s\n",
               std::string(secret.status().message()).c_str());
  return "";
}

absl::StatusOr<int> RunServerRole(const RoleFlags& flags) {
  CatchStopSignals();
  RUBATO_RETURN_IF_ERROR(Annotate(CheckAddress(flags.master), "--master"));
  RUBATO_RETURN_IF_ERROR(Annotate(CheckReachable(flags.listen), "--listen"));
  RUBATO_ASSIGN_OR_RETURN(const JobDirectory directory, JobDirectory::Open(flags.job_dir));
  RUBATO_ASSIGN_OR_RETURN(const JobSpec spec, LoadJobFile(directory.job_file()));
  std::string secret;
  if (StaysHere(flags.listen)) {
    secret = SecretIfAny(directory);
  } else {
    RUBATO_ASSIGN_OR_RETURN(secret, ReadOrMakeSecret(directory.secret()));
  }
  return RunServer({.job = spec,
                    .job_dir = directory.path(),
                    .secret = secret,
                    .master = flags.master,
                    .listen = flags.listen,
                    .id = ServerId(flags.id),
                    .incarnation = flags.incarnation,
                    .version = kVersion,
                    .stop = AskedToStop});
}

absl::Status FillDirectory(const JobDirectory& directory, JobSpec spec) {
  RUBATO_RETURN_IF_ERROR(KeepFeatures(directory, &spec));
  RUBATO_RETURN_IF_ERROR(WriteJobFile(directory.job_file(), spec));
  for (const DataPart part : {DataPart::kTrain, DataPart::kValidation}) {
    if (part == DataPart::kValidation && spec.data.validation.empty()) continue;
    RUBATO_RETURN_IF_ERROR(IndexDataSet(spec, part, directory, [](int64_t, int64_t) {
                             return absl::OkStatus();
                           }).status());
  }
  return absl::OkStatus();
}

// The job directory of a worker that nobody started but its user: its own, from the job file.
absl::StatusOr<JobDirectory> MakeDirectory(const RoleFlags& flags) {
  RUBATO_ASSIGN_OR_RETURN(const JobSpec spec, LoadJobFile(flags.job, flags.set));
  if (spec.strategy != "allreduce") {
    return absl::InvalidArgumentError(absl::StrCat(flags.job, ": strategy: ", spec.strategy,
                                                   " needs a master; use rubato train"));
  }
  const EvaluateSpec& evaluate = spec.evaluate;
  if (evaluate.keep_best || evaluate.lower_rate < 1 || evaluate.stop_after_stalls > 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        flags.job, ": evaluate.",
        evaluate.keep_best        ? "keep_best"
        : evaluate.lower_rate < 1 ? "lower_rate"
                                  : "stop_after_stalls",
        ": without a master an evaluation is told, and nobody acts on it; take it out, or use ",
        "rubato train"));
  }
  for (const std::string& address : flags.join) {
    RUBATO_RETURN_IF_ERROR(Annotate(ParseEndpoint(address).status(), "--join"));
  }
  RUBATO_ASSIGN_OR_RETURN(JobDirectory directory, flags.job_dir.empty()
                                                      ? JobDirectory::CreateNext(spec.name)
                                                      : JobDirectory::Create(flags.job_dir));
  const absl::Status filled = FillDirectory(directory, spec);
  // Nothing has begun there, and whoever mends what was wrong shall find the place free.
  if (!filled.ok()) (void)RemoveTree(directory.path());
  RUBATO_RETURN_IF_ERROR(filled);
  return directory;
}

// What workers without a master must have in common; a master sees to it that all train the same.
absl::StatusOr<std::string> ContractOf(const JobSpec& spec, const JobDirectory& directory,
                                       const DataSet& data) {
  std::string contract =
      absl::StrCat(TrainingContract(spec), "records: ", data.train->records(), "\n");
  if (spec.features.empty()) return contract;
  RUBATO_ASSIGN_OR_RETURN(const std::string features, ReadWholeFile(directory.features()));
  return absl::StrCat(contract, FeaturesContract(features));
}

absl::Status CheckWorkerFlags(const RoleFlags& flags) {
  const bool found = !flags.job.empty() && flags.go_on.empty() && flags.master.empty();
  if (!flags.secret_file.empty() && !flags.master.empty()) {
    return absl::InvalidArgumentError(
        "--secret-file is for workers without a master; a job makes its own");
  }
  if (!flags.set.empty() && flags.job.empty()) {
    return absl::InvalidArgumentError(
        "--set goes with --job: a job that has begun goes on as it was");
  }
  if (!flags.join_timeout.empty() && flags.join.empty()) {
    return absl::InvalidArgumentError("--join-timeout goes with --join: nobody else is waited for");
  }
  if (flags.json && flags.job.empty() && flags.go_on.empty()) {
    return absl::InvalidArgumentError(
        "--json is for workers without a master; `rubato show JOBDIR --json` asks the master");
  }
  const bool go_on = !flags.go_on.empty() && flags.job.empty() && flags.master.empty() &&
                     flags.join.empty() && flags.job_dir.empty();
  const bool role =
      flags.job.empty() && flags.go_on.empty() && flags.join.empty() && !flags.job_dir.empty();
  if (found || go_on || role) return absl::OkStatus();
  return absl::InvalidArgumentError(
      "give --job FILE, and --join HOST:PORT if a worker is there already; or --resume DIR to go "
      "on from that worker's checkpoint; or --job-dir, --master and --id, as rubato train does");
}

absl::StatusOr<JobDirectory> OpenOwnDirectory(const RoleFlags& flags) {
  if (flags.go_on.empty()) return MakeDirectory(flags);
  RUBATO_ASSIGN_OR_RETURN(JobDirectory directory, JobDirectory::Open(flags.go_on));
  RUBATO_RETURN_IF_ERROR(directory.CheckNotDone());
  return directory;
}

// What a worker without a master begins with.
absl::StatusOr<GroupOrders> FirstOrders(const RoleFlags& flags, const JobDirectory& directory) {
  GroupOrders orders = {.generation = 1, .found = flags.join.empty(), .join = flags.join};
  if (flags.go_on.empty()) return orders;
  std::vector<std::string> damaged;
  RUBATO_ASSIGN_OR_RETURN(const CheckpointChoice newest, ChooseSoundReplica(directory, &damaged));
  for (const std::string& what : damaged) std::fprintf(stderr, "passed over: %s\n", what.c_str());
  orders.restore = absl::StrCat(newest.version, "/", newest.file);
  std::fprintf(stderr, "going on after step %d, from checkpoint %d\n",
               static_cast<int>(newest.step), static_cast<int>(newest.version));
  return orders;
}

// With a master the job's own; by hand the user says which, or whoever reaches the port may join.
absl::StatusOr<std::string> SecretOf(const RoleFlags& flags, const JobSpec& spec,
                                     const JobDirectory& directory) {
  if (spec.strategy != "allreduce") return SecretIfAny(directory);
  if (!flags.master.empty()) return ReadOrMakeSecret(directory.secret());
  if (flags.secret_file.empty()) return "";
  absl::StatusOr<std::string> secret = ReadSecret(flags.secret_file);
  if (!secret.ok()) return Annotate(secret.status(), "--secret-file");
  return secret;
}

absl::StatusOr<absl::Duration> JoinTimeout(const RoleFlags& flags) {
  if (flags.join_timeout.empty()) return kJoinTimeout;
  absl::Duration timeout;
  if (!absl::ParseDuration(flags.join_timeout, &timeout) || timeout <= absl::ZeroDuration()) {
    return absl::InvalidArgumentError(absl::StrCat("--join-timeout: '", flags.join_timeout,
                                                   "' is no time: write 90s, 10m, 1h or inf"));
  }
  return timeout;
}

// `joined`: without a master, whether it was in a group.
absl::StatusOr<int> RunWorkerIn(const RoleFlags& flags, const JobDirectory& directory, bool by_hand,
                                Console& console, bool* joined) {
  std::shared_ptr<void> lock;
  if (by_hand) {
    RUBATO_ASSIGN_OR_RETURN(lock, directory.Lock());
  }
  RUBATO_ASSIGN_OR_RETURN(const JobSpec spec, LoadJobFile(directory.job_file()));
  RUBATO_ASSIGN_OR_RETURN(const DataSet data, OpenDataSet(spec, directory));
  RUBATO_ASSIGN_OR_RETURN(const std::unique_ptr<Trainer> trainer,
                          LoadTrainer(spec, data.parser->shape()));
  const RecordParser* own = trainer->parser();
  if (own != nullptr && data.validation_parser != nullptr) {
    return absl::InvalidArgumentError(
        absl::StrCat("data.validation has the columns of data.train in another order, and ",
                     spec.model, " reads records by itself: give both the same header"));
  }
  const RecordParser* parser = own != nullptr ? own : data.parser.get();
  const Readable train = {data.train.get(), parser};
  const Readable validation = {data.validation.get(), data.validation_parser != nullptr
                                                          ? data.validation_parser.get()
                                                          : parser};
  if (spec.strategy == "allreduce" && !trainer->signature().tables.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("strategy: allreduce keeps the whole model at every worker, but ", spec.model,
                     " has a table of rows by id, '", trainer->signature().tables.front().name,
                     "'; use strategy: ps"));
  }
  if (flags.check) {
    ModelSignature signature = trainer->signature();
    RUBATO_RETURN_IF_ERROR(UseNamedTables(spec, trainer->optimizer(spec.optimizer), &signature));
    RUBATO_RETURN_IF_ERROR(FindGroup(parser->shape(), spec.evaluate.group).status());
    if (spec.data.bad_rows == "fail") RUBATO_RETURN_IF_ERROR(CheckFirstRecords(train, validation));
    return kRoleDone;
  }
  const RealClock clock;
  RUBATO_ASSIGN_OR_RETURN(const std::string secret, SecretOf(flags, spec, directory));
  if (spec.strategy == "allreduce") {
    std::string contract;
    GroupOrders orders;
    if (by_hand) {
      RUBATO_ASSIGN_OR_RETURN(contract, ContractOf(spec, directory, data));
      RUBATO_ASSIGN_OR_RETURN(orders, FirstOrders(flags, directory));
    }
    RUBATO_ASSIGN_OR_RETURN(const absl::Duration join_timeout, JoinTimeout(flags));
    const GroupLoopOptions options = {.job = spec,
                                      .directory = directory.path(),
                                      .checkpoints = directory.checkpoints(),
                                      .group = by_hand ? spec.name : directory.path(),
                                      .secret = secret,
                                      .contract = contract,
                                      .master = flags.master,
                                      .orders = orders,
                                      .join_timeout = join_timeout,
                                      .listen = flags.listen,
                                      .id = WorkerId(flags.id),
                                      .version = kVersion,
                                      .stop = AskedToStop,
                                      .clock = &clock};
    if (by_hand) {
      return RunLoneWorker({options, *trainer, train, validation}, directory, flags.json, console,
                           joined);
    }
    return GroupLoop(options, *trainer, train, validation).Run();
  }
  const WorkerLoopOptions options = {.job = spec,
                                     .master = flags.master,
                                     .secret = secret,
                                     .id = WorkerId(flags.id),
                                     .version = kVersion,
                                     .stop = AskedToStop,
                                     .clock = &clock};
  return WorkerLoop(options, *trainer, train, validation).Run();
}

absl::StatusOr<int> RunWorker(const RoleFlags& flags, Console& console) {
  CatchStopSignals();
  RUBATO_RETURN_IF_ERROR(CheckWorkerFlags(flags));
  const bool by_hand = !flags.job.empty() || !flags.go_on.empty();
  if (!flags.check && !by_hand) {
    RUBATO_RETURN_IF_ERROR(Annotate(CheckAddress(flags.master), "--master"));
    std::fprintf(stderr, "waiting for the master at %s\n", flags.master.c_str());
  }
  RUBATO_ASSIGN_OR_RETURN(const JobDirectory directory,
                          by_hand ? OpenOwnDirectory(flags) : JobDirectory::Open(flags.job_dir));
  bool joined = false;
  absl::StatusOr<int> result = RunWorkerIn(flags, directory, by_hand, console, &joined);
  // Refused, say, or stopped while it waited: what was made for it goes, as nothing happened there.
  if (!joined && !flags.job.empty()) (void)RemoveTree(directory.path());
  return result;
}

void AddJobDir(CLI::App* command, RoleFlags& flags) {
  command->add_option("--job-dir", flags.job_dir, "The job directory.")->required();
}

void AddMaster(Cli& cli) {
  auto flags = std::make_shared<RoleFlags>();
  CLI::App* command =
      cli.Command("master", "Conduct one job: leases, views, journal. Started by `rubato train`.",
                  "  rubato master --job-dir rubato-jobs/ctr-1 --listen unix:/tmp/master.sock",
                  [flags] { return RunMaster(*flags); });
  AddJobDir(command, *flags);
  command->add_option("--listen", flags->listen, "unix:/path or host:port.")->required();
  command->add_flag("--resume", flags->resume, "Nobody of an earlier run is alive.");
  command->add_option("--workers", flags->workers, "With --resume: go on with so many.");
}

void AddServer(Cli& cli) {
  auto flags = std::make_shared<RoleFlags>();
  CLI::App* command =
      cli.Command("server", "Hold a shard of a job's parameters. Started by `rubato train`.",
                  "  rubato server --job-dir rubato-jobs/ctr-1 --master unix:/tmp/master.sock "
                  "--id 0 --listen 127.0.0.1:0",
                  [flags] { return RunServerRole(*flags); });
  AddJobDir(command, *flags);
  command->add_option("--master", flags->master, "The master's address.")->required();
  command
      ->add_option("--listen", flags->listen,
                   "unix:/path or host:port, as others reach it; port 0 takes a free one.")
      ->required();
  command->add_option("--id", flags->id, "Which of the job's servers this is, from 0.")->required();
  command->add_option("--incarnation", flags->incarnation, "Which life of that server.");
}

void AddWorker(Cli& cli) {
  auto flags = std::make_shared<RoleFlags>();
  flags->listen = "127.0.0.1:0";
  CLI::App* command = cli.Command(
      "worker", "Compute batches of a job. Started by `rubato train`, or by hand without a master.",
      "  rubato worker --job-dir rubato-jobs/ctr-1 --master unix:/tmp/master.sock --id 3\n"
      "  rubato worker --job digits.yaml --listen 10.0.0.7:4000\n"
      "  rubato worker --job digits.yaml --listen 10.0.0.8:4000 --join 10.0.0.7:4000\n"
      "  rubato worker --resume rubato-jobs/digits-1 --listen 10.0.0.7:4000\n"
      "  rubato worker --job digits.yaml --listen 10.0.0.7:4000 --secret-file ~/digits.secret",
      [flags, &console = cli.console()] { return RunWorker(*flags, console); });
  command->add_option("--job-dir", flags->job_dir, "The job directory.");
  command->add_option("--master", flags->master, "The master's address.");
  command->add_option("--id", flags->id, "The worker's number, as the master gave it.");
  command->add_flag("--check", flags->check, "Only load the job's data set and model, and leave.");
  command->add_option("--job", flags->job,
                      "A job file of strategy allreduce: train without a master.");
  command->add_option("--set", flags->set, "With --job: override a key of it, KEY=VALUE.")
      ->take_all()
      ->allow_extra_args(false);
  command->add_option("--join", flags->join, "With --job: a worker that is there already.");
  command->add_option("--join-timeout", flags->join_timeout,
                      "With --join: how long to wait to be let in, as 90s or 1h; inf: without end. "
                      "Default 10m.");
  command->add_flag("--json", flags->json,
                    "With --job or --resume: print the summary as one JSON object.");
  command->add_option("--resume", flags->go_on,
                      "Found a group anew from the newest checkpoint of this worker's directory.");
  command->add_option("--listen", flags->listen, "Strategy allreduce: host:port for the others.");
  command->add_option(
      "--secret-file", flags->secret_file,
      "With --job or --resume: only workers with the same secret are in the group.");
}

}  // namespace

void AddRoles(Cli& cli) {
  AddMaster(cli);
  AddServer(cli);
  AddWorker(cli);
}

}  // namespace rubato
