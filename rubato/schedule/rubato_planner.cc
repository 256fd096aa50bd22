#include "rubato/schedule/rubato_planner.h"

#include <algorithm>
#include <cmath>

namespace rubato {
namespace {

constexpr int kSplits = 4;             // Tries at where the upper stair begins.
constexpr double kWorthAStair = 0.99;  // GPU time it must save to be worth a resize.
constexpr double kWorkSlack = 1e-9;    // Relative: what rounding may cost.

// The last of sizes[0..level] that fits in `gpus`; null if none does.
const Size* Fitting(const Runner& runner, size_t level, int gpus) {
  if (runner.sizes[level].gpus <= gpus) return &runner.sizes[level];
  if (runner.one_size) return nullptr;
  for (size_t i = level; i-- > 0;) {
    if (runner.sizes[i].gpus <= gpus) return &runner.sizes[i];
  }
  return nullptr;
}

double EarliestStart(const Runner& runner, const Size& size) {
  if (runner.held > 0 && size.gpus > runner.held) {
    return std::max(runner.free_from_s, runner.grow_from_s);
  }
  return runner.free_from_s;
}

// Walks back from the deadline, gathering pieces until they hold all the work.
class BackwardWalk {
 public:
  BackwardWalk(const Runner& runner, const Profile& free, Promise& way)
      : runner_(runner), free_(free), way_(way) {}

  // At sizes[level] from `split_s` on, at sizes[early] before.
  bool Run(size_t level, size_t early, double split_s) {
    way_.clear();
    need_ = (runner_.work + runner_.spare) * (1 + kWorkSlack);
    size_ = nullptr;
    if (runner_.due_s <= free_.start_s()) return false;
    size_t i = free_.Find(runner_.due_s);
    if (i > 0 && free_.from_s(i) >= runner_.due_s) --i;
    double to_s = runner_.due_s;
    for (;; --i) {
      const double from_s = free_.from_s(i);
      if (to_s > split_s && Visit(i, std::max(from_s, split_s), to_s, level)) return true;
      if (from_s < split_s && Visit(i, from_s, std::min(to_s, split_s), early)) return true;
      if (i == 0) return false;
      i = PassOver(i, from_s < split_s ? early : level, from_s < split_s ? -kNever : split_s);
      to_s = free_.from_s(i);
    }
  }

 private:
  // The first step of those before i, and i itself, in which nothing can happen: the present piece,
  // at `level`, goes on through them, and still does not do all the work. Visits to them would
  // change nothing but where it begins. Not past `split_s`, nor to the first step of all.
  size_t PassOver(size_t i, size_t level, double split_s) {
    if (size_ != &runner_.sizes[level]) return i;
    const double done_s = to_s_ - need_ / size_->rate - size_->pause_s;
    const double stop_s = std::max(done_s, split_s);
    while (i > 1 && free_.free(i - 1) >= size_->gpus && free_.from_s(i - 1) > stop_s) --i;
    from_s_ = free_.from_s(i);
    return i;
  }

  // Takes [from_s, to_s) of step i in; true if the way is complete.
  bool Visit(size_t i, double from_s, double to_s, size_t level) {
    const int gpus = free_.free(i);
    const Size* fits = Fitting(runner_, level, gpus);
    const bool must = size_ != nullptr && (fits == nullptr || gpus < size_->gpus ||
                                           runner_.sizes[level].gpus < size_->gpus);
    if (must || (size_ != nullptr && WorthRising(*fits, i, to_s))) Close();
    if (size_ == nullptr && fits != nullptr) {
      size_ = fits;
      to_s_ = to_s;
    }
    from_s_ = from_s;
    if (size_ == nullptr || !Finish(from_s <= free_.start_s())) return false;
    std::reverse(way_.begin(), way_.end());
    return true;
  }

  // Whether going up to `fits` before here, and paying for the way down, gathers more.
  bool WorthRising(const Size& fits, size_t i, double to_s) const {
    if (fits.gpus <= size_->gpus) return false;
    double from_s = free_.from_s(i);
    for (int look = 0; look < 4 && i > 0 && free_.free(i - 1) >= fits.gpus; ++look) {
      from_s = free_.from_s(--i);
    }
    const double left = need_ - size_->rate * (to_s_ - to_s - size_->pause_s);
    const double run_s = std::min(to_s - from_s, left / fits.rate);
    return (fits.rate - size_->rate) * run_s > size_->pause_s * size_->rate;
  }

  // Ends the present piece at its left; one too short for its own pause is given up.
  void Close() {
    const double start_s = std::max(from_s_, EarliestStart(runner_, *size_));
    const double done = size_->rate * (to_s_ - start_s - size_->pause_s);
    if (done > 0) {
      need_ -= done;
      way_.push_back({start_s, to_s_, size_->gpus, runner_.pool});
    }
    size_ = nullptr;
  }

  // Whether the present piece, begun at from_s_ or later, does the rest.
  bool Finish(bool reaches_now) {
    const double start_s = to_s_ - need_ / size_->rate - size_->pause_s;
    if (start_s >= std::max(from_s_, EarliestStart(runner_, *size_))) {
      const bool at_once = reaches_now && start_s < from_s_ + kTickS;
      way_.push_back({at_once ? from_s_ : start_s, to_s_, size_->gpus, runner_.pool});
      return true;
    }
    if (!reaches_now || size_->gpus != runner_.held) return false;
    if (size_->rate * (to_s_ - std::max(from_s_, runner_.ready_s)) < need_) return false;
    way_.push_back({from_s_, to_s_, size_->gpus, runner_.pool});
    return true;
  }

