// Surplus: what is free beyond the floors, lent where it does most good.
#ifndef RUBATO_SCHEDULE_RUBATO_GROWTH_H_
#define RUBATO_SCHEDULE_RUBATO_GROWTH_H_

#include <vector>

#include "rubato/schedule/rubato_book.h"

namespace rubato {

// Shares for all jobs, none below its floor: what its way in `book` asks for now. Jobs that are
// `refused` get nothing.
//
// Surplus is lent step by step to whoever makes most of it and taken back when others need it, so
// every way in `book` is made to survive the loss of what its job was lent. Nobody's workers are
// changed unless the job ends sooner by it, or others need them.
std::vector<Share> ShareOut(const Roster& roster, const std::vector<bool>& refused, Book& book);

}  // namespace rubato

#endif  // RUBATO_SCHEDULE_RUBATO_GROWTH_H_
