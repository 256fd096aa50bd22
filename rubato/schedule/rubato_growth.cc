#include "rubato/schedule/rubato_growth.h"

#include <algorithm>
#include <cmath>
#include <queue>
#include <utility>

namespace rubato {
namespace {

// A step that only keeps what a job holds needs no pause: it is worth this much more.
constexpr double kHeldBonus = 1.3;
// Newcomers are short of the near future. Short reservations this far ahead weigh half.
constexpr double kNearS = 3 * 3600;
// Where all is promised, a reservation given back is worth so many times more: newcomers find no
// other room.
constexpr double kScarce = 6;
// Who has no way lives on loans alone: they are worth so much more to it,
constexpr double kLoansAlone = 3;
// and a little more the shorter the job. Higher powers serve the short ones at too great a cost to
// the others: the mean time of best-effort jobs rises.
constexpr double kShortFirst = 0.2;

// How scarce the GPUs of a pool are over time, summed up from now on so that the mean over any time
// is the difference of two sums.
class Scarcity {
 public:
  Scarcity(const Profile& free, int capacity) : free_(free), capacity_(capacity) {
    double sum = 0;
    for (size_t i = 0; i < free.size(); ++i) {
      sums_.push_back(sum);
      if (i + 1 < free.size()) sum += At(i) * (free.EndOf(i) - free.from_s(i));
    }
  }
  // The integral of the scarcity over [from_s, to_s): 1 where all is promised, 0 where nothing is.
  double Sum(double from_s, double to_s) const { return Until(to_s) - Until(from_s); }

 private:
  double At(size_t i) const {
    const double promised = 1 - static_cast<double>(free_.free(i)) / capacity_;
    const double square = promised * promised;
    return square * square;  // It hardly counts where a quarter is free.
  }
  double Until(double at_s) const {
    const size_t i = free_.Find(at_s);
    return sums_[i] + At(i) * (at_s - free_.from_s(i));
  }

  const Profile& free_;
  int capacity_;
  std::vector<double> sums_;  // Up to the start of each step.
};

// A possible next step up for one job.
struct Step {
  int priority = 0;
  double score = 0;  // What the cluster gains for each GPU lent.
  size_t job = 0;
  Share to;
  // The queue's top is the highest priority, then the highest score, then the first to arrive.
  bool operator<(const Step& other) const {
    if (priority != other.priority) return priority < other.priority;
    return score != other.score ? score < other.score : job > other.job;
  }
};

class Sharing {
 public:
  Sharing(const Roster& roster, const std::vector<bool>& refused, Book& book)
      : roster_(roster), refused_(refused), book_(book), shares_(roster.view().jobs.size()) {
    for (const PoolView& pool : roster.view().pools) free_.push_back(pool.gpus);
    for (size_t i = 0; i < shares_.size(); ++i) {
      shares_[i] = book.Now(i);
      free_[static_cast<size_t>(shares_[i].pool)] -= shares_[i].gpus;
    }
  }

  std::vector<Share> Run() {
    Climb();
    DropVainChanges();
    Restore();
    Secure();
    return std::move(shares_);
  }

 private:
  Share Held(size_t i) const {
    const JobView& job = roster_.job(i);
    return job.gpus > 0 ? Share{job.gpus, job.pool} : Share{};
  }

  bool Cooling(size_t i) const { return roster_.view().Cooling(roster_.job(i)); }

  double Rate(size_t i, const Share& share) const {
    for (const Size& size : roster_.sizes(i, share.pool)) {
      if (size.gpus == share.gpus) return size.rate;
    }
    return 0;
  }

  // How scarce the GPUs are when the job's way asks for them, from 0 to 1.
  double ScarcityOf(size_t i) const {
    double sum = 0;
    for (const Reserved& piece : book_.way(i)) {
      const Scarcity& scarcity = scarcity_[static_cast<size_t>(piece.pool)];
      sum += piece.gpus * scarcity.Sum(piece.from_s, piece.to_s);
    }
    return sum / GpuSeconds(book_.way(i));
  }

  // What an iteration done now is worth, in GPU-seconds. For a job with a way those reserved for
  // it, which are given back; the sooner they would be used and the scarcer GPUs are then, the more
  // they help newcomers. For others those it takes at its best, more for jobs that are nearly done.
  double Weight(size_t i) const {
    const JobView& job = roster_.job(i);
    double least = kNever;
    for (int pool = 0; pool < roster_.pools(); ++pool) {
      for (const Size& size : roster_.sizes(i, pool)) {
        least = std::min(least, size.gpus / size.rate);
      }
    }
    if (!book_.has(i)) {
      return kLoansAlone * least * std::pow(kNearS / (1 + least * job.remaining), kShortFirst);
    }
    const double reserved = GpuSeconds(book_.way(i)) / std::max(job.remaining, 1e-9);
    const double lag_s = std::max(0.0, book_.way(i).front().from_s - roster_.view().now_s);
    // What takes long to work off is begun early.
    const double near_s = kNearS + book_.way(i).back().to_s - book_.way(i).front().from_s;
    return std::max(reserved, least) * near_s / (near_s + lag_s) * (1 + kScarce * ScarcityOf(i));
  }

