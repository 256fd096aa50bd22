#include "rubato/adapters/ring/reducer.h"

#include <utility>

namespace rubato {

Reducer::Reducer(std::function<absl::Status(absl::Span<float>)> reduce)
    : reduce_(std::move(reduce)) {}

Reducer::~Reducer() {
  std::thread thread;
  {
    MutexLock lock(mu_);
    queue_.clear();
    stopping_ = true;
    changed_.NotifyAll();
    thread.swap(thread_);
  }
  if (thread.joinable()) thread.join();
}

void Reducer::Start(absl::Span<float> values) {
  MutexLock lock(mu_);
  if (!thread_.joinable()) thread_ = std::thread([this] { Run(); });
  queue_.push_back(values);
  changed_.NotifyAll();
}

absl::Status Reducer::Wait() {
  MutexLock lock(mu_);
  while (busy_ || !queue_.empty()) changed_.Wait(mu_);
  return std::exchange(status_, absl::OkStatus());
}

void Reducer::Run() {
  MutexLock lock(mu_);
  while (true) {
    while (queue_.empty() && !stopping_) changed_.Wait(mu_);
    if (stopping_) return;
    const absl::Span<float> values = queue_.front();
    queue_.pop_front();
    busy_ = true;
    mu_.Unlock();
    absl::Status status = reduce_(values);
    mu_.Lock();
    busy_ = false;
    if (!status.ok()) {
      queue_.clear();
      if (status_.ok()) status_ = std::move(status);
    }
    changed_.NotifyAll();
  }
}

}  // namespace rubato
