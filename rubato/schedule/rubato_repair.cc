#include "rubato/schedule/rubato_repair.h"

#include <algorithm>
#include <utility>

namespace rubato {
namespace {

constexpr int kRounds = 8;  // Each costs as much as planning all jobs.

// How many find ways before one does not.
size_t PlaceInOrder(const std::vector<size_t>& order, Book& book) {
  for (size_t k = 0; k < order.size(); ++k) {
    if (!book.Place(order[k])) return k;
  }
  return order.size();
}

}  // namespace

void SortByDeadline(const Roster& roster, std::vector<size_t>& jobs) {
  std::vector<std::pair<double, size_t>> by_due;
  by_due.reserve(jobs.size());
  for (size_t job : jobs) by_due.push_back({roster.due_s(job), job});
  std::sort(by_due.begin(), by_due.end());
  for (size_t k = 0; k < jobs.size(); ++k) jobs[k] = by_due[k].second;
}

bool PlaceWithRepair(std::vector<size_t> order, Book& book) {
  for (int round = 0; round < kRounds; ++round) {
    const size_t failed = PlaceInOrder(order, book);
    if (failed == order.size()) return true;
    book.Clear();
    if (failed == 0) return false;  // Not even with everything free.
    const auto at = order.begin() + static_cast<ptrdiff_t>(failed);
    std::rotate(order.begin(), at, at + 1);
  }
  return false;
}

bool PlaceAmidst(const Roster& roster, std::vector<size_t> neighbours, size_t job, Book& book) {
  for (size_t other : neighbours) book.Remove(other);
  SortByDeadline(roster, neighbours);
  return book.Place(job) && PlaceInOrder(neighbours, book) == neighbours.size();
}

bool PlaceOrKeep(const Roster& roster, const std::vector<size_t>& order, const Book& last,
                 Book& book) {
  if (PlaceInOrder(order, book) == order.size()) return true;
  book.Clear();
  for (size_t job : order) {
    const absl::Span<const Reserved> promise = roster.job(job).promise;
    const absl::Span<const Reserved> way = promise.empty() ? last.way(job) : promise;
    if (book.Keep(job, way)) continue;
    book.Clear();
    return false;
  }
  return true;
}

}  // namespace rubato
