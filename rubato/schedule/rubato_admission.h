// Who is promised what: old promises first, then newcomers one by one.
#ifndef RUBATO_SCHEDULE_RUBATO_ADMISSION_H_
#define RUBATO_SCHEDULE_RUBATO_ADMISSION_H_

#include <vector>

#include "rubato/schedule/rubato_book.h"

namespace rubato {

// Writes a way for every admitted job with a hard deadline into the empty `book`: fresh ones in
// the order of deadlines, or, should that order leave one without, those promised before. Only a
// job that the world has wronged (nodes lost beyond the reserve, overheads not announced) may
// remain without.
void KeepPromises(const Roster& roster, Book& book);

// Decides about every newcomer with a hard deadline, by priority and deadline; no job that has a
// way loses it. Refusals are ascending.
//
// With one newcomer, whoever is admitted to a pool of g GPUs is admitted to a larger one too, for
// g up to 16 and every g of the form m x 2^k with m <= 16: smaller clusters of these sizes are
// tried before anyone is refused.
std::vector<Refusal> AdmitNewcomers(const Roster& roster, Book& book);

// Gives jobs with soft deadlines, and hard ones past saving, ways in what is left, by priority and
// deadline. They are no promises.
void PlaceSoft(const Roster& roster, Book& book);

}  // namespace rubato

#endif  // RUBATO_SCHEDULE_RUBATO_ADMISSION_H_
