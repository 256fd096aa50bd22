#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>
#include <filesystem>
#include <map>

#include "bench/ring/fleet.h"
#include "bench/ring/rivals.h"
#include "rubato/adapters/ring/elastic_group.h"

namespace rubato {
namespace {

// A group of `size` that reduces one buffer over and over. `vote`: each time as a whole step.
std::vector<double> RunGroup(bool shared_memory, bool vote, int rank, int size, int64_t elements,
                             int runs, SharedBoard* board) {
  GroupOptions options;
  options.shared_memory = shared_memory;
  options.microbatches = size;
  if (rank > 0) {
    while (board->ready.load() == 0) usleep(1000);
    options.join = {board->address};
  }
  auto group = ElasticGroup::Open(std::move(options));
  if (!group.ok()) return {};
  if (rank == 0) {
    std::snprintf(board->address, sizeof(board->address), "%s", (*group)->address().c_str());
    board->ready = 1;
  }
  std::vector<float> values(elements, 1.0f);
  std::vector<float> tiny(1);
  // Steps until all are there and hold the (empty) state.
  while (true) {
    const auto plan = (*group)->BeginStep();
    if (!plan.ok()) return {};
    const bool all = (*group)->view().holders == size;
    if (!all) {
      usleep(500);
      if ((*group)->Allreduce(absl::MakeSpan(tiny)).ok()) (*group)->Commit().IgnoreError();
      continue;
    }
    break;
  }
  std::vector<double> micros;
  for (int i = 0; i < runs + 2; ++i) {
    const int64_t begin = NowNanos();
    if (vote && i > 0 && !(*group)->BeginStep().ok()) return {};
    if (!(*group)->Allreduce(absl::MakeSpan(values)).ok()) return {};
    if (vote && !(*group)->Commit().ok()) return {};
    if (i >= 2) micros.push_back(static_cast<double>(NowNanos() - begin) / 1000);
  }
  (*group)->Barrier().IgnoreError();
  return micros;
}

double RunContender(const std::string& name, int size, int64_t elements, int runs) {
  SharedBoard* board = MakeBoard();
  char meeting[] = "/tmp/rubato-gloo-XXXXXX";
  if (mkdtemp(meeting) == nullptr) return 0;
  std::vector<pid_t> pids;
  for (int rank = 0; rank < size; ++rank) {
    pids.push_back(StartChild([&, rank] {
      std::vector<double> micros;
      if (name.rfind("rubato", 0) == 0) {
        micros =
            RunGroup(name.find("shm") != std::string::npos, name.find("step") != std::string::npos,
                     rank, size, elements, runs, board);
      }
#ifdef RUBATO_GLOO
      if (name.rfind("gloo_", 0) == 0) {
        micros = RunGloo(name.substr(5), rank, size, elements, runs, meeting);
      }
#endif
      if (rank == 0) board->results[0] = Median(micros);
      return micros.empty() ? 1 : 0;
    }));
  }
  bool good = true;
  for (pid_t pid : pids) {
    int status = 0;
    waitpid(pid, &status, 0);
    good = good && status == 0;
  }
  std::filesystem::remove_all(meeting);
  return good ? board->results[0] : 0;
}

double CopyGigabytesPerSecond() {
  std::vector<char> from(64 << 20, 1), to(64 << 20);
  std::vector<double> seconds;
  for (int i = 0; i < 5; ++i) {
    const int64_t begin = NowNanos();
    std::memcpy(to.data(), from.data(), from.size());
    seconds.push_back(static_cast<double>(NowNanos() - begin) / 1e9);
  }
  return static_cast<double>(from.size()) / 1e9 / Median(seconds);
}

}  // namespace

int RunAllreduceBench() {
  const std::vector<std::string> contenders = {
      "rubato_shm",      "rubato_shm_step",   "rubato_tcp",
      "rubato_tcp_step",
#ifdef RUBATO_GLOO
      "gloo_ring",       "gloo_ring_chunked", "gloo_halving_doubling",
      "gloo_bcube",
#endif
  };
  std::printf("{\"bench\": \"allreduce\", \"memcpy_gb_per_s\": %.2f, \"cases\": [\n",
              CopyGigabytesPerSecond());
  bool first = true;
  for (int size : {2, 4, 8}) {
    for (int64_t bytes : {int64_t{1} << 10, int64_t{1} << 20, int64_t{64} << 20}) {
      const int runs = bytes <= 1024 ? 300 : bytes <= (1 << 20) ? 40 : 3;
      std::map<std::string, double> micros;
      double best_gloo = 0;
      for (const std::string& name : contenders) {
        const double us = RunContender(name, size, bytes / 4, runs);
        micros[name] = us;
        if (name[0] == 'g' && us > 0 && (best_gloo == 0 || us < best_gloo)) best_gloo = us;
      }
      std::printf("%s {\"processes\": %d, \"bytes\": %lld", first ? " " : ",\n ", size,
                  static_cast<long long>(bytes));
      first = false;
      for (const auto& [name, us] : micros) std::printf(", \"%s_us\": %.1f", name.c_str(), us);
      std::printf(", \"gloo_best_over_shm\": %.2f, \"gloo_best_over_tcp\": %.2f}",
                  best_gloo / micros["rubato_shm"], best_gloo / micros["rubato_tcp"]);
      std::fflush(stdout);
    }
  }
  std::printf("\n]}\n");
  return 0;
}

}  // namespace rubato
