// Rows pulled and pushed between two processes: a real server with its log on, and real clients.
// Beside each figure, in the same run, what a bare socket does that moves the same bytes.
#include <cstdio>
#include <memory>
#include <thread>

#include "bench/params/bare_socket.h"
#include "bench/params/load.h"
#include "bench/params/measure.h"
#include "bench/params/server_process.h"
#include "rubato/adapters/files/files.h"
#include "rubato/adapters/posix/log_file.h"
#include "rubato/base/status.h"
#include "rubato/params/wire.h"

namespace rubato::bench {
namespace {

constexpr double kPushedBytesMax = 500e6;  // A phase, since every push is logged.

// What a whole run is about.
struct World {
  uint64_t rows = 0;
  size_t dim = 0;
  bool tcp = false;
  bool tls = false;    // Over TCP; the bare socket beside it stays bare.
  bool shared = true;  // Memory, where it is not TCP.
  WireFormat wire = WireFormat::kFp32;
  int64_t threads = 2;
  double seconds = 1;
  size_t keys = 0;   // Only requests of so many, unless 0.
  int push = -1;     // Only pulls (0), or pushes (1).
  double spare = 0;  // Bytes of an older segment, over which the server writes its log.
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

class Bench {
 public:
  Bench(ServerProcess& server, const World& world) : server_(server), world_(world) {
    for (int64_t i = 0; i < 2; ++i) {
      loads_.push_back(std::make_unique<Load>(LoadOptions{.addresses = {server.Address()},
                                                          .wire = world.wire,
                                                          .shared = world.shared,
                                                          .rows = world.rows,
                                                          .dim = world.dim,
                                                          .epoch = i}));
      loads_.back()->Declare();
    }
    loads_[0]->Fill();
  }

  Json Run(const Setting& setting) {
    for (const auto& load : loads_) load->Draw(setting.keys);
    const double server_cpu = server_.Cpu();
    const double client_cpu = Seconds(CLOCK_PROCESS_CPUTIME_ID);
    const double began = Wall();
    std::vector<std::vector<Answer>> answers(setting.clients);
    const double request_bytes = static_cast<double>(setting.keys * (8 + world_.dim * 4));
    const double phase_bytes = kPushedBytesMax / static_cast<double>(setting.clients);
    const double most = setting.push ? phase_bytes / request_bytes : 1e18;
    const auto go_on = [&](size_t sent) {
      return sent == 0 || (Wall() - began < world_.seconds && static_cast<double>(sent) < most);
    };
    std::vector<std::thread> threads;
    for (size_t i = 0; i < setting.clients; ++i) {
      threads.emplace_back([&, i] {
        answers[i] = loads_[i]->Run({setting.keys, setting.in_flight, setting.push}, go_on);
      });
    }
    for (std::thread& thread : threads) thread.join();
    const double wall = Wall() - began;
    const double server_used = server_.Cpu() - server_cpu;
    const double client_used = Seconds(CLOCK_PROCESS_CPUTIME_ID) - client_cpu;
    std::vector<double> all;
    for (const auto& some : answers) {
      for (const Answer& answer : some) all.push_back(answer.seconds);
    }
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
  ServerProcess& server_;
  const World world_;
  std::vector<std::unique_ptr<Load>> loads_;
};

// As a checkpoint would have left it some time ago: on the disk, and still in the system's memory.
void MakeSpare(const std::string& folder, double bytes) {
  RUBATO_CHECK_OK(MakeDirectories(folder));
  const auto file = LogFile::Create(folder + "/spare-000000.log", 0);
  RUBATO_CHECK_OK(file.status());
  const std::string some(1 << 20, 'x');
  while (static_cast<double>((*file)->bytes()) < bytes) {
    RUBATO_CHECK_OK((*file)->Append(RecordKind::kPush, some));
  }
  RUBATO_CHECK_OK((*file)->AppendSynced(RecordKind::kPush, some));
}

Json RunWorld(const World& world) {
  const JobFolder job;
  if (world.spare > 0) MakeSpare(job.root() + "/server-0", world.spare);
  ServerProcess server(
      {.root = job.root(), .tcp = world.tcp, .tls = world.tls, .threads = world.threads});
  Json report;
  {
    Bench bench(server, world);
    for (const size_t keys : {size_t{1000}, size_t{10000}, size_t{100000}}) {
      for (const auto& [in_flight, clients] : {std::pair{1, 1}, std::pair{4, 1}, std::pair{4, 2}}) {
        for (const bool push : {false, true}) {
          if ((world.keys != 0 && keys != world.keys) || (world.push >= 0 && push != world.push)) {
            continue;
          }
          const Setting setting = {keys, static_cast<size_t>(in_flight),
                                   static_cast<size_t>(clients), push};
          report.Object(Name(setting), bench.Run(setting));
        }
      }
    }
  }
  return report;
}

std::string Name(const World& world) {
  return absl::StrCat(world.tls   ? "tls_"
                      : world.tcp ? "tcp_"
                                  : "unix_",
                      WireFormatName(world.wire), "_dim_", world.dim);
}

// One line of the report for every socket, format and size of a row, unless told which.
int Main(int argc, char** argv) {
  if (const auto code = ServerProcess::Main(argc, argv)) return *code;
  CheckFlags(argc, argv,
             {"rows", "dim", "seconds", "threads", "tcp", "bits", "keys", "push", "spare", "shared",
              "tls"});
  World world;
  world.rows = static_cast<uint64_t>(Flag(argc, argv, "rows", 4e6));
  world.seconds = Flag(argc, argv, "seconds", 1);
  world.threads = static_cast<int64_t>(Flag(argc, argv, "threads", 2));
  world.keys = static_cast<size_t>(Flag(argc, argv, "keys", 0));
  world.push = static_cast<int>(Flag(argc, argv, "push", -1));
  world.spare = Flag(argc, argv, "spare", 0);
  world.shared = Flag(argc, argv, "shared", 1) > 0;
  const auto only_dim = static_cast<size_t>(Flag(argc, argv, "dim", 0));
  const double only_tcp = Flag(argc, argv, "tcp", -1);
  const bool tls = Flag(argc, argv, "tls", 0) > 0;
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
        report.Object(Name(world), RunWorld(world));
        if (!tcp || !tls) continue;
        world.tls = true;
        report.Object(Name(world), RunWorld(world));
        world.tls = false;
      }
    }
  }
  std::printf("%s\n", report.Text().c_str());
  return 0;
}

}  // namespace
}  // namespace rubato::bench

int main(int argc, char** argv) { return rubato::bench::Main(argc, argv); }
