#include "bench/ring/contest.h"

#include <fcntl.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <string>

#include "rubato/adapters/tls/fd.h"

namespace rubato {
namespace {

// Whoever has taken so long does not come again: Gloo's ring takes 5 s for 64 MB and 8 processes.
constexpr double kSecondsMax = 10;

// Runs `contender` once, in processes of its own; as its first process saw it.
std::vector<double> RunOnce(const Contender& contender, int size, int runs) {
  SharedBoard* board = MakeBoard();
  char meeting[] = "/tmp/rubato-bench-XXXXXX";
  if (mkdtemp(meeting) == nullptr) return {};
  std::vector<pid_t> pids;
  for (int rank = 0; rank < size; ++rank) {
    pids.push_back(StartChild([&, rank] {
      const std::vector<double> micros = contender.run({rank, size, runs, board, meeting});
      if (rank == 0) std::copy(micros.begin(), micros.end(), board->results);
      return static_cast<int>(micros.size()) == runs ? 0 : 1;
    }));
  }
  bool good = true;
  for (const pid_t pid : pids) {
    int status = 0;
    waitpid(pid, &status, 0);
    good = good && status == 0;
  }
  std::filesystem::remove_all(meeting);
  std::vector<double> micros;
  if (good) micros.assign(board->results, board->results + runs);
  FreeBoard(board);
  return micros;
}

absl::StatusOr<std::unique_ptr<ElasticGroup>> OpenGroup(const GroupCase& what, const Place& place) {
  GroupOptions options;
  options.shared_memory = what.shared_memory;
  const int machine = place.rank * what.machines / place.size;
  options.machine = std::to_string(machine);
  if (*what.namespaces != 0) {
    const std::string name = std::string("/run/netns/") + what.namespaces + options.machine;
    const Fd space(open(name.c_str(), O_RDONLY | O_CLOEXEC));
    if (setns(space.get(), CLONE_NEWNET) != 0) return absl::ErrnoToStatus(errno, name);
    options.listen = "10.231.79." + std::to_string(machine + 1) + ":0";
  }
  if (what.encrypt) options.secret = "known to all processes of the benchmark";
  options.early_apply = what.elastic && !what.apart;  // As a job would.
  options.microbatches = what.microbatches > 0 ? what.microbatches : place.size;
  options.wire = what.wire;
  // The longest leases there are cost a packet a second.
  options.network = what.elastic ? GroupNetwork::kLoopback : GroupNetwork::kWan;
  if (place.rank > 0) {
    while (place.board->ready.load() == 0) usleep(1000);
    options.join = {place.board->address};
  }
  auto group = ElasticGroup::Open(std::move(options));
  if (group.ok() && place.rank == 0) {
    std::snprintf(place.board->address, sizeof(place.board->address), "%s",
                  (*group)->address().c_str());
    place.board->ready = 1;
  }
  return group;
}

// As a job of 16 bits or in deterministic mode takes it: first the gradients, then the counts, as
// they are.
bool TakeExactStep(const GroupCase& what, ElasticGroup& group, const StepPlan& plan,
                   std::vector<float>& values) {
  if (what.compute_us > 0) usleep(what.compute_us);
  absl::Status summed;
  if (what.canonical) {
    CanonicalSum mine(plan.size, plan.quota.begin);  // A microbatch for each process.
    for (int i = 0; i < plan.quota.size(); ++i) mine.Add(values);
    summed = group.AllreduceCanonical(mine, absl::MakeSpan(values));
  } else {
    summed = group.Allreduce(absl::MakeSpan(values));
  }
  std::vector<float> counts(8, 1.0f);
  const absl::Span<float> last = absl::MakeSpan(counts);
  const bool carries = what.elastic && !what.apart;
  return summed.ok() && (carries ? group.AllreduceLastExactly(last) : group.Allreduce(last)).ok();
}

bool TakeStep(const GroupCase& what, ElasticGroup& group, std::vector<float>& values) {
  const size_t piece = values.size() / static_cast<size_t>(what.buckets);
  for (int bucket = 0; bucket < what.buckets; ++bucket) {
    if (what.compute_us > 0) usleep(what.compute_us / what.buckets);
    if (!what.overlap || bucket + 1 == what.buckets) continue;
    const absl::Span<float> part = absl::MakeSpan(values).subspan(piece * bucket, piece);
    if (!group.StartAllreduce(part).ok()) return false;
  }
  if (what.elements == 0) return true;
  for (int bucket = what.overlap ? what.buckets - 1 : 0; bucket < what.buckets; ++bucket) {
    const absl::Span<float> part = absl::MakeSpan(values).subspan(piece * bucket, piece);
    const bool last = what.elastic && !what.apart && bucket + 1 == what.buckets;
    if (!(last ? group.AllreduceLast(part) : group.Allreduce(part)).ok()) return false;
  }
  return true;
}

}  // namespace

std::map<std::string, Timing> RunContest(const std::vector<Contender>& contenders, int size,
                                         int rounds, int runs) {
  std::map<std::string, std::vector<double>> micros;
  std::map<std::string, double> seconds;
  for (int round = 0; round < rounds; ++round) {
    for (const Contender& contender : contenders) {
      if (seconds[contender.name] > kSecondsMax) continue;
      const int64_t begin = NowNanos();
      const std::vector<double> more = RunOnce(contender, size, runs);
      seconds[contender.name] += static_cast<double>(NowNanos() - begin) / 1e9;
      micros[contender.name].insert(micros[contender.name].end(), more.begin(), more.end());
    }
  }
  std::map<std::string, Timing> timings;
  for (const auto& [name, all] : micros) {
    timings[name] = {Median(all), all.empty() ? 0 : *std::min_element(all.begin(), all.end())};
  }
  return timings;
}

std::unique_ptr<ElasticGroup> MeetOthers(const GroupCase& what, const Place& place,
                                         StepPlan& plan) {
  auto group = OpenGroup(what, place);
  if (!group.ok()) return nullptr;
  std::vector<float> tiny(1);
  while (true) {
    const absl::StatusOr<StepPlan> begun = (*group)->BeginStep();
    if (!begun.ok()) return nullptr;
    plan = *begun;
    if ((*group)->view().holders == place.size) return *std::move(group);
    (*group)->DoNotMeasure();
    usleep(500);
    if ((*group)->Allreduce(absl::MakeSpan(tiny)).ok()) (*group)->Commit().IgnoreError();
  }
}

std::vector<double> RunGroup(const GroupCase& what, const Place& place) {
  StepPlan plan;
  const std::unique_ptr<ElasticGroup> group = MeetOthers(what, place, plan);
  if (group == nullptr) return {};
  std::vector<float> values(static_cast<size_t>(what.elements), 1.0f);
  std::vector<double> micros;
  for (int i = 0; i < place.runs + 2; ++i) {
    const int64_t begin = NowNanos();
    if (what.elastic && i > 0) {
      const absl::StatusOr<StepPlan> begun = group->BeginStep();
      if (!begun.ok()) return {};
      plan = *begun;
    }
    const bool exact = what.canonical || what.wire != WireFormat::kFp32;
    if (!(exact ? TakeExactStep(what, *group, plan, values) : TakeStep(what, *group, values))) {
      return {};
    }
    if (what.elastic && !group->Commit().ok()) return {};
    if (what.together && !group->Barrier().ok()) return {};
    if (i >= 2) micros.push_back(static_cast<double>(NowNanos() - begin) / 1000);
  }
  if (!what.elastic) group->Barrier().IgnoreError();  // Who commits is waited for when it closes.
  return micros;
}

}  // namespace rubato
