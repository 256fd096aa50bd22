// What a server's life costs those who push meanwhile: a checkpoint, a SIGKILL, and partitions that
// move from two servers to three and back. Real processes, Unix sockets, the log on, Adagrad.
//
//   params_life_bench --case 1 (checkpoint) | 2 (recovery) | 3 (servers) | 4 (log)
//                     [--rows 1e6] [--dim 16] [--seconds 3]
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <filesystem>
#include <thread>

#include "bench/params/load.h"
#include "bench/params/measure.h"
#include "bench/params/server_process.h"
#include "rubato/adapters/files/files.h"
#include "rubato/adapters/posix/inspect_server.h"
#include "rubato/adapters/posix/log_file.h"
#include "rubato/base/status.h"
#include "rubato/params/shard.h"

namespace rubato::bench {
namespace {

struct Sizes {
  uint64_t rows = 0;
  size_t dim = 0;
  double seconds = 0;  // Of each stretch in which nothing else happens.
  double least = 0;    // Of the load during a stretch in which something does.
};

constexpr size_t kKeys = 1000;  // Of a push.

uint64_t BytesBelow(const std::string& folder) {
  uint64_t bytes = 0;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder)) {
    if (entry.is_regular_file()) bytes += entry.file_size();
  }
  return bytes;
}

std::vector<double> SecondsOf(const std::vector<Answer>& answers) {
  std::vector<double> seconds;
  for (const Answer& answer : answers) seconds.push_back(answer.seconds);
  return seconds;
}

Json Latencies(const std::vector<Answer>& answers) {
  const std::vector<double> seconds = SecondsOf(answers);
  Json json;
  json.Number("pushes", static_cast<double>(seconds.size()));
  json.Number("p50_ms", Quantile(seconds, 0.5) * 1e3);
  json.Number("p99_ms", Quantile(seconds, 0.99) * 1e3);
  json.Number("p999_ms", Quantile(seconds, 0.999) * 1e3);
  json.Number("worst_ms", Quantile(seconds, 1) * 1e3);
  return json;
}

// Pushes one after the other, for so long.
std::vector<Answer> PushFor(Load& load, double seconds) {
  const double end = Wall() + seconds;
  return load.Run({.keys = kKeys, .push = true}, [&](size_t) { return Wall() < end; });
}

// Pushes while `work` goes on beside them.
template <typename Work>
std::vector<Answer> PushWhile(Load& load, const Requests& requests, double least, Work work) {
  std::atomic<bool> over = false;
  const double end = Wall() + least;
  std::thread worker([&] {
    work();
    over = true;
  });
  auto answers = load.Run(requests, [&](size_t) { return !over || Wall() < end; });
  worker.join();
  return answers;
}

// ---- checkpoint ----

