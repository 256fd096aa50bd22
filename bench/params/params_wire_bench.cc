// Rows pulled and pushed between two processes: a real server with its log on, and real clients.
// Beside each figure, in the same run, what a bare socket does that moves the same bytes.
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <memory>
#include <thread>

#include "bench/params/bare_socket.h"
#include "bench/params/measure.h"
#include "rubato/adapters/posix/params_client.h"
#include "rubato/adapters/posix/params_server.h"
#include "rubato/base/mutex.h"
#include "rubato/base/status.h"

namespace rubato::bench {
namespace {

constexpr double kPushedBytesMax = 500e6;  // A phase, since every push is logged.

// What a whole run is about.
struct World {
  uint64_t rows = 0;
  size_t dim = 0;
  bool tcp = false;
  WireFormat wire = WireFormat::kFp32;
  int64_t threads = 2;
  double seconds = 1;
};

struct Setting {
  size_t keys = 0;       // A request.
  size_t in_flight = 1;  // Of each client.
  size_t clients = 1;
  bool push = false;
};

std::string Name(const Setting& setting) {
  return absl::StrFormat("%s_%dk_x%d%s", setting.push ? "push" : "pull", setting.keys / 1000,
                         setting.in_flight, setting.clients > 1 ? "_two_clients" : "");
}

// Counts what is under way; waits for room.
class Permits {
 public:
  explicit Permits(size_t free) : free_(free) {}
  void Take() {
    MutexLock lock(mu_);
    while (free_ == 0) changed_.Wait(mu_);
    --free_;
  }
  void Give() {
    MutexLock lock(mu_);
    ++free_;
    changed_.NotifyOne();
  }

 private:
  Mutex mu_;
  CondVar changed_;
  size_t free_ ABSL_GUARDED_BY(mu_);
};

// One client that keeps a number of requests under way.
class Load {
 public:
  Load(const std::string& address, const World& world, int64_t epoch)
      : client_(ParamsClient::Start({.job = "bench", .wire = world.wire})),
        rows_(world.rows),
        dim_(world.dim),
        epoch_(epoch) {
    client_->SetServers({address});
  }
  ~Load() { client_->Stop(); }

  void Declare() {
    Declaration model;
    model.signature.tables.resize(1);
    model.signature.tables[0].name = "deep";
    model.signature.tables[0].dim = static_cast<int64_t>(dim_);
    Permits one(1);
    one.Take();
    client_->Declare(model, [&](absl::Status status) {
      RUBATO_CHECK_OK(status);
      one.Give();
    });
    one.Take();
  }
  // Makes every row.
  void Fill() {
    std::vector<uint64_t> ids;
    for (uint64_t id = 0; id < rows_; ++id) {
      ids.push_back(id);
      if (ids.size() < 50000 && id + 1 < rows_) continue;
      Permits one(1);
      one.Take();
      Push(ids, [&one] { one.Give(); });
      one.Take();
      ids.clear();
    }
  }
  // Requests until the time is over or enough was sent; their latencies in seconds.
  std::vector<double> Run(const Setting& setting, double seconds) {
    constexpr size_t kDistinctRequests = 64;
    Rng rng(setting.keys);
    std::vector<std::vector<uint64_t>> requests(kDistinctRequests);
    for (auto& ids : requests) {
      // Distinct and sorted, as ps-lite wants its keys: one from each of `keys` equal ranges.
      const uint64_t width = rows_ / setting.keys;
      for (size_t i = 0; i < setting.keys; ++i) ids.push_back(i * width + rng.Below(width));
    }
    std::vector<std::vector<float>> rows(setting.in_flight);
    for (auto& buffer : rows) buffer.resize(setting.keys * dim_);
    const double request_bytes = static_cast<double>(setting.keys * (8 + dim_ * 4));
    const double most = setting.push ? kPushedBytesMax / request_bytes : 1e18;
    std::vector<double> latencies;  // Callbacks run on the client's one thread.
    Permits permits(setting.in_flight);
    const double began = Wall();
    for (size_t sent = 0; Wall() - began < seconds && static_cast<double>(sent) < most; ++sent) {
      permits.Take();
      const auto& ids = requests[sent % kDistinctRequests];
      const auto done = [&, sent_at = Wall()] {
        latencies.push_back(Wall() - sent_at);
        permits.Give();
      };
      if (setting.push) {
        Push(ids, done);
      } else {
        auto& buffer = rows[sent % setting.in_flight];
        client_->Pull({.tables = {{ids, absl::MakeSpan(buffer)}}, .dense = {}},
                      [done](absl::Status status) {
                        RUBATO_CHECK_OK(status);
                        done();
                      });
      }
    }
    for (size_t i = 0; i < setting.in_flight; ++i) permits.Take();
    return latencies;
  }

