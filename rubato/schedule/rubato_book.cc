#include "rubato/schedule/rubato_book.h"

#include <algorithm>
#include <utility>

namespace rubato {
namespace {

// How much before its deadline a job is planned to end, against rounding.
constexpr double kGuardS = 10 * kTickS;

// What a restart costs at the most, in iterations. However few GPUs the pool has: were it not so, a
// larger one would ask more of every way, and refuse whom a smaller one admits.
double RestartWork(const ClusterView& view, const JobView& job, int pool) {
  std::vector<Size> sizes;
  AppendSizes(view, job, pool, job.max_gpus, sizes);
  return sizes.empty() ? 0 : sizes.back().rate * sizes.back().pause_s;
}

}  // namespace

Roster::Roster(const ClusterView& view) : view_(view) {
  begin_.reserve(view.jobs.size() * view.pools.size() + 1);
  begin_.push_back(0);
  for (const JobView& job : view.jobs) {
    for (int pool = 0; pool < pools(); ++pool) {
      AppendSizes(view, job, pool, view.pools[static_cast<size_t>(pool)].gpus, sizes_);
      begin_.push_back(static_cast<uint32_t>(sizes_.size()));
      if (view.reserve_gpus > 0) spares_.push_back(RestartWork(view, job, pool));
    }
  }
}

absl::Span<const Size> Roster::sizes(size_t job, int pool) const {
  const size_t at = job * view_.pools.size() + static_cast<size_t>(pool);
  return absl::MakeConstSpan(sizes_).subspan(begin_[at], begin_[at + 1] - begin_[at]);
}

Runner Roster::As(size_t i, int pool) const {
  const JobView& job = view_.jobs[i];
  const bool here = job.gpus > 0 && job.pool == pool;
  const absl::Span<const Size> all = sizes(i, pool);
  // Where nodes are expected to fail, every way has room for a restart.
  const bool may_fail = view_.reserve_gpus > 0 && !all.empty();
  const size_t at = i * view_.pools.size() + static_cast<size_t>(pool);
  return {.sizes = all,
          .pool = pool,
          .work = work(i),
          .spare = may_fail ? spares_[at] : 0,
          .due_s = due_s(i) - kGuardS,
          .held = here ? job.gpus : 0,
          .ready_s = std::max(view_.now_s, job.paused_until_s),
          .free_from_s =
              job.gpus > 0 && !here ? std::max(view_.now_s, view_.CooledAt(job)) : view_.now_s,
          .grow_from_s = view_.CooledAt(job),
          .one_size = view_.cooldown_s > 0};
}

Runner Roster::As(size_t i, int pool, const Supposed& supposed) const {
  Runner runner = As(i, pool);
  const Share& share = supposed.share;
  runner.held = share.pool == pool ? share.gpus : 0;
  runner.ready_s = runner.free_from_s = supposed.ready_s;
  if (share != Share{view_.jobs[i].gpus, view_.jobs[i].pool}) {
    runner.grow_from_s = view_.now_s + view_.cooldown_s;
  }
  if (share.gpus > 0 && share.pool != pool) {
    runner.free_from_s = std::max(runner.free_from_s, runner.grow_from_s);
  }
  return runner;
}

Supposed Roster::Given(size_t i, const Share& share) const {
  const JobView& job = view_.jobs[i];
  if (share.gpus == 0) return {share, view_.now_s};
  if (share == Share{job.gpus, job.pool}) {
    return {share, std::max(view_.now_s, job.paused_until_s)};
  }
  return {share, view_.now_s + view_.cost.Seconds(share.gpus)};
}

Supposed Roster::Moved(size_t i) const {
  const JobView& job = view_.jobs[i];
  return {{job.gpus, job.pool}, view_.now_s + view_.cost.Seconds(job.gpus)};
}

Book::Book(const Roster& roster, int gpus_max)
    : roster_(&roster), ways_(roster.view().jobs.size()) {
  for (const PoolView& pool : roster.view().pools) {
    // Nodes already down are what the reserve is for.
    const int promised = std::min(pool.gpus, pool.gpus + pool.down - roster.view().reserve_gpus);
    capacity_.push_back(std::max(0, std::min(promised, gpus_max)));
    free_.emplace_back(roster.view().now_s, capacity_.back());
  }
}

Book Book::Emptied() const {
  Book book(*roster_);
  book.capacity_ = capacity_;
  for (size_t pool = 0; pool < capacity_.size(); ++pool) {
    book.free_[pool].Reset(roster_->view().now_s, capacity_[pool]);
  }
  return book;
}

Book Book::On(const Roster& roster) const {
  Book book = *this;
  book.roster_ = &roster;
  return book;
}

void Book::Clear() {
  for (size_t pool = 0; pool < free_.size(); ++pool) {
    free_[pool].Reset(roster_->view().now_s, capacity_[pool]);
  }
  for (Promise& way : ways_) way.clear();
}

void Book::Write(size_t job, Promise way) {
  for (const Reserved& piece : way) {
    free_[static_cast<size_t>(piece.pool)].Add(piece.from_s, piece.to_s, -piece.gpus);
  }
  ways_[job] = std::move(way);
}

void Book::Remove(size_t job) {
  for (const Reserved& piece : ways_[job]) {
    free_[static_cast<size_t>(piece.pool)].Add(piece.from_s, piece.to_s, piece.gpus);
  }
  ways_[job].clear();
}

bool Book::Search(size_t job, const Supposed* supposed, Promise& best) const {
  double least = kNever;
  Promise way;
  for (int pool = 0; pool < roster_->pools(); ++pool) {
    if (roster_->sizes(job, pool).empty() || capacity(pool) == 0) continue;
    const Runner runner =
        supposed != nullptr ? roster_->As(job, pool, *supposed) : roster_->As(job, pool);
    if (!FindWay(runner, free(pool), way)) continue;
    // GPUs of a small pool are dearer than those of a large one.
    const double cost = GpuSeconds(way) / capacity(pool);
    if (cost >= least) continue;
    least = cost;
    best = way;
  }
  return least < kNever;
}

bool Book::Place(size_t job) {
  Promise way;
  if (!Search(job, nullptr, way)) return false;
  Write(job, std::move(way));
  return true;
}

bool Book::Replace(size_t job, const Supposed& supposed) {
  Promise before = ways_[job];
  Remove(job);
  Promise way;
  const bool found = Search(job, &supposed, way);
  Write(job, found ? std::move(way) : std::move(before));
  return found;
}

Promise Book::Rest(size_t job, absl::Span<const Reserved> old) const {
  const double now_s = roster_->view().now_s;
  Promise way;
  for (Reserved piece : old) {
    if (piece.to_s <= now_s) continue;
    piece.from_s = std::max(piece.from_s, now_s);
    way.push_back(piece);
  }
  if (way.empty()) return {};
  const Runner runner = roster_->As(job, way.front().pool);
  if (runner.sizes.empty()) return {};
  const double rounding = runner.sizes.back().rate * 2 * kTickS;
  return WorkIn(runner, way, now_s) < runner.work - rounding ? Promise() : way;
}

bool Book::Keep(size_t job, absl::Span<const Reserved> old) {
  Promise way = Rest(job, old);
  for (const Reserved& piece : way) {
    if (free(piece.pool).Min(piece.from_s, piece.to_s) < piece.gpus) return false;
  }
  if (way.empty()) return false;
  Write(job, std::move(way));
  return true;
}

bool Book::KeepAll(const std::vector<size_t>& jobs) {
  std::vector<Profile::Changes> changes(free_.size());
  bool good = true;
  for (size_t job : jobs) {
    ways_[job] = Rest(job, roster_->job(job).promise);
    good = good && has(job);
    if (!good) break;
    TrimFront(roster_->As(job, ways_[job].front().pool), ways_[job]);
    for (const Reserved& piece : ways_[job]) {
      changes[static_cast<size_t>(piece.pool)].Add(piece.from_s, piece.to_s, -piece.gpus);
    }
  }
  for (size_t pool = 0; pool < free_.size() && good; ++pool) {
    free_[pool].Reset(roster_->view().now_s, capacity_[pool], std::move(changes[pool]));
    good = free_[pool].Min(roster_->view().now_s, kNever) >= 0;
  }
  if (!good) Clear();
  return good;
}

void Book::Refresh(size_t job) {
  Promise before = ways_[job];
  Remove(job);
  if (!Place(job)) Write(job, std::move(before));
}

Share Book::Now(size_t job) const {
  const Promise& way = ways_[job];
  if (way.empty() || way.front().from_s > roster_->view().now_s) return {};
  return {way.front().gpus, way.front().pool};
}

bool Book::Survives(size_t job, const Supposed& supposed) const {
  const Promise& way = ways_[job];
  if (way.empty()) return true;
  const Runner runner = roster_->As(job, way.front().pool, supposed);
  if (runner.one_size && supposed.share.gpus > 0) {
    for (const Reserved& piece : way) {
      const bool within = piece.pool == supposed.share.pool && piece.gpus <= supposed.share.gpus;
      if (!within && piece.from_s < runner.grow_from_s) return false;
    }
  }
  return WorkIn(runner, way, roster_->view().now_s) >= runner.work;
}

}  // namespace rubato
