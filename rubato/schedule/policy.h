// What every policy sees and what it answers.
//
// Times are seconds since the cluster's epoch (a trace's zero) as doubles, and end in `_s`:
// planners do arithmetic on them by the million. "Never" is kNever.
#ifndef RUBATO_SCHEDULE_POLICY_H_
#define RUBATO_SCHEDULE_POLICY_H_

#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "rubato/cluster/curve.h"
#include "rubato/cluster/job_id.h"
#include "rubato/schedule/overhead.h"

namespace rubato {

inline constexpr double kNever = std::numeric_limits<double>::infinity();

enum class DeadlineKind {
  kNone,  // Best effort: sooner is better.
  kSoft,  // Run it even if it will be late; being late costs.
  kHard,  // Worthless when late: refuse it rather than miss it.
};

// GPUs kept for a job during [from_s, to_s): a piece of the schedule by which a promise is kept.
struct Reserved {
  double from_s = 0;
  double to_s = 0;
  int gpus = 0;
  int pool = 0;
  friend bool operator==(const Reserved&, const Reserved&) = default;
};
// In order of time, not overlapping.
using Promise = absl::InlinedVector<Reserved, 2>;

// One job that has arrived and not ended. The curve's counts are its legal sizes.
struct JobView {
  JobId id;               // Ascending in order of arrival.
  bool admitted = false;  // Was told yes. A policy may refuse a job only before that.

  double submitted_s = 0;
  double deadline_s = kNever;  // kNever if and only if there is none.
  DeadlineKind deadline = DeadlineKind::kNone;
  int priority = 0;  // Higher first.

  double iterations = 0;      // In all.
  double remaining = 0;       // Iterations still to do, at `now`.
  double paused_until_s = 0;  // Being rescaled: makes no progress before this.

  // How fast it runs in each pool; null where it cannot run. Owned by the caller.
  absl::Span<const Curve* const> curves;
  int asked_gpus = 1;  // What the user asked for; rigid policies give this.
  int floor_gpus = 0;  // While it runs it is never given fewer.
  int max_gpus = std::numeric_limits<int>::max();
  int batch_size = 0;  // Global; more workers than this make no sense.

  int gpus = 0;  // What it holds now,
  int pool = 0;  // and where. Meaningless while gpus is 0.
  double last_resize_s = -kNever;
  double started_s = kNever;  // First held GPUs.
  double ran_s = 0;           // Time spent holding GPUs,
  double gpu_seconds = 0;     // and how many (attained service).
  // What the policy last returned for it in Plan::promises: its only memory.
  absl::Span<const Reserved> promise;

  const Curve* curve(int p) const { return curves[static_cast<size_t>(p)]; }
  double slack_s(double now_s) const { return deadline_s - now_s; }
};

struct PoolView {
  int gpus = 0;  // Alive.
  int down = 0;  // On nodes out of service.
  int gpus_per_node = 1;
};

// How many jobs a view remembers, at most.
inline constexpr size_t kLatelyMax = 128;

// A moment of the cluster. `jobs` are ascending by id; those not yet admitted have just arrived.
struct ClusterView {
  double now_s = 0;
  std::vector<PoolView> pools;
  absl::Span<const JobView> jobs;
  // The last kLatelyMax jobs to be submitted, ascending, as they came, whatever was answered, those
  // of `jobs` among them. What was asked for lately tells what may be asked for next.
  absl::Span<const JobView> lately;
  RescaleCost cost;       // What a change of workers costs a job.
  double slot_s = 60;     // For policies that cut time into slots.
  double cooldown_s = 0;  // No growth or change of pool sooner than this after a resize.
  int reserve_gpus = 0;   // Kept free of promises for node failures, in each pool.

  // When a job that holds GPUs may be grown or moved to another pool.
  double CooledAt(const JobView& job) const { return job.last_resize_s + cooldown_s; }
  bool Cooling(const JobView& job) const { return job.gpus > 0 && now_s < CooledAt(job); }

  int gpus() const {
    int sum = 0;
    for (const PoolView& pool : pools) sum += pool.gpus;
    return sum;
  }
};

// What one job gets until the next decision.
struct Share {
  int gpus = 0;
  int pool = 0;
  friend bool operator==(const Share&, const Share&) = default;
};

// Why a job was told no, and what would have been accepted.
struct Refusal {
  JobId job;
  std::string reason;
  // The earliest deadline that would be accepted now; none if no deadline would help.
  std::optional<double> offer_deadline_s;
  // Or what to give up instead of time: about the most iterations that would be accepted now for
  // the deadline asked for; none if none would.
  std::optional<double> offer_iterations;
};

struct Plan {
  std::vector<Share> shares;  // One for each of view.jobs, in the same order.
  std::vector<Refusal>
      refusals;            // Ascending; only of jobs not yet admitted. All others are admitted.
  double wake_s = kNever;  // Decide again by then even if nothing happens.
  std::vector<Promise> promises;  // None, or one for each job: handed back at the next decision.
  // Ascending: these keep the very GPUs they hold while their number stays, though others must then
  // be scattered. All others may be moved to make room.
  std::vector<JobId> pinned;
};

// Decides how many GPUs each job holds until the next event. A policy is a pure function: the
// same view gives the same plan. It has no clock, no I/O and no memory, so that the policy
// proved in the simulator is the one that runs on the cluster.
class Policy {
 public:
  virtual ~Policy() = default;
  virtual absl::string_view name() const = 0;              // As typed after --policy.
  virtual Plan Decide(const ClusterView& view) const = 0;  // At most the GPUs of each pool.
  // Whether decisions are kept at least a slot apart, arrivals waiting meanwhile.
  virtual bool decides_by_slot() const { return false; }
};

// NOT_FOUND naming the known ones if there is no such policy.
absl::StatusOr<std::unique_ptr<Policy>> MakePolicy(absl::string_view name);
// All names, in the order in which documents list them.
std::vector<std::string> PolicyNames();

// INTERNAL naming the job and the promise if the plan breaks one: capacity of each pool, legal
// sizes, floors and caps, no growth or change of pool within the cooldown, no refusal of an
// admitted job. Checked for every plan, in release too.
absl::Status CheckPlan(const ClusterView& view, const Plan& plan);

// Takes back what the cooldown forbids, and asks to decide again when it ends; for policies that
// know nothing of cooldowns. Who finds its old place taken waits without GPUs. Does nothing while
// view.cooldown_s is 0.
void HonourCooldown(const ClusterView& view, Plan& plan);

}  // namespace rubato

#endif  // RUBATO_SCHEDULE_POLICY_H_
