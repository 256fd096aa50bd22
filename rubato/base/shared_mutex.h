// A lock that many may hold to read, or one to write. Made of rubato::Mutex: ThreadSanitizer sees
// into it.
//
//     free ──turn──▶ whose turn it is ──write──▶ writes alone
//                    (readers come and go)        (no reader)
//
// Who has the turn alone may write next, so what it reads stays as it is; while it only prepares,
// readers go on. Once it wants to write it keeps new readers out, so that a stream of them cannot
// starve it.
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
    TakeTurn();
    KeepReadersOut();
  }
  // To the analysis this is the whole lock: the holder must say Write() before it writes.
  void LockTurn() ABSL_EXCLUSIVE_LOCK_FUNCTION() {
    MutexLock lock(mu_);
    TakeTurn();
  }
  // Of who has the turn. Again is nothing.
  void Write() ABSL_EXCLUSIVE_LOCKS_REQUIRED(this) {
    MutexLock lock(mu_);
    KeepReadersOut();
  }
  void Unlock() ABSL_UNLOCK_FUNCTION() {
    MutexLock lock(mu_);
    turn_taken_ = false;
    writing_ = false;
    turn_.NotifyOne();
    read_.NotifyAll();
  }
  void LockShared() ABSL_SHARED_LOCK_FUNCTION() {
    MutexLock lock(mu_);
    while (writing_) read_.Wait(mu_);
    ++readers_;
  }
  void UnlockShared() ABSL_UNLOCK_FUNCTION() {
    MutexLock lock(mu_);
    if (--readers_ == 0 && writing_) no_readers_.NotifyOne();
  }

 private:
  void TakeTurn() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    while (turn_taken_) turn_.Wait(mu_);
    turn_taken_ = true;
  }
  void KeepReadersOut() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    writing_ = true;
    while (readers_ > 0) no_readers_.Wait(mu_);
  }

  Mutex mu_;
  CondVar turn_, read_, no_readers_;
  int64_t readers_ ABSL_GUARDED_BY(mu_) = 0;
  bool turn_taken_ ABSL_GUARDED_BY(mu_) = false;
  bool writing_ ABSL_GUARDED_BY(mu_) = false;  // Or about to: no new readers.
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

// Beside readers, until Write().
class ABSL_SCOPED_LOCKABLE TurnLock {
 public:
  explicit TurnLock(SharedMutex& mu) ABSL_EXCLUSIVE_LOCK_FUNCTION(mu) : mu_(mu) { mu_.LockTurn(); }
  ~TurnLock() ABSL_UNLOCK_FUNCTION() { mu_.Unlock(); }
  TurnLock(const TurnLock&) = delete;
  TurnLock& operator=(const TurnLock&) = delete;

  void Write() ABSL_NO_THREAD_SAFETY_ANALYSIS { mu_.Write(); }

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