Json ReportCheckpoint(const Sizes& sizes) {
  const JobFolder job;
  ServerProcess server({.root = job.root()});
  Load load({.addresses = {job.AddressOf(0)}, .rows = sizes.rows, .dim = sizes.dim});
  load.Declare();
  load.Fill();
  server.Checkpoint(1);  // The first also waits for the disk to take the log.
  const auto before = PushFor(load, sizes.seconds);
  double took = 0, cpu = 0;
  const auto during = PushWhile(load, {.keys = kKeys, .push = true}, 0, [&] {
    const double began = Wall(), used = server.Cpu();
    server.Checkpoint(2);
    took = Wall() - began;
    cpu = server.Cpu() - used;
  });
  const auto after = PushFor(load, sizes.seconds);
  const double quiet_began = Wall();
  server.Checkpoint(3);
  const double quiet = Wall() - quiet_began;
  Json json;
  const auto bytes = static_cast<double>(BytesBelow(job.root() + "/checkpoints/2"));
  json.Number("seconds", took).Number("seconds_without_pushes", quiet);
  json.Number("bytes", bytes).Number("mb_s", bytes / took / 1e6);
  json.Number("server_cpu_seconds", cpu);
  json.Object("pushes_before", Latencies(before)).Object("pushes_during", Latencies(during));
  json.Object("pushes_after", Latencies(after));
  const auto p99 = [](const auto& answers) { return Quantile(SecondsOf(answers), 0.99); };
  json.Number("p99_over_before", p99(during) / p99(before));
  // What the checkpoint itself kept any push waiting for, in CPU time: the same on a busy machine.
  const auto inspection = InspectServer(job.AddressOf(0), absl::Seconds(60));
  RUBATO_CHECK_OK(inspection.status());
  json.Number("longest_hold_cpu_ms", static_cast<double>(inspection->checkpoint_hold_us) / 1e3);
  json.Number("longest_wait_ms", static_cast<double>(inspection->checkpoint_wait_us) / 1e3);
  json.Number("longest_hold_aim_ms", 10);
  json.Number("worst_push_ms", Quantile(SecondsOf(during), 1) * 1e3).Number("worst_aim_ms", 10);
  // A server that takes nothing but the checkpoint, and answers.
  server.Kill();
  std::filesystem::remove_all(job.root() + "/server-0");
  const double began = Wall();
  server.Launch();
  load.PullSome();
  json.Number("restore_seconds", Wall() - began);
  return json;
}

// ---- recovery ----

// From SIGKILL, and from the new process, until a pull is answered.
Json Recover(ServerProcess& server, Load& load) {
  const double killed = Wall();
  server.Kill();
  const double launched = Wall();
  server.Launch();
  load.PullSome();
  const double answered = Wall();
  Json json;
  json.Number("seconds", answered - launched).Number("aim_seconds", 2);
  json.Number("dying_seconds", launched - killed);
  json.Number("cpu_seconds", server.Cpu());
  return json;
}

Json ReportRecovery(const Sizes& sizes) {
  const JobFolder job;
  ServerProcess server({.root = job.root()});
  Load load({.addresses = {job.AddressOf(0)}, .rows = sizes.rows, .dim = sizes.dim});
  load.Declare();
  load.Fill();
  Json json;
  json.Number("log_bytes", static_cast<double>(BytesBelow(job.root() + "/server-0")));
  json.Object("from_the_log_alone", Recover(server, load));
  server.Checkpoint(1);
  json.Object("from_a_checkpoint", Recover(server, load));
  const auto since = sizes.rows / 20 / kKeys;  // A twentieth of the rows since the checkpoint.
  load.Run({.keys = kKeys, .in_flight = 4, .push = true},
           [&](size_t sent) { return sent < since; });
  json.Number("pushes_since", static_cast<double>(since));
  json.Object("from_a_checkpoint_and_the_log", Recover(server, load));
  return json;
}

// ---- servers that come and go ----

class Servers {
 public:
  explicit Servers(const JobFolder& job) {
    for (int64_t s = 0; s < 3; ++s) {
      servers_.push_back(std::make_unique<ServerProcess>(
          ServerOptions{.root = job.root(), .server = s, .servers = 2}));
      addresses_.push_back(job.AddressOf(s));
    }
  }
  const std::vector<std::string>& addresses() const { return addresses_; }

  // Hands `count` of the partitions of `from` to `to`, as a master does.
  void Move(int64_t from, int64_t to, int64_t count) {
    MoveOrder move = {.number = ++moves_, .from = from, .to = to};
    for (const Interval& run : map_.PartitionsOf(from).Intervals()) {
      const int64_t some = std::min(count, run.end - run.begin);
      move.partitions.Add(run.begin, run.begin + some);
      count -= some;
    }
    TellAll(move);
    while (servers_[static_cast<size_t>(from)]->Moved() != move.number) usleep(1000);
    map_.Move(move.partitions, to);
    TellAll({});
  }

 private:
  void TellAll(const MoveOrder& move) {
    ++view_;
    for (const auto& server : servers_) server->Tell(view_, map_, move, addresses_);
  }