 private:
  void Push(const std::vector<uint64_t>& ids, std::function<void()> done) {
    gradients_.resize(std::max(gradients_.size(), ids.size() * dim_), 0.01f);
    PushRequest request;
    request.key = {.epoch = epoch_, .begin = next_batch_, .end = next_batch_ + 1};
    ++next_batch_;
    request.worker = WorkerId(1);
    request.view = 1;
    request.tables = {{ids, absl::MakeConstSpan(gradients_).subspan(0, ids.size() * dim_)}};
    client_->Push(request, [done = std::move(done)](absl::StatusOr<PushOutcome> outcome) {
      RUBATO_CHECK_OK(outcome.status());
      done();
    });
  }

  const std::unique_ptr<ParamsClient> client_;
  const uint64_t rows_;
  const size_t dim_;
  const int64_t epoch_;  // Each client pushes batches of its own.
  int64_t next_batch_ = 0;
  std::vector<float> gradients_;
};

class Bench {
 public:
  Bench(const std::string& address, pid_t server, const World& world) : world_(world) {
    RUBATO_CHECK(clock_getcpuclockid(server, &server_clock_) == 0);
    for (int64_t i = 0; i < 2; ++i) {
      loads_.push_back(std::make_unique<Load>(address, world, i));
      loads_.back()->Declare();
    }
    loads_[0]->Fill();
  }

  Json Run(const Setting& setting) {
    const double server_cpu = Seconds(server_clock_);
    const double client_cpu = Seconds(CLOCK_PROCESS_CPUTIME_ID);
    const double began = Wall();
    std::vector<std::vector<double>> latencies(setting.clients);
    std::vector<std::thread> threads;
    for (size_t i = 0; i < setting.clients; ++i) {
      threads.emplace_back([&, i] { latencies[i] = loads_[i]->Run(setting, world_.seconds); });
    }
    for (std::thread& thread : threads) thread.join();
    const double wall = Wall() - began;
    const double server_used = Seconds(server_clock_) - server_cpu;
    const double client_used = Seconds(CLOCK_PROCESS_CPUTIME_ID) - client_cpu;
    std::vector<double> all;
    for (const auto& some : latencies) all.insert(all.end(), some.begin(), some.end());
    const double keys = static_cast<double>(all.size() * setting.keys);
    const size_t ids = setting.keys * 8;
    const size_t values = setting.keys * world_.dim * static_cast<size_t>(WireBytes(world_.wire));
    const double bare =
        BareSocketRequests({.tcp = world_.tcp,
                            .down = setting.push ? ids + values : ids,
                            .up = setting.push ? size_t{64} : values,
                            .in_flight = setting.in_flight,
                            .requests = std::max<size_t>(10, all.size() / setting.clients / 2)});
    const double moved = static_cast<double>(ids + values) / 1e9;
    Json json;
    json.Number("mrows_s", keys / wall / 1e6);
    json.Number("gb_s", static_cast<double>(all.size()) * moved / wall);
    json.Number("bare_gb_s", bare * moved);
    json.Number("of_bare_socket", static_cast<double>(all.size()) / wall / bare);
    json.Number("p50_us", Quantile(all, 0.5) * 1e6).Number("p99_us", Quantile(all, 0.99) * 1e6);
    json.Number("server_cpu_ns_per_key", server_used / keys * 1e9);
    json.Number("client_cpu_ns_per_key", client_used / keys * 1e9);
    return json;
  }