  // The step up that gains most per GPU among those that fit; a score of 0 if there is none.
  // Looking past the next size climbs over the dents of curves that are not concave.
  Step BestStep(size_t i) const {
    const JobView& job = roster_.job(i);
    const Share& from = shares_[i];
    const double rate = Rate(i, from);
    Step best{.priority = job.priority, .job = i};
    for (int pool = 0; pool < roster_.pools(); ++pool) {
      if (from.gpus > 0 && pool != from.pool) continue;
      const bool here = job.gpus > 0 && job.pool == pool;
      const bool cooling = Cooling(i);
      if (cooling && !here) continue;
      for (const Size& size : roster_.sizes(i, pool)) {
        const int more = size.gpus - from.gpus;
        if (more <= 0) continue;
        if (more > free_[static_cast<size_t>(pool)] || (cooling && size.gpus > job.gpus)) break;
        const double bonus = here && size.gpus <= job.gpus ? kHeldBonus : 1;
        const double score = bonus * weights_[i] * (size.rate - rate) / more;
        if (score > best.score) best = {job.priority, score, i, {size.gpus, pool}};
      }
    }
    return best;
  }

  // Everybody's largest size if all fit into the one pool; where nobody is in anyone's way the
  // climb would end there too.
  bool TakeAll() {
    if (roster_.pools() != 1) return false;
    std::vector<Share> top = shares_;
    int left = free_[0];
    for (size_t i = 0; i < top.size() && left >= 0; ++i) {
      const absl::Span<const Size> sizes = roster_.sizes(i, 0);
      if (refused_[i] || sizes.empty()) continue;
      size_t k = sizes.size() - 1;
      while (k > 0 && Cooling(i) && sizes[k].gpus > roster_.job(i).gpus) --k;
      if (sizes[k].gpus > top[i].gpus) top[i] = {sizes[k].gpus, 0};
      left -= top[i].gpus - shares_[i].gpus;
    }
    if (left < 0) return false;
    free_[0] = left;
    shares_ = std::move(top);
    return true;
  }

  // Greedy ascent: the step with the greatest return first.
  void Climb() {
    if (TakeAll()) return;
    for (int pool = 0; pool < roster_.pools(); ++pool) {
      scarcity_.emplace_back(book_.free(pool), book_.capacity(pool));
    }
    for (size_t i = 0; i < shares_.size(); ++i) weights_.push_back(Weight(i));
    std::priority_queue<Step> steps;
    const auto push = [&](size_t i) {
      if (const Step step = BestStep(i); step.score > 0) steps.push(step);
    };
    for (size_t i = 0; i < shares_.size(); ++i) {
      if (!refused_[i]) push(i);
    }
    while (!steps.empty()) {
      const Step step = steps.top();
      steps.pop();
      Give(step.job, step.to);  // If it does not fit any more, the next best step is sought.
      push(step.job);
    }
  }

  // Changes a share if there is room.
  bool Give(size_t i, const Share& to) {
    Share& share = shares_[i];
    int& before = free_[static_cast<size_t>(share.pool)];
    int& after = free_[static_cast<size_t>(to.pool)];
    before += share.gpus;
    if (after < to.gpus) {
      before -= share.gpus;
      return false;
    }
    after -= to.gpus;
    share = to;
    return true;
  }

  double EndsIn(size_t i, const Share& share) const {
    const double ready_s = roster_.Given(i, share).ready_s;
    return ready_s - roster_.view().now_s + roster_.job(i).remaining / Rate(i, share);
  }

  // Whether the job's floor is met by what it holds.
  bool MayKeep(size_t i) const {
    const Share held = Held(i), floor = book_.Now(i);
    if (held.gpus == 0 || Rate(i, held) <= 0) return false;
    return floor.gpus == 0 || (floor.pool == held.pool && floor.gpus <= held.gpus);
  }

  // Growth, or another pool, whose pause outlasts its gain.
  void DropVainChanges() {
    for (size_t i = 0; i < shares_.size(); ++i) {
      const Share held = Held(i);
      const bool shrinks = shares_[i].pool == held.pool && shares_[i].gpus <= held.gpus;
      if (!MayKeep(i) || shares_[i].gpus == 0 || shrinks) continue;
      if (EndsIn(i, shares_[i]) >= EndsIn(i, held)) Give(i, held);
    }
  }

  // What was taken from a job and nobody got goes back: it costs nothing.
  void Restore() {
    for (size_t i = 0; i < shares_.size(); ++i) {
      const Share held = Held(i);
      if (refused_[i] || !MayKeep(i) || shares_[i] == held) continue;
      if (shares_[i].gpus == 0 || (shares_[i].pool == held.pool && shares_[i].gpus < held.gpus)) {
        Give(i, held);
      }
    }
  }

  // A share that the job's way would not survive is not given.
  void Secure() {
    for (size_t i = 0; i < shares_.size(); ++i) {
      if (refused_[i] || !book_.has(i) || shares_[i] == book_.Now(i)) continue;
      const Supposed given = roster_.Given(i, shares_[i]);
      if (book_.Survives(i, given) || book_.Replace(i, given)) continue;
      const Share held = Held(i);
      if (MayKeep(i) && book_.Survives(i, roster_.Given(i, held)) && Give(i, held)) continue;
      Give(i, book_.Now(i));
    }
  }

  const Roster& roster_;
  const std::vector<bool>& refused_;
  Book& book_;
  std::vector<Share> shares_;
  std::vector<int> free_;  // By pool, now.
  std::vector<double> weights_;
  std::vector<Scarcity> scarcity_;  // By pool.
};

}  // namespace

std::vector<Share> ShareOut(const Roster& roster, const std::vector<bool>& refused, Book& book) {
  return Sharing(roster, refused, book).Run();
}

}  // namespace rubato