  std::vector<std::unique_ptr<ServerProcess>> servers_;
  std::vector<std::string> addresses_;
  PartitionMap map_ = PartitionMap::Even(2);
  int64_t view_ = 1, moves_ = 0;
};

// Pushes a second, and the fewest in a tenth of one.
struct Rate {
  double mean = 0, least = 0;
};
Rate RateOf(const std::vector<Answer>& answers) {
  constexpr double kWindow = 0.1;
  if (answers.size() < 2) return {};
  const double begin = answers.front().at, span = answers.back().at - begin;
  std::vector<double> windows(std::max<size_t>(1, static_cast<size_t>(span / kWindow)));
  for (const Answer& answer : answers) {
    const auto window = static_cast<size_t>((answer.at - begin) / kWindow);
    if (window < windows.size()) ++windows[window];
  }
  return {static_cast<double>(answers.size()) / span,
          *std::min_element(windows.begin(), windows.end()) / kWindow};
}

Json ReportMove(const std::vector<Answer>& during, double seconds, const Rate& ordinary) {
  const Rate rate = RateOf(during);
  Json json;
  json.Number("seconds", seconds);
  json.Number("of_ordinary_throughput", rate.mean / ordinary.mean);
  json.Number("of_ordinary_throughput_worst_100_ms", rate.least / ordinary.mean);
  json.Object("pushes", Latencies(during));
  return json;
}

Json ReportServers(const Sizes& sizes) {
  const JobFolder job;
  Servers servers(job);
  Load load({.addresses = servers.addresses(), .servers = 2, .rows = sizes.rows, .dim = sizes.dim});
  load.Declare();
  load.Fill();
  const Requests requests = {.keys = kKeys, .in_flight = 2, .push = true};
  const double end = Wall() + sizes.seconds;
  const auto before = load.Run(requests, [&](size_t) { return Wall() < end; });
  const Rate ordinary = RateOf(before);
  constexpr int64_t kThird = kPartitions / 3;
  Json json;
  json.Number("ordinary_pushes_s", ordinary.mean);
  json.Number("ordinary_worst_100_ms", ordinary.least / ordinary.mean);
  json.Object("ordinary", Latencies(before));
  double took = 0;
  const auto up = PushWhile(load, requests, sizes.least, [&] {
    const double began = Wall();
    servers.Move(0, 2, kThird / 2);
    servers.Move(1, 2, kThird - kThird / 2);
    took = Wall() - began;
  });
  json.Object("two_to_three", ReportMove(up, took, ordinary));
  const auto down = PushWhile(load, requests, sizes.least, [&] {
    const double began = Wall();
    servers.Move(2, 0, kThird / 2);
    servers.Move(2, 1, kThird - kThird / 2);
    took = Wall() - began;
  });
  json.Object("three_to_two", ReportMove(down, took, ordinary));
  return json;
}

// ---- the push log ----

void SyncFile(const std::string& path) {
  const auto file = OpenFile(path, O_RDONLY);
  RUBATO_CHECK_OK(file.status());
  RUBATO_CHECK(fsync(file->get()) == 0);
}