 private:
  clockid_t server_clock_{};
  const World world_;
  std::vector<std::unique_ptr<Load>> loads_;
};

// The server's process: says where it listens and serves until it is killed.
[[noreturn]] void Serve(const std::string& root, const World& world, int tell) {
  ParamsServerOptions options;
  options.address = world.tcp ? "127.0.0.1:0" : "unix:" + root + "/socket";
  options.threads = world.threads;
  options.directory = root + "/server";
  options.checkpoints = root + "/checkpoints";
  options.job = "bench";
  auto server = ParamsServer::Start(options);
  RUBATO_CHECK_OK(server.status());
  (*server)->SetView(1, {WorkerId(1)});
  const std::string& address = (*server)->address();
  RUBATO_CHECK(write(tell, address.data(), address.size()) > 0);
  close(tell);
  while (true) pause();
}

Json RunWorld(const World& world) {
  std::string root = std::filesystem::temp_directory_path() / "rubato-bench-XXXXXX";
  RUBATO_CHECK(mkdtemp(root.data()) != nullptr);
  int ends[2];
  RUBATO_CHECK(pipe(ends) == 0);
  const pid_t server = fork();
  if (server == 0) Serve(root, world, ends[1]);
  close(ends[1]);
  char address[256] = {};
  RUBATO_CHECK(read(ends[0], address, sizeof(address) - 1) > 0);
  close(ends[0]);
  Json report;
  {
    Bench bench(address, server, world);
    for (const size_t keys : {size_t{1000}, size_t{10000}, size_t{100000}}) {
      for (const auto& [in_flight, clients] : {std::pair{1, 1}, std::pair{4, 1}, std::pair{4, 2}}) {
        for (const bool push : {false, true}) {
          const Setting setting = {keys, static_cast<size_t>(in_flight),
                                   static_cast<size_t>(clients), push};
          report.Object(Name(setting), bench.Run(setting));
        }
      }
    }
  }
  kill(server, SIGKILL);
  waitpid(server, nullptr, 0);
  std::filesystem::remove_all(root);
  return report;
}

// One line of the report for every socket, format and size of a row, unless told which.
int Main(int argc, char** argv) {
  CheckFlags(argc, argv, {"rows", "dim", "seconds", "threads", "tcp", "bits"});
  World world;
  world.rows = static_cast<uint64_t>(Flag(argc, argv, "rows", 4e6));
  world.seconds = Flag(argc, argv, "seconds", 1);
  world.threads = static_cast<int64_t>(Flag(argc, argv, "threads", 2));
  const auto only_dim = static_cast<size_t>(Flag(argc, argv, "dim", 0));
  const double only_tcp = Flag(argc, argv, "tcp", -1);
  const double only_bits = Flag(argc, argv, "bits", 0);
  Json report;
  report.Number("rows", static_cast<double>(world.rows));
  report.Number("threads", static_cast<double>(world.threads));
  for (const bool tcp : {false, true}) {
    if (only_tcp >= 0 && tcp != (only_tcp > 0)) continue;
    for (const WireFormat wire : {WireFormat::kFp32, WireFormat::kBf16, WireFormat::kFp16}) {
      if (only_bits != 0 && only_bits != 8 * WireBytes(wire)) continue;
      for (const size_t dim : {size_t{8}, size_t{16}, size_t{64}}) {
        if (only_dim != 0 && only_dim != dim) continue;
        world.tcp = tcp, world.wire = wire, world.dim = dim;
        report.Object(absl::StrCat(tcp ? "tcp_" : "unix_", WireFormatName(wire), "_dim_", dim),
                      RunWorld(world));
      }
    }
  }
  std::printf("%s\n", report.Text().c_str());
  return 0;
}

}  // namespace
}  // namespace rubato::bench

int main(int argc, char** argv) { return rubato::bench::Main(argc, argv); }
