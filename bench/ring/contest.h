// Several ways of doing the same, each run again and again in turns within one run, so that what
// else the machine does meets all of them alike: ratios are fair where times are not.
#ifndef BENCH_RING_CONTEST_H_
#define BENCH_RING_CONTEST_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "bench/ring/fleet.h"
#include "rubato/adapters/ring/elastic_group.h"

namespace rubato {

// One process of a contender.
struct Place {
  int rank = 0;
  int size = 0;
  int runs = 0;
  SharedBoard* board = nullptr;
  std::string meeting;  // An empty directory, the same for all.
};

struct Contender {
  std::string name;
  // The microseconds of each of `runs` runs; fewer if it failed.
  std::function<std::vector<double>(const Place&)> run;
};

struct Timing {
  double median = 0;  // Microseconds; 0 if it failed.
  double best = 0;    // What a loaded machine leaves of the algorithm's own speed.
};

std::map<std::string, Timing> RunContest(const std::vector<Contender>& contenders, int size,
                                         int rounds, int runs);

// How a group takes its steps.
struct GroupCase {
  bool shared_memory = true;
  int machines = 1;  // The processes pose as these, so many each: memory is shared within one.
  // The network namespaces that these machines are, without their number: see the README.
  const char* namespaces = "";
  bool encrypt = false;    // With a secret, as every job has one.
  bool elastic = false;    // Every step begins and is voted for; there are leases.
  bool apart = false;      // The votes do not ride in the last reduction, but follow it.
  bool together = false;   // Without that, but nobody goes on before all have the sum.
  int64_t elements = 0;    // In all,
  int buckets = 1;         // in so many pieces of the same size.
  int64_t compute_us = 0;  // A device is busy so long, piece by piece, and the processor is not.
  bool overlap = false;    // A piece is summed while the device computes the next.
  int microbatches = 0;    // Of a step, in all; 0: one for each process.
  WireFormat wire = WireFormat::kFp32;
  bool canonical = false;  // Deterministic mode; with 16 bits, too, counts are summed on their own.
};
// Joins the others, and returns when all are there and hold the (empty) state, with a step begun;
// null if that fails.
std::unique_ptr<ElasticGroup> MeetOthers(const GroupCase& what, const Place& place, StepPlan& plan);
std::vector<double> RunGroup(const GroupCase& what, const Place& place);

}  // namespace rubato

#endif  // BENCH_RING_CONTEST_H_
