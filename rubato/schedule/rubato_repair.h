// Ways for many jobs at once, and what to do when the order of deadlines does not find them.
#ifndef RUBATO_SCHEDULE_RUBATO_REPAIR_H_
#define RUBATO_SCHEDULE_RUBATO_REPAIR_H_

#include <vector>

#include "rubato/schedule/rubato_book.h"

namespace rubato {

// By deadline, then by arrival.
void SortByDeadline(const Roster& roster, std::vector<size_t>& jobs);

// Places all in this order into the empty `book`. If one finds no way it goes to the front, and
// the others around it, for a few rounds. Whether all have ways; if not, `book` is empty.
bool PlaceWithRepair(std::vector<size_t> order, Book& book);

// Places `job`, and `neighbours` anew around it, into `book`, which has ways for those and others.
// Whether all have ways; if not, `book` is of no use any more.
bool PlaceAmidst(const Roster& roster, std::vector<size_t> neighbours, size_t job, Book& book);

// Places all in this order into the empty `book`, or, if that leaves one without, keeps what each
// was promised before (what it has in `last`, if it is new). Whether all have ways; if not, `book`
// is empty. `last` and `book` may be the same.
bool PlaceOrKeep(const Roster& roster, const std::vector<size_t>& order, const Book& last,
                 Book& book);

}  // namespace rubato

#endif  // RUBATO_SCHEDULE_RUBATO_REPAIR_H_
