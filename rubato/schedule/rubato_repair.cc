#include "rubato/schedule/rubato_repair.h"

#include <algorithm>

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
  std::sort(jobs.begin(), jobs.end(), [&](size_t a, size_t b) {
    const double due_a = roster.due_s(a), due_b = roster.due_s(b);
    return due_a != due_b ? due_a < due_b : a < b;
  });
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
