// One job's way to its deadline through the GPUs that others leave free.
//
//   GPUs
//     8 |                  ┌────────┐          A way is built backwards from the deadline: as late
//     4 |        ┌─────────┘        │          and with as few GPUs as will do, each piece paying
//     0 |────────┘                  │deadline  for the pause with which it begins.
//       +----------------------------------▶ t
//      now
//
// What it returns is sound: followed to the letter it ends the job in time, whatever the curve
// looks like. That it finds a way wherever there is one is not promised.
#ifndef RUBATO_SCHEDULE_RUBATO_PLANNER_H_
#define RUBATO_SCHEDULE_RUBATO_PLANNER_H_

#include <vector>

#include "absl/types/span.h"
#include "rubato/schedule/policy.h"
#include "rubato/schedule/profile.h"

namespace rubato {

// Times are not told apart more finely than this: doubles of weeks have their limits.
inline constexpr double kTickS = 1e-3;

// A number of GPUs worth having.
struct Size {
  int gpus = 0;
  double rate = 0;     // Iterations per second, at the loosest placement.
  double pause_s = 0;  // Without progress, whenever it begins to hold so many.
};

// The sizes of `job` in `pool` between its floor and its cap, and of at most `gpus_max`, each
// faster than all smaller ones.
void AppendSizes(const ClusterView& view, const JobView& job, int pool, int gpus_max,
                 std::vector<Size>& sizes);

// A job as the planner sees it in one pool.
struct Runner {
  absl::Span<const Size> sizes;  // Ascending.
  int pool = 0;
  double work = 0;         // Iterations to do,
  double spare = 0;        // room for so many more to be planned,
  double due_s = 0;        // and by when.
  int held = 0;            // GPUs held now in this pool.
  double ready_s = 0;      // If it goes on with those, it makes progress from here on.
  double free_from_s = 0;  // Any other size can begin here at the earliest,
  double grow_from_s = 0;  // a larger one than `held` not before this.
  bool one_size = false;   // Never from one number to another but 0: what cooldowns ask for.

  const Size* Find(int gpus) const;  // Null if that is none of its sizes.
};

// Whether the job can end in time in what is `free`, and how: with the least GPU time of one
// level, smaller sizes filling in where that level is not free.
bool FindWay(const Runner& runner, const Profile& free, Promise& way);

// Iterations done by following `way` from `now_s` on.
double WorkIn(const Runner& runner, absl::Span<const Reserved> way, double now_s);

// Gives back the early part of `way` that the job no longer needs: a way is as late as it can be.
void TrimFront(const Runner& runner, Promise& way);

// When the job could end at the earliest in what is `free`; kNever if it cannot run.
double EarliestEnd(const Runner& runner, const Profile& free);

// GPU-seconds in a way.
double GpuSeconds(absl::Span<const Reserved> way);

}  // namespace rubato

#endif  // RUBATO_SCHEDULE_RUBATO_PLANNER_H_
