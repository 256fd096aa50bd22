// A lock that many may hold to read, or one to write. A writer that waits keeps new readers out, so
// that a stream of readers cannot starve it. Made of rubato::Mutex: ThreadSanitizer sees into it.
#ifndef RUBATO_BASE_SHARED_MUTEX_H_
#define RUBATO_BASE_SHARED_MUTEX_H_

#include <cstdint>

#include "absl/base/thread_annotations.h"
#include "rubato/base/mutex.h"

namespace rubato {

class ABSL_LOCKABLE SharedMutex {
 public:
  void Lock() ABSL_EXCLUSIVE_LOCK_FUNCTION() {
    MutexLock lock(mu_);
    ++writers_waiting_;
    while (writing_ || readers_ > 0) writers_.Wait(mu_);
    --writers_waiting_;
    writing_ = true;
  }
  void Unlock() ABSL_UNLOCK_FUNCTION() {
    MutexLock lock(mu_);
    writing_ = false;
    Wake();
  }
  void LockShared() ABSL_SHARED_LOCK_FUNCTION() {
    MutexLock lock(mu_);
    while (writing_ || writers_waiting_ > 0) read_.Wait(mu_);
    ++readers_;
  }
  void UnlockShared() ABSL_UNLOCK_FUNCTION() {
    MutexLock lock(mu_);
    if (--readers_ == 0) Wake();
  }

 private:
  void Wake() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    if (writers_waiting_ > 0) {
      writers_.NotifyOne();
    } else {
      read_.NotifyAll();
    }
  }

  Mutex mu_;
  CondVar writers_, read_;
  int64_t readers_ ABSL_GUARDED_BY(mu_) = 0;
  int64_t writers_waiting_ ABSL_GUARDED_BY(mu_) = 0;
  bool writing_ ABSL_GUARDED_BY(mu_) = false;
};

class ABSL_SCOPED_LOCKABLE WriterLock {
 public:
  explicit WriterLock(SharedMutex& mu) ABSL_EXCLUSIVE_LOCK_FUNCTION(mu) : mu_(mu) { mu_.Lock(); }
  ~WriterLock() ABSL_UNLOCK_FUNCTION() { mu_.Unlock(); }
  WriterLock(const WriterLock&) = delete;
  WriterLock& operator=(const WriterLock&) = delete;

 private:
  SharedMutex& mu_;
};

class ABSL_SCOPED_LOCKABLE ReaderLock {
 public:
  explicit ReaderLock(SharedMutex& mu) ABSL_SHARED_LOCK_FUNCTION(mu) : mu_(mu) { mu_.LockShared(); }
  ~ReaderLock() ABSL_UNLOCK_FUNCTION() { mu_.UnlockShared(); }
  ReaderLock(const ReaderLock&) = delete;
  ReaderLock& operator=(const ReaderLock&) = delete;

 private:
  SharedMutex& mu_;
};

}  // namespace rubato

#endif  // RUBATO_BASE_SHARED_MUTEX_H_
