#include "rubato/simulate/artifact/fill.h"

#include <algorithm>
#include <cmath>

namespace rubato {
namespace {

class Filler {
 public:
  Filler(const ArtifactJob& job, double now, double slot, int cluster_gpus,
         const ArtifactSteps& free)
      : job_(job),
        now_(now),
        slot_(slot),
        cluster_gpus_(cluster_gpus),
        before_(free),
        free_(free),
        plan_(ArtifactStep{now, 0}),
        left_(job.left),
        deadline_(AlignUp(now, job.deadline, slot)),
        from_(now) {
    if (deadline_ < now_ || free_.Has(deadline_)) return;
    held_ = free_.Holding(deadline_, 0);
    free_.Set(deadline_, held_);
  }

  ArtifactFill Run(int first_gpus) {
    if (first_gpus > 0 && TakeFirst(first_gpus)) return Result();
    int level = job_.NextLevel(0), below = 0;
    while (level <= cluster_gpus_ && level <= job_.max_gpus) {
      if (TryLevel(level, below)) return Result();
      below = level;
      level = job_.NextLevel(level);
      if (level == below) break;
    }
    TakeAllBeforeDeadline(below);
    if (!TakeAfterDeadline()) TakeTheRest(first_gpus);
    return Result();
  }

 private:
  ArtifactFill Result() {
    plan_.Merge();
    free_.Merge();
    return {real_end_ <= job_.deadline, std::move(plan_), std::move(free_), end_, real_end_};
  }
  double RoundUp(double time) const { return AlignUp(now_, time, slot_); }
  int LevelIn(size_t i, int level) const {
    return std::min(level, job_.LevelAtMost(free_[i].value));
  }
  // Time from `from` to `to`; a slot that holds the deadline counts only until the deadline.
  double Span(double from, double to) const {
    return (to == deadline_ ? job_.deadline : to) - from;
  }

  // Gives `gpus` until the first change of the profile. True if the job ends by then.
  bool TakeFirst(int gpus) {
    const size_t next = before_.LowerBound(std::nextafter(now_, kNoDeadline));
    const double until = next < before_.size() ? before_[next].at : deadline_;
    plan_.Set(now_, gpus);
    real_end_ = std::ceil(now_ + left_ / job_.Rate(gpus));
    end_ = RoundUp(real_end_);
    const int had = free_.Get(now_);
    free_.Set(now_, had - gpus);
    if (until >= end_ && job_.deadline >= real_end_) {
      if (!before_.Has(end_)) free_.Set(end_, had);
      return true;
    }
    left_ -= Span(now_, until) * job_.Rate(gpus);
    from_ = until;
    plan_.Set(from_, 0);
    return false;
  }

  // Walks back from the deadline at `level`; takes it if that is enough, earlier steps staying
  // at the level below.
  bool TryLevel(int level, int below) {
    for (const ArtifactStep& step : free_) {
      if (step.at < deadline_ && !plan_.Has(step.at)) plan_.Set(step.at, 0);
    }
    double gathered = 0, until = deadline_;
    for (size_t i = free_.LowerBound(deadline_); i-- > 0;) {
      if (free_[i].at < from_) break;
      const int gpus = LevelIn(i, level);
      if (gpus > 0) {
        gathered += Span(free_[i].at, until) * job_.Rate(gpus);
        if (gathered >= left_) {
          Commit(free_[i].at, level, below);
          return true;
        }
      }
      until = free_[i].at;
    }
    return false;
  }

  void Commit(double turn, int level, int below) {
    const auto gpus_at = [&](size_t i) { return LevelIn(i, free_[i].at >= turn ? level : below); };
    size_t i = free_.LowerBound(from_);
    bool ended = false;
    for (; i + 1 < free_.size() && free_[i + 1].at <= deadline_; ++i) {
      const double at = free_[i].at;
      const int gpus = gpus_at(i);
      plan_.Set(at, gpus);
      free_[i].value -= gpus;
      if (gpus == 0) continue;
      const double done = Span(at, free_[i + 1].at) * job_.Rate(gpus);
      if (at < turn || done < left_) {
        left_ -= done;
        continue;
      }
      EndAfter(at, gpus);
      ended = true;
      break;
    }
    if (!ended && i < free_.size()) {  // Rounding left a crumb for the deadline's own step.
      const int gpus = std::max(1, gpus_at(i));
      plan_.Set(free_[i].at, gpus);
      free_[i].value -= gpus;
      EndAfter(free_[i].at, gpus);
    }
    int had = cluster_gpus_;
    for (const ArtifactStep& step : before_) {
      if (step.at >= from_ && step.at < end_) had = step.value;
    }
    if (!before_.Has(end_)) free_.Set(end_, had);
  }

  void EndAfter(double at, int gpus) {
    const double seconds = std::ceil(left_ / job_.Rate(gpus));
    end_ = at + AlignUp(0, seconds, slot_);
    real_end_ = at + seconds;
  }

