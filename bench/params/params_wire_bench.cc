// Rows pulled and pushed between two processes: a real server with its log on, and a real client.
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <memory>

#include "bench/params/measure.h"
#include "rubato/adapters/posix/params_client.h"
#include "rubato/adapters/posix/params_server.h"
#include "rubato/base/mutex.h"
#include "rubato/base/status.h"

namespace rubato::bench {
namespace {

constexpr double kPushedBytesMax = 500e6;  // A phase, since every push is logged.

struct Setting {
  size_t keys = 0;  // A request.
  size_t in_flight = 1;
  bool push = false;
};

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

class Bench {
 public:
  Bench(ParamsClient& client, pid_t server, uint64_t rows, size_t dim)
      : client_(client), rows_(rows), dim_(dim) {
    RUBATO_CHECK(clock_getcpuclockid(server, &server_clock_) == 0);
  }

  void Declare() {
    Declaration model;
    model.signature.tables.resize(1);
    model.signature.tables[0].name = "deep";
    model.signature.tables[0].dim = static_cast<int64_t>(dim_);
    Permits one(1);
    one.Take();
    client_.Declare(model, [&](absl::Status status) {
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
      Push(ids, one);
      one.Take();
      ids.clear();
    }
  }
  Json Run(const Setting& setting, double seconds) {
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
    Permits permits(setting.in_flight);
    const double bytes_max = setting.push ? kPushedBytesMax : 1e18;
    const double request_bytes = static_cast<double>(setting.keys * (8 + dim_ * 4));
    const double server_cpu = Seconds(server_clock_);
    const double client_cpu = Seconds(CLOCK_PROCESS_CPUTIME_ID);
    const double began = Wall();
    double sent = 0;
    for (; Wall() - began < seconds && sent * request_bytes < bytes_max; ++sent) {
      permits.Take();
      const auto& ids = requests[static_cast<size_t>(sent) % kDistinctRequests];
      if (setting.push) {
        Push(ids, permits);
      } else {
        auto& buffer = rows[static_cast<size_t>(sent) % setting.in_flight];
        client_.Pull({.tables = {{ids, absl::MakeSpan(buffer)}}, .dense = {}},
                     [&permits](absl::Status status) {
                       RUBATO_CHECK_OK(status);
                       permits.Give();
                     });
      }
    }
    for (size_t i = 0; i < setting.in_flight; ++i) permits.Take();
    const double keys = sent * static_cast<double>(setting.keys);
    Json json;
    json.Number("mrows_s", keys / (Wall() - began) / 1e6);
    json.Number("payload_gb_s", keys * static_cast<double>(dim_) * 4 / (Wall() - began) / 1e9);
    json.Number("server_cpu_ns_per_key", (Seconds(server_clock_) - server_cpu) / keys * 1e9);
    json.Number("client_cpu_ns_per_key",
                (Seconds(CLOCK_PROCESS_CPUTIME_ID) - client_cpu) / keys * 1e9);
    return json;
  }

 private:
  void Push(const std::vector<uint64_t>& ids, Permits& permits) {
    gradients_.resize(std::max(gradients_.size(), ids.size() * dim_), 0.01f);
    PushRequest request;
    request.key = {.begin = next_batch_, .end = next_batch_ + 1};
    ++next_batch_;
    request.worker = WorkerId(1);
    request.view = 1;
    request.tables = {{ids, absl::MakeConstSpan(gradients_).subspan(0, ids.size() * dim_)}};
    client_.Push(request, [&permits](absl::StatusOr<PushOutcome> outcome) {
      RUBATO_CHECK_OK(outcome.status());
      permits.Give();
    });
  }

  ParamsClient& client_;
  clockid_t server_clock_{};
  const uint64_t rows_;
  const size_t dim_;
  int64_t next_batch_ = 0;
  std::vector<float> gradients_;
};

// The server's process: serves until it is killed.
[[noreturn]] void Serve(const std::string& root) {
  ParamsServerOptions options;
  options.address = "unix:" + root + "/socket";
  options.directory = root + "/server";
  options.checkpoints = root + "/checkpoints";
  options.job = "bench";
  auto server = ParamsServer::Start(options);
  RUBATO_CHECK_OK(server.status());
  (*server)->SetView(1, {WorkerId(1)});
  while (true) pause();
}

int Main(int argc, char** argv) {
  std::string root = std::filesystem::temp_directory_path() / "rubato-bench-XXXXXX";
  RUBATO_CHECK(mkdtemp(root.data()) != nullptr);
  const pid_t server = fork();
  if (server == 0) Serve(root);
  const auto rows = static_cast<uint64_t>(Flag(argc, argv, "rows", 4e6));
  const auto dim = static_cast<size_t>(Flag(argc, argv, "dim", 16));
  const double seconds = Flag(argc, argv, "seconds", 1);
  ParamsClientOptions options;
  options.job = "bench";
  const auto client = ParamsClient::Start(options);
  client->SetServers({"unix:" + root + "/socket"});
  Bench bench(*client, server, rows, dim);
  bench.Declare();
  bench.Fill();
  Json report;
  report.Number("rows", static_cast<double>(rows)).Number("dim", static_cast<double>(dim));
  for (const size_t keys : {size_t{1000}, size_t{10000}, size_t{100000}}) {
    for (const size_t in_flight : {size_t{1}, size_t{4}}) {
      for (const bool push : {false, true}) {
        report.Object(absl::StrFormat("%s_%dk_x%d", push ? "push" : "pull", keys / 1000, in_flight),
                      bench.Run({keys, in_flight, push}, seconds));
      }
    }
  }
  client->Stop();
  kill(server, SIGKILL);
  waitpid(server, nullptr, 0);
  std::filesystem::remove_all(root);
  std::printf("%s\n", report.Text().c_str());
  return 0;
}

}  // namespace
}  // namespace rubato::bench

int main(int argc, char** argv) { return rubato::bench::Main(argc, argv); }
