// The thread that reduces buckets while the training thread still computes the next ones.
//
// Buckets are reduced one after the other, in the order in which they were started, which must be
// the same at all members. After one has failed the others are skipped: the view has ended.
#ifndef RUBATO_ADAPTERS_RING_REDUCER_H_
#define RUBATO_ADAPTERS_RING_REDUCER_H_

#include <deque>
#include <functional>
#include <thread>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "rubato/base/mutex.h"

namespace rubato {

class Reducer {
 public:
  // `reduce` runs on the reducer's thread; nothing else may reduce until Wait() has returned.
  explicit Reducer(std::function<absl::Status(absl::Span<float>)> reduce);
  ~Reducer();

  // `values` must stay where they are until Wait() has returned.
  void Start(absl::Span<float> values);
  // Until all that was started is done; the first error.
  absl::Status Wait();

 private:
  void Run();

  const std::function<absl::Status(absl::Span<float>)> reduce_;
  Mutex mu_;
  CondVar changed_;
  std::deque<absl::Span<float>> queue_ ABSL_GUARDED_BY(mu_);
  bool busy_ ABSL_GUARDED_BY(mu_) = false;
  bool stopping_ ABSL_GUARDED_BY(mu_) = false;
  absl::Status status_ ABSL_GUARDED_BY(mu_);
  std::thread thread_ ABSL_GUARDED_BY(mu_);  // Begun with the first bucket.
};

}  // namespace rubato

#endif  // RUBATO_ADAPTERS_RING_REDUCER_H_
