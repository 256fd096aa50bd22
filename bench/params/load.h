// One client of real servers that keeps a number of requests under way.
#ifndef RUBATO_BENCH_PARAMS_LOAD_H_
#define RUBATO_BENCH_PARAMS_LOAD_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "rubato/adapters/posix/params_client.h"
#include "rubato/base/mutex.h"

namespace rubato::bench {

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

struct LoadOptions {
  std::vector<std::string> addresses;
  int64_t servers = 1;  // That share everything at first.
  WireFormat wire = WireFormat::kFp32;
  bool shared = true;  // Memory, over Unix sockets.
  uint64_t rows = 0;
  size_t dim = 16;
  int64_t epoch = 0;  // Each client pushes batches of its own.
};

struct Requests {
  size_t keys = 0;  // A request.
  size_t in_flight = 1;
  bool push = false;
};

struct Answer {
  double at = 0;       // By Wall().
  double seconds = 0;  // It took.
};

class Load {
 public:
  explicit Load(const LoadOptions& options);
  ~Load() { client_->Stop(); }

  // A table `deep`, with Adagrad.
  void Declare();
  // Makes every row.
  void Fill();
  // Makes up what to ask for, so that Run need not.
  void Draw(size_t keys);
  // Asks until `go_on` says no; what it heard, in order.
  std::vector<Answer> Run(const Requests& requests, const std::function<bool(size_t sent)>& go_on);
  // Asks for a few rows and waits for them.
  void PullSome();

 private:
  void Push(const std::vector<uint64_t>& ids, std::function<void()> done);

  const LoadOptions options_;
  const std::unique_ptr<ParamsClient> client_;
  int64_t next_batch_ = 0;
  std::vector<float> gradients_;
  std::vector<std::vector<uint64_t>> drawn_;
};

}  // namespace rubato::bench

#endif  // RUBATO_BENCH_PARAMS_LOAD_H_