// Pushes to a shard in this process: CPU nanoseconds a key without a log, with one in a new file,
// and with one over an older segment, as after a checkpoint.
Json ReportLog(const Sizes& sizes) {
  constexpr size_t kLogKeys = 10000, kPushes = 40, kRounds = 9;
  const JobFolder job;
  SystemMemory memory;
  Shard shard(memory, {.rows_max = 2 * sizes.rows});
  Declaration model;
  model.signature.tables.resize(1);
  model.signature.tables[0].name = "deep";
  model.signature.tables[0].dim = static_cast<int64_t>(sizes.dim);
  RUBATO_CHECK_OK(shard.Declare(EncodeDeclaration(model, {}), nullptr));
  shard.SetView(1, {WorkerId(1)});
  const std::vector<float> gradients(kLogKeys * sizes.dim, 0.01f);
  Rng rng(1);
  int64_t batch = 0;
  PushSplit split;
  const auto push = [&](RecordSink* log) {
    const uint64_t width = std::max<uint64_t>(1, sizes.rows / kLogKeys);
    std::vector<uint64_t> ids;
    for (size_t i = 0; i < kLogKeys; ++i) ids.push_back(i * width + rng.Below(width));
    PushRequest request;
    request.key = {.begin = batch, .end = batch + 1};
    ++batch;
    request.worker = WorkerId(1);
    request.tables = {{ids, gradients}};
    split.Encode(request, PartitionMap::Even(1), WireFormat::kFp32);
    const double began = ThreadCpu();
    RUBATO_CHECK_OK(shard.Push(split.body(0).view(), log).status());
    return ThreadCpu() - began;
  };
  for (uint64_t made = 0; made < 3 * sizes.rows; made += kLogKeys) push(nullptr);
  const std::string folder = job.root();
  std::vector<double> without, fresh, over;
  std::string spare = folder + "/spare";
  {
    const auto file = LogFile::Create(spare, 0);
    RUBATO_CHECK_OK(file.status());
    for (size_t i = 0; i < kPushes; ++i) push(file->get());
  }
  for (size_t round = 1; round <= kRounds; ++round) {
    SyncFile(spare);
    const auto number = static_cast<int64_t>(round);
    const auto made = LogFile::Create(absl::StrCat(folder, "/new-", round), number);
    const auto again = LogFile::Over(spare, absl::StrCat(folder, "/again-", round), number);
    RUBATO_CHECK_OK(made.status());
    RUBATO_CHECK_OK(again.status());
    spare = absl::StrCat(folder, "/again-", round);
    double seconds[3] = {};
    for (size_t i = 0; i < kPushes; ++i) {
      seconds[0] += push(nullptr);
      seconds[1] += push(made->get());
      seconds[2] += push(again->get());
    }
    without.push_back(seconds[0]);
    fresh.push_back(seconds[1]);
    over.push_back(seconds[2]);
  }
  const double keys = kPushes * kLogKeys;
  Json json;
  json.Number("ns_per_key_without", Median(without) / keys * 1e9);
  json.Number("ns_per_key_new_file", Median(fresh) / keys * 1e9);
  json.Number("ns_per_key_with", Median(over) / keys * 1e9);
  json.Number("new_file_adds", Median(fresh) / Median(without) - 1);
  json.Number("log_adds", Median(over) / Median(without) - 1).Number("log_adds_aim", 0.05);
  return json;
}

int Main(int argc, char** argv) {
  if (const auto code = ServerProcess::Main(argc, argv)) return *code;
  CheckFlags(argc, argv, {"case", "rows", "dim", "seconds"});
  const Sizes sizes = {.rows = static_cast<uint64_t>(Flag(argc, argv, "rows", 1e6)),
                       .dim = static_cast<size_t>(Flag(argc, argv, "dim", 16)),
                       .seconds = Flag(argc, argv, "seconds", 3),
                       .least = 0.3};
  const int only = static_cast<int>(Flag(argc, argv, "case", 0));
  Json report;
  report.Number("rows", static_cast<double>(sizes.rows));
  report.Number("dim", static_cast<double>(sizes.dim));
  if (only == 0 || only == 1) report.Object("checkpoint", ReportCheckpoint(sizes));
  if (only == 0 || only == 2) report.Object("recovery", ReportRecovery(sizes));
  if (only == 0 || only == 3) report.Object("servers", ReportServers(sizes));
  if (only == 0 || only == 4) report.Object("log", ReportLog(sizes));
  std::printf("%s\n", report.Text().c_str());
  return 0;
}

}  // namespace
}  // namespace rubato::bench

int main(int argc, char** argv) { return rubato::bench::Main(argc, argv); }
