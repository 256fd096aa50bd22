#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
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

// Microseconds; 0 if it failed.
struct Timing {
  double median = 0;
  double best = 0;  // What a loaded machine leaves of the algorithm's own speed.
};

Timing RunContender(const std::string& name, int size, int64_t elements, int runs) {
  SharedBoard* board = MakeBoard();
  char meeting[] = "/tmp/rubato-gloo-XXXXXX";
  if (mkdtemp(meeting) == nullptr) return {};
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
      if (rank == 0 && !micros.empty()) {
        board->results[0] = Median(micros);
        board->results[1] = *std::min_element(micros.begin(), micros.end());
      }
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
  return good ? Timing{board->results[0], board->results[1]} : Timing{};
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

int RunAllreduceBench(int size_only, int64_t bytes_only) {
  const std::vector<std::string> contenders = {
      "rubato_shm",      "rubato_shm_step",   "rubato_tcp",
      "rubato_tcp_step",
#ifdef RUBATO_GLOO
      "gloo_ring",       "gloo_ring_chunked", "gloo_halving_doubling",
      "gloo_bcube",
#endif
  };
  const double copy_gb_per_s = CopyGigabytesPerSecond();
  std::printf("{\"bench\": \"allreduce\", \"memcpy_gb_per_s\": %.2f, \"cases\": [\n",
              copy_gb_per_s);
  bool first = true;
  for (int size : {2, 4, 8}) {
    for (int64_t bytes : {int64_t{1} << 10, int64_t{1} << 20, int64_t{64} << 20}) {
      if ((size_only > 0 && size != size_only) || (bytes_only > 0 && bytes != bytes_only)) continue;
      const int runs = bytes <= 1024 ? 500 : bytes <= (1 << 20) ? 80 : 4;
      std::map<std::string, Timing> timings;
      Timing gloo{1e300, 1e300};
      for (const std::string& name : contenders) {
        const Timing timing = timings[name] = RunContender(name, size, bytes / 4, runs);
        if (name[0] != 'g' || timing.best == 0) continue;
        gloo = {std::min(gloo.median, timing.median), std::min(gloo.best, timing.best)};
      }
      std::printf("%s {\"processes\": %d, \"bytes\": %lld", first ? " " : ",\n ", size,
                  static_cast<long long>(bytes));
      first = false;
      for (const auto& [name, timing] : timings) {
        std::printf(", \"%s_us\": [%.1f, %.1f]", name.c_str(), timing.median, timing.best);
      }
      const Timing shm = timings["rubato_shm"], tcp = timings["rubato_tcp"];
      std::printf(", \"gloo_over_shm\": [%.2f, %.2f], \"gloo_over_tcp\": [%.2f, %.2f]",
                  gloo.median / shm.median, gloo.best / shm.best, gloo.median / tcp.median,
                  gloo.best / tcp.best);
      // Every member reads and writes the buffer at least once: a copy of it by each.
      const double copies_us = static_cast<double>(bytes) * size / copy_gb_per_s / 1e3;
      // What a vote and the leases add to an allreduce.
      std::printf(", \"copy_limit_over_shm\": [%.2f, %.2f], \"elastic_us\": [%.1f, %.1f]}",
                  copies_us / shm.median, copies_us / shm.best,
                  timings["rubato_shm_step"].median - shm.median,
                  timings["rubato_shm_step"].best - shm.best);
      std::fflush(stdout);
    }
  }
  std::printf("\n]}\n");
  return 0;
}

}  // namespace rubato