  const Runner& runner_;
  const Profile& free_;
  Promise& way_;
  const Size* size_ = nullptr;  // Of the present piece, [from_s_, to_s_); null between pieces.
  double from_s_ = 0;
  double to_s_ = 0;
  double need_ = 0;  // Work not yet found, the present piece's not counted.
};

// `way` is held at one level, and the next lower one would be too slow. GPU time is saved by
// holding the lower one first, and the higher one only from as late as will do.
void Refine(const Runner& runner, const Profile& free, size_t level, Promise& way) {
  const Size &high = runner.sizes[level], &low = runner.sizes[level - 1];
  const double window_s = runner.due_s - free.start_s();
  const double high_s =
      (runner.work + runner.spare - low.rate * (window_s - low.pause_s - high.pause_s)) /
      (high.rate - low.rate);
  double sound_s = way.front().from_s,
         split_s = runner.due_s - std::max(0.0, high_s) - high.pause_s;
  double spent = GpuSeconds(way);
  Promise trial;
  BackwardWalk walk(runner, free, trial);
  double late_s = split_s;
  for (int round = 0; round < kSplits && late_s > sound_s; ++round) {
    if (walk.Run(level, level - 1, split_s)) {
      if (GpuSeconds(trial) > kWorthAStair * spent) return;
      spent = GpuSeconds(trial);
      way = trial;
      if (round == 0) return;
      sound_s = split_s;
    } else {
      late_s = split_s;
    }
    split_s = (sound_s + late_s) / 2;
  }
}

}  // namespace

void AppendSizes(const ClusterView& view, const JobView& job, int pool, int gpus_max,
                 std::vector<Size>& sizes) {
  const Curve* curve = job.curve(pool);
  if (curve == nullptr) return;
  const int most = std::min(job.max_gpus, gpus_max);
  double best = 0;
  for (const CurvePoint& point : curve->points()) {
    if (point.gpus > most) break;
    const double rate = point.gpus == 1 ? point.rate : curve->Rate(point.gpus, Span::kCluster);
    if (point.gpus < job.floor_gpus || rate <= best) continue;
    best = rate;
    sizes.push_back({point.gpus, rate, view.cost.Seconds(point.gpus)});
  }
}

const Size* Runner::Find(int gpus) const {
  const auto at = std::lower_bound(sizes.begin(), sizes.end(), gpus,
                                   [](const Size& size, int want) { return size.gpus < want; });
  return at != sizes.end() && at->gpus == gpus ? &*at : nullptr;
}

bool FindWay(const Runner& runner, const Profile& free, Promise& way) {
  const double window_s = runner.due_s - free.start_s();
  size_t level = 0;
  while (level < runner.sizes.size() &&
         runner.sizes[level].rate * window_s < runner.work + runner.spare)
    ++level;
  BackwardWalk walk(runner, free, way);
  const size_t first = level;
  // Curves of every count from 1 to hundreds are tried in growing strides.
  for (size_t stride = 1; level < runner.sizes.size(); level += stride) {
    if (walk.Run(level, level, free.start_s())) break;
    if (level - first >= 8) stride *= 2;
  }
  if (level >= runner.sizes.size()) return false;
  if (level > 0 && !runner.one_size) Refine(runner, free, level, way);
  return true;
}

double WorkIn(const Runner& runner, absl::Span<const Reserved> way, double now_s) {
  double work = 0;
  for (const Reserved& piece : way) {
    const Size* size = runner.Find(piece.gpus);
    if (size == nullptr || piece.pool != runner.pool) continue;
    const bool goes_on = piece.from_s <= now_s && piece.gpus == runner.held;
    const double start_s =
        goes_on ? std::max(now_s, runner.ready_s)
                : std::max({now_s, piece.from_s, EarliestStart(runner, *size)}) + size->pause_s;
    work += size->rate * std::max(0.0, piece.to_s - start_s);
  }
  return work;
}

void TrimFront(const Runner& runner, Promise& way) {
  double need = (runner.work + runner.spare) * (1 + kWorkSlack);
  for (size_t k = way.size(); k-- > 0;) {
    const Size* size = runner.Find(way[k].gpus);
    if (size == nullptr) return;
    const double start_s = way[k].to_s - need / size->rate - size->pause_s;
    if (start_s >= std::max(way[k].from_s, EarliestStart(runner, *size))) {
      way[k].from_s = start_s;
      way.erase(way.begin(), way.begin() + static_cast<ptrdiff_t>(k));
      return;
    }
    need -= std::max(0.0, size->rate * (way[k].to_s - way[k].from_s - size->pause_s));
  }
}

double EarliestEnd(const Runner& runner, const Profile& free) {
  double best = kNever;
  for (const Size& size : runner.sizes) {
    double need = runner.work + runner.spare;
    double run_from = kNever;  // Since when so many are free without a break.
    for (size_t i = 0; i < free.size(); ++i) {
      const double from_s = std::max(free.from_s(i), EarliestStart(runner, size));
      if (free.free(i) < size.gpus) {
        if (run_from < kNever) {
          need -= std::max(0.0, size.rate * (free.from_s(i) - run_from - size.pause_s));
        }
        run_from = kNever;
        continue;
      }
      run_from = std::min(run_from, from_s);
      const double end_s = run_from + size.pause_s + need / size.rate;
      if (end_s > free.EndOf(i)) continue;
      best = std::min(best, end_s);
      break;
    }
  }
  return best;
}

double GpuSeconds(absl::Span<const Reserved> way) {
  double sum = 0;
  for (const Reserved& piece : way) sum += (piece.to_s - piece.from_s) * piece.gpus;
  return sum;
}

}  // namespace rubato
