// What is promised to whom, and what that leaves free.
//
// For each job with a deadline the book holds a way to end in time; together the ways fit into
// the pools at every moment. So whatever is tried and fails, the book as it stands is a schedule
// that keeps every promise in it.
#ifndef RUBATO_SCHEDULE_RUBATO_BOOK_H_
#define RUBATO_SCHEDULE_RUBATO_BOOK_H_

#include <cstdint>
#include <limits>
#include <vector>

#include "rubato/schedule/rubato_planner.h"

namespace rubato {

// What a decision may make of a job: so many GPUs now, and no progress before `ready_s`. Nobody
// can count on another size before then either, since the pause may be on by the time it is
// wanted.
struct Supposed {
  Share share;
  double ready_s = 0;
};

// The jobs' sizes in every pool, worked out once a decision.
class Roster {
 public:
  explicit Roster(const ClusterView& view);
  const ClusterView& view() const { return view_; }
  const JobView& job(size_t i) const { return view_.jobs[i]; }
  absl::Span<const Size> sizes(size_t job, int pool) const;
  int pools() const { return static_cast<int>(view_.pools.size()); }
  double due_s(size_t job) const {
    return job == asked_job_ ? asked_due_s_ : view_.jobs[job].deadline_s;
  }
  double work(size_t job) const {
    return job == asked_job_ ? asked_work_ : view_.jobs[job].remaining;
  }
  // From now on as if the job had asked for this deadline, or for so many iterations. One job at a
  // time.
  void AskDeadline(size_t job, double due_s) { Ask(job, due_s, view_.jobs[job].remaining); }
  void AskWork(size_t job, double work) { Ask(job, view_.jobs[job].deadline_s, work); }

  // The job as it is,
  Runner As(size_t job, int pool) const;
  // and as it would be.
  Runner As(size_t job, int pool, const Supposed& supposed) const;
  // What would be if the job were given `share`: unchanged it goes on,
  Supposed Given(size_t job, const Share& share) const;
  // and if it had to move.
  Supposed Moved(size_t job) const;

 private:
  void Ask(size_t job, double due_s, double work) {
    asked_job_ = job;
    asked_due_s_ = due_s;
    asked_work_ = work;
  }

  const ClusterView& view_;
  std::vector<Size> sizes_;      // Of all jobs in all pools, in a row,
  std::vector<uint32_t> begin_;  // each beginning here.
  std::vector<double> spares_;   // Iterations that a restart may cost them, if there is a reserve.
  size_t asked_job_ = std::numeric_limits<size_t>::max();
  double asked_due_s_ = 0;
  double asked_work_ = 0;
};

class Book {
 public:
  // At most `gpus_max` of each pool are promised, and never the reserve.
  explicit Book(const Roster& roster, int gpus_max = std::numeric_limits<int>::max());
  Book Emptied() const;                 // With the same capacity.
  Book On(const Roster& roster) const;  // The same ways, other deadlines asked for.

  // Finds a way for the job, which has none, and writes it down; false if it found none.
  bool Place(size_t job);
  // A new way as if the job were already `supposed`; the old one stays if there is none.
  bool Replace(size_t job, const Supposed& supposed);
  // Writes down a way as it is; false if it does not fit or does not suffice.
  bool Keep(size_t job, absl::Span<const Reserved> way);
  // Keeps the promise of each of `jobs` in the empty book, as far as it is still needed: far faster
  // than one by one. False, and the book stays empty, if any cannot be kept.
  bool KeepAll(const std::vector<size_t>& jobs);
  // Seeks a cheaper way for the job; the old one stays if there is none.
  void Refresh(size_t job);
  void Remove(size_t job);
  void Clear();

  const Promise& way(size_t job) const { return ways_[job]; }
  bool has(size_t job) const { return !ways_[job].empty(); }
  // What the job must hold now.
  Share Now(size_t job) const;
  // Whether the job's way still ends it in time if it is `supposed` now.
  bool Survives(size_t job, const Supposed& supposed) const;

  const Profile& free(int pool) const { return free_[static_cast<size_t>(pool)]; }
  int capacity(int pool) const { return capacity_[static_cast<size_t>(pool)]; }

 private:
  void Write(size_t job, Promise way);
  // What is left of `old` from now on, if it suffices; empty if not.
  Promise Rest(size_t job, absl::Span<const Reserved> old) const;
  // The cheapest way over all pools, if there is one.
  bool Search(size_t job, const Supposed* supposed, Promise& way) const;

  const Roster* roster_;
  std::vector<int> capacity_;  // By pool,
  std::vector<Profile> free_;  // and what is left of it.
  std::vector<Promise> ways_;  // By job; empty for those without.
};

}  // namespace rubato

#endif  // RUBATO_SCHEDULE_RUBATO_BOOK_H_
