// rubato: deadlines kept, cluster full. Explained on one page in docs/design/0005-policy.md.
//
//   promises ──▶ newcomers ──▶ soft ──▶ shares ──▶ pins
//
// Every job with a hard deadline has a *way*: which GPUs it will hold when, resizing paid for. All
// ways together fit into the cluster, and are handed to the next decision with the view. There
// they are replaced only by others that fit as well; so a promise, once made, is always kept by
// some schedule in hand, whatever the heuristics around it find.
#include <algorithm>

#include "rubato/schedule/policies.h"
#include "rubato/schedule/rubato_admission.h"
#include "rubato/schedule/rubato_book.h"
#include "rubato/schedule/rubato_growth.h"

namespace rubato {
namespace {

// When the job must be given more than its share; kNever if it need not.
double WakeFor(const Promise& way, const Share& share, double now_s) {
  for (const Reserved& piece : way) {
    const bool held = share.pool == piece.pool && share.gpus >= piece.gpus;
    if (piece.from_s > now_s && !held) return piece.from_s;
  }
  return kNever;
}

// When a job that could use more GPUs may have them again; kNever if it need not be waited for.
double WakeToGrow(const Roster& roster, size_t job, const Share& share) {
  const ClusterView& view = roster.view();
  if (share.gpus == 0 || view.cooldown_s <= 0) return kNever;
  const bool stays = share == Share{view.jobs[job].gpus, view.jobs[job].pool};
  if (stays && !view.Cooling(view.jobs[job])) return kNever;
  if (roster.pools() == 1 && share.gpus == roster.sizes(job, 0).back().gpus) return kNever;
  return stays ? view.CooledAt(view.jobs[job]) : view.now_s + view.cooldown_s;
}

std::vector<bool> Refused(const ClusterView& view, const std::vector<Refusal>& refusals) {
  std::vector<bool> refused(view.jobs.size());
  size_t i = 0;
  for (const Refusal& refusal : refusals) {
    while (view.jobs[i].id < refusal.job) ++i;
    refused[i] = true;
  }
  return refused;
}

class Rubato : public Policy {
 public:
  absl::string_view name() const override { return "rubato"; }

  Plan Decide(const ClusterView& view) const override {
    const Roster roster(view);
    Book book(roster);
    Plan plan;
    KeepPromises(roster, book);
    plan.refusals = AdmitNewcomers(roster, book);
    PlaceSoft(roster, book);
    plan.shares = ShareOut(roster, Refused(view, plan.refusals), book);
    for (size_t i = 0; i < view.jobs.size(); ++i) {
      const JobView& job = view.jobs[i];
      const bool stays = job.gpus > 0 && plan.shares[i] == Share{job.gpus, job.pool};
      // Who cannot afford the pause of a move is not moved.
      if (stays && !book.Survives(i, roster.Moved(i))) plan.pinned.push_back(job.id);
      plan.wake_s = std::min(plan.wake_s, WakeFor(book.way(i), plan.shares[i], view.now_s));
      plan.wake_s = std::min(plan.wake_s, WakeToGrow(roster, i, plan.shares[i]));
      plan.promises.push_back(book.way(i));
    }
    return plan;
  }
};

}  // namespace

std::unique_ptr<Policy> MakeRubato() { return std::make_unique<Rubato>(); }

}  // namespace rubato
