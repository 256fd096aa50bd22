#include "rubato/schedule/rubato_admission.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <optional>
#include <utility>

#include "absl/strings/str_format.h"
#include "rubato/schedule/rubato_forecast.h"
#include "rubato/schedule/rubato_repair.h"

namespace rubato {
namespace {

// A newcomer that would leave no GPU time for more than so many of those likely to come is refused:
// jobs count alike. The forecast is a guess, so in doubt it is admitted.
constexpr double kWorth = 1.5;

// Planning all anew at every decision grows with the square of the jobs. Past this many, the ways
// stand but for what is no longer needed of them, a few are sought anew,
constexpr size_t kAllAnew = 128;
constexpr size_t kRefreshed = 8;
// and a newcomer who finds no room is made some by planning so many others around it.
constexpr size_t kNeighbours = 32;

// An offer is sought in rounds of longer and longer waits, then brought forward by halving; not
// for less than a share of the wait. A halving costs as much as an admission.
constexpr int kOfferRounds = 14;
constexpr double kOfferGrowth = 1.3;
constexpr int kOfferHalvings = 5;
constexpr double kOfferStep = 1.02;
// How much of a job would be accepted is sought by so many halvings: to less than a hundredth.
constexpr int kWorkHalvings = 7;

// GPU-seconds of the whole job where it uses them best.
double Demand(const Roster& roster, size_t job) {
  double least = kNever;
  for (int pool = 0; pool < roster.pools(); ++pool) {
    for (const Size& size : roster.sizes(job, pool)) least = std::min(least, size.gpus / size.rate);
  }
  return least * roster.job(job).iterations;
}

// Whether the job, which is in the book, takes the place of too many others.
bool Overbearing(const Roster& roster, const Forecast& forecast, const Book& book, size_t job) {
  return forecast.Displaced(roster, book, job) > kWorth;
}

std::vector<size_t> WithWays(const Roster& roster, const Book& book) {
  std::vector<size_t> jobs;
  for (size_t i = 0; i < roster.view().jobs.size(); ++i) {
    if (book.has(i)) jobs.push_back(i);
  }
  return jobs;
}

enum class Answer { kYes, kNoRoom, kOverbearing };

// Those of `jobs` that reserve most of the time in which the newcomer must run.
std::vector<size_t> Neighbours(const Roster& roster, const Book& book,
                               const std::vector<size_t>& jobs, size_t newcomer) {
  std::vector<std::pair<double, size_t>> reserved;  // Negated, and whose.
  for (size_t job : jobs) {
    double sum = 0;
    for (const Reserved& piece : book.way(job)) {
      const double to_s = std::min(piece.to_s, roster.due_s(newcomer));
      sum += piece.gpus * std::max(0.0, to_s - piece.from_s);
    }
    if (sum > 0) reserved.push_back({-sum, job});
  }
  const size_t count = std::min(kNeighbours, reserved.size());
  std::partial_sort(reserved.begin(), reserved.begin() + static_cast<ptrdiff_t>(count),
                    reserved.end());
  std::vector<size_t> chosen;
  for (size_t k = 0; k < count; ++k) chosen.push_back(reserved[k].second);
  return chosen;
}

// Admits the job into what the others leave, or by planning them (if they are many, some of them)
// anew.
Answer TryAdmit(const Roster& roster, const Forecast& forecast, size_t job, Book& book) {
  if (book.Place(job)) {
    if (!Overbearing(roster, forecast, book, job)) return Answer::kYes;
    book.Remove(job);
    return Answer::kOverbearing;
  }
  std::vector<size_t> all = WithWays(roster, book);
  Book fresh = book;
  if (all.size() > kAllAnew) {
    if (!PlaceAmidst(roster, Neighbours(roster, book, all, job), job, fresh)) {
      return Answer::kNoRoom;
    }
  } else {
    all.push_back(job);
    SortByDeadline(roster, all);
    fresh.Clear();
    if (!PlaceWithRepair(std::move(all), fresh)) return Answer::kNoRoom;
  }
  if (Overbearing(roster, forecast, fresh, job)) return Answer::kOverbearing;
  book = std::move(fresh);
  return Answer::kYes;
}

// The next smaller number of GPUs that has at most four significant bits; 0 after 1.
int NextSmaller(int gpus) {
  --gpus;
  const int shift = std::max(0, static_cast<int>(std::bit_width(static_cast<unsigned>(gpus))) - 4);
  return gpus >> shift << shift;
}

// Whether all would fit into `gpus` if GPUs were all that counts; cheap, and mostly false where
// admission into fewer GPUs is hopeless.
bool MightFit(const Roster& roster, const std::vector<size_t>& by_deadline, int gpus) {
  double sum = 0;
  for (size_t job : by_deadline) {
    const JobView& view = roster.job(job);
    sum += Demand(roster, job) * (view.remaining / view.iterations);
    if (sum > gpus * (view.deadline_s - roster.view().now_s)) return false;
  }
  return true;
}

// Whether a cluster of fewer GPUs would have admitted it. A larger one then must not refuse: where
// a heuristic does better with less, less is what it gets.
bool TryWithFewer(const Roster& roster, const Forecast& forecast, size_t job, Book& book) {
  std::vector<size_t> promised = WithWays(roster, book);
  if (promised.size() > kAllAnew) return false;  // It would take too long.
  SortByDeadline(roster, promised);
  std::vector<size_t> all = promised;
  all.push_back(job);
  SortByDeadline(roster, all);
  int gpus = 0;
  for (int pool = 0; pool < roster.pools(); ++pool) gpus = std::max(gpus, book.capacity(pool));
  for (gpus = NextSmaller(gpus); gpus > 0; gpus = NextSmaller(gpus)) {
    if (!MightFit(roster, all, gpus * roster.pools())) return false;
    Book fewer(roster, gpus);
    if (!PlaceOrKeep(roster, promised, book, fewer)) continue;
    if (TryAdmit(roster, forecast, job, fewer) != Answer::kYes) continue;
    book = std::move(fewer);
    return true;
  }
  return false;
}

// When the job would end at the earliest in what `book` leaves.
double EarliestEndIn(const Roster& roster, const Book& book, size_t job) {
  double end_s = kNever;
  for (int pool = 0; pool < roster.pools(); ++pool) {
    end_s = std::min(end_s, EarliestEnd(roster.As(job, pool), book.free(pool)));
  }
  return end_s;
}

// A deadline that is accepted if asked for now: the first found that fits beside the others as they
// are, then, by halving, earlier ones for which they are planned anew.
std::optional<double> Offer(const Roster& roster, const Forecast& forecast, const Book& book,
                            size_t job, double alone_s) {
  const double now_s = roster.view().now_s, end_s = EarliestEndIn(roster, book, job);
  if (end_s == kNever) return std::nullopt;
  Roster asking = roster;
  double refused_s = std::max(roster.job(job).deadline_s, alone_s);
  double wait_s = std::max(end_s, refused_s) + 1 - now_s;
  double offer_s = kNever;
  for (int round = 0; round < kOfferRounds && offer_s == kNever; ++round) {
    asking.AskDeadline(job, now_s + wait_s);
    Book trial = book.On(asking);
    if (trial.Place(job) && !Overbearing(asking, forecast, trial, job)) offer_s = now_s + wait_s;
    wait_s *= round == 0 ? kOfferStep : kOfferGrowth;
  }
  if (offer_s == kNever) return std::nullopt;
  for (int round = 0; round < kOfferHalvings; ++round) {
    const double middle_s = (refused_s + offer_s) / 2;
    if (offer_s - refused_s < (kOfferStep - 1) * (offer_s - now_s)) break;
    asking.AskDeadline(job, middle_s);
    Book trial = book.On(asking);
    (TryAdmit(asking, forecast, job, trial) == Answer::kYes ? offer_s : refused_s) = middle_s;
  }
  return offer_s;
}

// How many iterations are accepted for the job's own deadline if asked for now, beside the others
// as they are; none if hardly any would be.
std::optional<double> OfferLess(const Roster& roster, const Forecast& forecast, const Book& book,
                                size_t job) {
  Roster asking = roster;
  Book trial = book.On(asking);
  double accepted = 0, refused = roster.job(job).remaining;
  for (int round = 0; round < kWorkHalvings; ++round) {
    double middle = (accepted + refused) / 2;
    if (middle > 1) middle = std::floor(middle);
    asking.AskWork(job, middle);
    const bool placed = trial.Place(job);
    const bool good = placed && !Overbearing(asking, forecast, trial, job);
    if (placed) trial.Remove(job);
    (good ? accepted : refused) = middle;
  }
  if (accepted == 0) return std::nullopt;
  return accepted;
}

Refusal Refuse(const Roster& roster, const Forecast& forecast, const Book& book, size_t job,
               Answer answer) {
  const JobView& view = roster.job(job);
  const double alone_s = EarliestEndIn(roster, Book(roster), job);
  Refusal refusal{.job = view.id,
                  .offer_deadline_s = Offer(roster, forecast, book, job, alone_s),
                  .offer_iterations = OfferLess(roster, forecast, book, job)};
  if (alone_s == kNever) {
    refusal.reason = "none of its sizes fits into what can be promised";
  } else if (alone_s > view.deadline_s) {
    refusal.reason =
        absl::StrFormat("alone on the cluster it would end %.0f s late", alone_s - view.deadline_s);
  } else if (answer == Answer::kOverbearing) {
    refusal.reason = "the cluster is crowded, and it would take the place of many smaller jobs";
  } else {
    refusal.reason = "what others are promised leaves too few GPUs before its deadline";
  }
  return refusal;
}

// GPU-seconds from now on that a job was promised and no longer needs.
double Vain(const Roster& roster, const Book& book, size_t job) {
  double promised = 0;
  for (const Reserved& piece : roster.job(job).promise) {
    const double from_s = std::max(piece.from_s, roster.view().now_s);
    promised += piece.gpus * std::max(0.0, piece.to_s - from_s);
  }
  return promised - GpuSeconds(book.way(job));
}

// Seeks cheaper ways for those who ran furthest ahead of theirs: fewer GPUs may do now.
void RefreshSome(const Roster& roster, const std::vector<size_t>& promised, Book& book) {
  std::vector<std::pair<double, size_t>> ahead;  // Negated, and whose.
  for (size_t job : promised) {
    const Reserved& last = book.way(job).back();
    if (last.gpus == roster.sizes(job, last.pool).front().gpus) continue;  // As few as can be.
    if (const double vain = Vain(roster, book, job); vain > 0) ahead.push_back({-vain, job});
  }
  const size_t count = std::min(kRefreshed, ahead.size());
  std::partial_sort(ahead.begin(), ahead.begin() + static_cast<ptrdiff_t>(count), ahead.end());
  for (size_t k = 0; k < count; ++k) book.Refresh(ahead[k].second);
}

bool IsHard(const JobView& job) { return job.deadline == DeadlineKind::kHard; }

// Not even alone on the cluster; most refusals are of this kind, and cheap.
bool Hopeless(const Roster& roster, size_t job) { return !Book(roster).Place(job); }

}  // namespace

void KeepPromises(const Roster& roster, Book& book) {
  std::vector<size_t> promised, forlorn;
  for (size_t i = 0; i < roster.view().jobs.size(); ++i) {
    const JobView& job = roster.job(i);
    if (!job.admitted || !IsHard(job)) continue;
    (job.promise.empty() ? forlorn : promised).push_back(i);
  }
  SortByDeadline(roster, promised);
  SortByDeadline(roster, forlorn);
  if (promised.size() > kAllAnew && book.KeepAll(promised)) {
    RefreshSome(roster, promised, book);
  } else if (!PlaceOrKeep(roster, promised, book, book)) {
    // Wronged. Those whose promise still holds keep it, the others take what they find.
    for (size_t job : promised) {
      if (!book.Keep(job, roster.job(job).promise)) forlorn.push_back(job);
    }
  }
  for (size_t job : forlorn) book.Place(job);
}

std::vector<Refusal> AdmitNewcomers(const Roster& roster, Book& book) {
  std::vector<size_t> newcomers;
  for (size_t i = 0; i < roster.view().jobs.size(); ++i) {
    if (!roster.job(i).admitted && IsHard(roster.job(i))) newcomers.push_back(i);
  }
  SortByDeadline(roster, newcomers);
  std::stable_sort(newcomers.begin(), newcomers.end(), [&](size_t a, size_t b) {
    return roster.job(a).priority > roster.job(b).priority;
  });
  if (newcomers.empty()) return {};
  const Forecast forecast(roster);
  std::vector<std::pair<size_t, Answer>> refused;
  for (size_t job : newcomers) {
    Answer answer = Answer::kNoRoom;
    if (!Hopeless(roster, job)) {
      answer = TryAdmit(roster, forecast, job, book);
      if (answer != Answer::kYes && TryWithFewer(roster, forecast, job, book))
        answer = Answer::kYes;
    }
    if (answer != Answer::kYes) refused.push_back({job, answer});
  }
  std::vector<Refusal> refusals;  // What is offered must fit beside all who were admitted.
  for (const auto& [job, answer] : refused) {
    refusals.push_back(Refuse(roster, forecast, book, job, answer));
  }
  std::sort(refusals.begin(), refusals.end(),
            [](const Refusal& a, const Refusal& b) { return a.job < b.job; });
  return refusals;
}

void PlaceSoft(const Roster& roster, Book& book) {
  std::vector<size_t> soft;
  for (size_t i = 0; i < roster.view().jobs.size(); ++i) {
    const JobView& job = roster.job(i);
    if (book.has(i) || job.deadline == DeadlineKind::kNone) continue;
    if (!IsHard(job) || job.admitted) soft.push_back(i);
  }
  SortByDeadline(roster, soft);
  std::stable_sort(soft.begin(), soft.end(), [&](size_t a, size_t b) {
    return roster.job(a).priority > roster.job(b).priority;
  });
  for (size_t job : soft) book.Place(job);
}

}  // namespace rubato