  void TakeAllBeforeDeadline(int level) {
    for (size_t i = free_.LowerBound(from_); i + 1 < free_.size() && free_[i + 1].at <= deadline_;
         ++i) {
      const int gpus = LevelIn(i, level);
      plan_.Set(free_[i].at, gpus);
      free_[i].value -= gpus;
      if (gpus > 0) left_ -= Span(free_[i].at, free_[i + 1].at) * job_.Rate(gpus);
    }
  }

  // True if the job ends before the profile does.
  bool TakeAfterDeadline() {
    last_ = std::max(deadline_, from_);
    for (size_t k = 0; k < free_.size(); ++k) {
      const double until = free_[k].at;
      if (until <= deadline_) continue;
      const int gpus = job_.LevelAtMost(free_.Get(last_));
      plan_.Set(last_, gpus);
      if (gpus > 0) {
        const double done = (until - last_) * job_.Rate(gpus);
        if (done >= left_) {
          EndLate(gpus);
          return true;
        }
        left_ -= done;
        for (const ArtifactStep& step : before_) {
          if (step.at < last_) held_ = free_.Get(step.at);
        }
        for (size_t i = 0; i < free_.size(); ++i) {
          if (free_[i].at >= last_ && free_[i].at < until) free_[i].value -= gpus;
        }
      }
      last_ = until;
    }
    return false;
  }

  void EndLate(int gpus) {
    real_end_ = std::ceil(last_ + left_ / job_.Rate(gpus));
    end_ = RoundUp(real_end_);
    for (size_t i = 0; i < free_.size(); ++i) {
      if (free_[i].at < deadline_ || free_[i].at >= end_) continue;
      if (before_.Has(free_[i].at)) held_ = before_.Get(free_[i].at);
      if (free_[i].at >= last_) free_[i].value -= gpus;
    }
    if (last_ != end_) free_.Set(last_, held_ - gpus);
    if (!before_.Has(end_)) free_.Set(end_, held_);
  }

  // After everyone else has gone: all it may have.
  void TakeTheRest(int first_gpus) {
    const int gpus = first_gpus > 0 ? first_gpus : std::min(cluster_gpus_, job_.max_gpus);
    plan_.Set(last_, gpus);
    real_end_ = std::ceil(last_ + left_ / job_.Rate(gpus));
    end_ = RoundUp(real_end_);
    free_.Set(last_, cluster_gpus_ - gpus);
    free_.Set(end_, cluster_gpus_);
  }

  const ArtifactJob& job_;
  const double now_, slot_;
  const int cluster_gpus_;
  const ArtifactSteps& before_;
  ArtifactSteps free_;
  ArtifactSteps plan_;
  double left_;
  const double deadline_;  // Rounded up to the grid.
  double from_;            // Where filling begins.
  double last_ = 0;        // Where the step being filled begins, past the deadline.
  int held_ = 0;           // What was free there before; stale at times, as in the artifact.
  double end_ = 0, real_end_ = 0;
};

}  // namespace

ArtifactFill Fill(const ArtifactJob& job, double now, double slot, int cluster_gpus,
                  const ArtifactSteps& free, int first_gpus) {
  return Filler(job, now, slot, cluster_gpus, free).Run(first_gpus);
}

ArtifactFill FillGreedily(const ArtifactJob& job, double now, double slot, int cluster_gpus,
                          const ArtifactSteps& free) {
  ArtifactFill result{.in_time = true, .plan = ArtifactSteps(ArtifactStep{now, 0}), .free = free};
  const int want = std::min(job.max_gpus, cluster_gpus);
  double left = job.left, at = now;
  for (size_t k = 0; k + 1 < free.size(); ++k) {
    at = free[k].at;
    const double until = free[k + 1].at;
    if (at > job.deadline) result.in_time = false;
    const int room = result.free.Get(at);
    const int gpus = room >= want ? want : job.curve->LegalAtMost(room);
    result.plan.Set(at, gpus);
    if (gpus <= 0) continue;
    const double end = std::ceil(at + left / job.Rate(gpus));
    result.free.Set(at, room - gpus);
    if (until >= end) {
      if (!free.Has(end)) result.free.Set(AlignUp(now, end, slot), room);
      result.end = result.real_end = end;
      result.in_time = result.in_time && end <= job.deadline;
      result.plan.Merge();
      result.free.Merge();
      return result;
    }
    left -= (until - at) * job.Rate(gpus);
  }
  at = free[free.size() - 1].at;
  result.plan.Set(at, want);
  const double end = std::ceil(at + left / job.Rate(want));
  result.in_time = result.in_time && at <= job.deadline && end <= job.deadline;
  result.free.Set(at, cluster_gpus - want);
  result.free.Set(AlignUp(now, end, slot), cluster_gpus);
  result.end = result.real_end = end;
  result.plan.Merge();
  result.free.Merge();
  return result;
}

}  // namespace rubato
