// A lock that many may hold to read, or one to write. Made of rubato::Mutex: ThreadSanitizer sees
// into it.
//
//     free ──turn──▶ whose turn it is ──write──▶ writes alone ──pass on──▶ writes, and the next
//                    (readers come and go,        (no reader)               has its turn
//                     the one before may write)
//
// Who has the turn alone may write next, so what writers change before they pass it on stays as it
// is; while it only prepares, readers go on. Once it wants to write it keeps new readers out, so
// that a stream of them cannot starve it; and readers that waited for a writer go before the next
// one, so that a stream of writers, each with the turn of the next, cannot starve them. Turns go in
// the order in which they were asked for: who has just had one and asks again is awake, and would
// mostly be there before those who must wake up first.
#ifndef RUBATO_BASE_SHARED_MUTEX_H_
#define RUBATO_BASE_SHARED_MUTEX_H_

#include <cstdint>
#include <deque>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "rubato/base/mutex.h"

namespace rubato {

class ABSL_LOCKABLE SharedMutex {
 public:
  void Lock() ABSL_EXCLUSIVE_LOCK_FUNCTION() {
    MutexLock lock(mu_);
    TakeTurn();
    BeginWriting();
  }
  void Unlock() ABSL_UNLOCK_FUNCTION() {
    MutexLock lock(mu_);
    EndWriting();
    GiveTurn();
  }
  void LockShared() ABSL_SHARED_LOCK_FUNCTION() {
    MutexLock lock(mu_);
    if (!writing_) {
      ++readers_;
      return;
    }
    ++waiting_;
    const int64_t writer = writers_;
    while (writers_ == writer) read_.Wait(mu_);  // Whoever ends it counts us.
  }
  void UnlockShared() ABSL_UNLOCK_FUNCTION() {
    MutexLock lock(mu_);
    if (--readers_ == 0 && writing_) no_readers_.NotifyOne();
  }

 private:
  friend class TurnLock;

  struct Waiting {
    CondVar wake;
    bool has_turn = false;
  };

  void TakeTurn() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    if (!std::exchange(turn_taken_, true)) return;
    Waiting self;
    queue_.push_back(&self);
    while (!self.has_turn) self.wake.Wait(mu_);
  }
  void GiveTurn() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    turn_taken_ = !queue_.empty();
    if (!turn_taken_) return;
    queue_.front()->has_turn = true;
    queue_.front()->wake.NotifyOne();
    queue_.pop_front();
  }
  // Of who has the turn.
  void BeginWriting() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    while (writing_) written_.Wait(mu_);
    writing_ = true;
    while (readers_ > 0) no_readers_.Wait(mu_);
  }
  void EndWriting() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    writing_ = false;
    ++writers_;
    readers_ += waiting_;
    if (waiting_ > 0) read_.NotifyAll();
    waiting_ = 0;
    written_.NotifyOne();
  }

  Mutex mu_;
  CondVar read_, no_readers_, written_;
  std::deque<Waiting*> queue_ ABSL_GUARDED_BY(mu_);  // For the turn.
  int64_t readers_ ABSL_GUARDED_BY(mu_) = 0;
  int64_t waiting_ ABSL_GUARDED_BY(mu_) = 0;  // To read, until the writer at hand has ended.
  int64_t writers_ ABSL_GUARDED_BY(mu_) = 0;  // That have ended.
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

// Beside readers, and beside a writer that passed its turn on, until Write(). To the analysis this
// is the whole lock: the holder must say Write() before it writes.
class ABSL_SCOPED_LOCKABLE TurnLock {
 public:
  explicit TurnLock(SharedMutex& mu) ABSL_EXCLUSIVE_LOCK_FUNCTION(mu) : mu_(mu) {
    MutexLock lock(mu_.mu_);
    mu_.TakeTurn();
  }
  ~TurnLock() ABSL_UNLOCK_FUNCTION() {
    MutexLock lock(mu_.mu_);
    if (writes_) mu_.EndWriting();
    if (has_turn_) mu_.GiveTurn();
  }
  TurnLock(const TurnLock&) = delete;
  TurnLock& operator=(const TurnLock&) = delete;

  // Whether nobody writes; then nobody will before us.
  bool alone() const ABSL_NO_THREAD_SAFETY_ANALYSIS {
    MutexLock lock(mu_.mu_);
    return writes_ || !mu_.writing_;
  }
  // Again is nothing.
  void Write() ABSL_NO_THREAD_SAFETY_ANALYSIS {
    if (writes_) return;
    MutexLock lock(mu_.mu_);
    mu_.BeginWriting();
    writes_ = true;
  }
  // Of who writes: what it is still to change is nothing that one in its turn looks at.
  void PassOn() ABSL_NO_THREAD_SAFETY_ANALYSIS {
    MutexLock lock(mu_.mu_);
    mu_.GiveTurn();
    has_turn_ = false;
  }

 private:
  SharedMutex& mu_;
  bool has_turn_ = true;
  bool writes_ = false;
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
