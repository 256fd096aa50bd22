// Processes of a benchmark, and the memory they share with it.
#ifndef BENCH_RING_FLEET_H_
#define BENCH_RING_FLEET_H_

#include <sys/types.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "rubato/membership/views.h"

namespace rubato {

class ElasticGroup;
struct DatagramSocket;

// Monotonic nanoseconds, the same for all processes.
int64_t NowNanos();
double Median(std::vector<double> values);
inline double Millis(int64_t nanos) { return static_cast<double>(nanos) / 1e6; }

constexpr int kFleetMax = 16;

// What a member last did, for the parent to read.
struct MemberReport {
  std::atomic<int64_t> step;
  std::atomic<int64_t> committed_nanos;
  std::atomic<uint64_t> view;
  std::atomic<int> holders;
  std::atomic<int> rank;            // By age of state: 0 is the oldest.
  std::atomic<int> partings;        // How often it had to copy the state anew.
  std::atomic<int> round, waiters;  // Where processes do nothing but meet.
  std::atomic<int64_t> noticed_nanos, agreed_nanos, entered_nanos, resumed_nanos;
};

struct SharedBoard {
  MemberReport members[kFleetMax];
  std::atomic<int> stop;
  std::atomic<int> ready;
  double results[256];
  char address[64];
  char addresses[kFleetMax][64];  // Of a fleet's members.
};

// Zeroed memory that children inherit.
SharedBoard* MakeBoard();
void FreeBoard(SharedBoard* board);
// Forks; the child runs `main` and exits with what it returns.
pid_t StartChild(const std::function<int()>& main);

// Processes that train together: steps of rest and an allreduce of 256 KB, each reported on the
// board.
class TrainingFleet {
 public:
  struct Options {
    Quorum quorum = Quorum::kMajority;
    // Each is another user's, so that they can neither share memory nor see each other end, as on
    // machines of their own. Needs root.
    bool apart = false;
    // Of so many machines in turn: sums go through the memory of each, and between them over TCP.
    int machines = 0;
    // A process of its own issues the views, as the master of a job does; `quorum` is not used
    // then.
    bool master = false;
    int64_t compute_us = 2000;        // Stands for the computation, and leaves the cores to others.
    int64_t state_bytes = 256 << 10;  // What a newcomer copies; the sums stay as they are.
    // A step changes all of that, as an optimizer does; else as much as is summed, and says so.
    bool changes_all = false;
    int64_t kept_bytes_max = 0;  // As in GroupOptions.
  };
  // Process 0 founds the group, the others join it, as it does when it is started again.
  TrainingFleet(int size, Options options);
  ~TrainingFleet();  // Kills them all.

  void Start(int index);
  void Kill(int index);  // And waits for its end; it can be started again.
  // Until all of `members` hold the state, and nobody else does.
  bool WaitForAll(const std::vector<int>& members);

  const MemberReport& report(int index) const { return board_->members[index]; }
  pid_t pid(int index) const { return pids_[index]; }

 private:
  int Train(int index);
  void TakeSteps(ElasticGroup& group, std::vector<float>& gradients, MemberReport& report);

  const Options options_;
  SharedBoard* board_;
  std::vector<pid_t> pids_;
  std::unique_ptr<DatagramSocket> master_;  // Null: there is none.
  pid_t master_pid_ = -1;
};

// 0, 1, ... count - 1.
std::vector<int> FirstOnes(int count);

}  // namespace rubato

#endif  // BENCH_RING_FLEET_H_
