// Records in an order in which neighbours come from all over the data. Files are sorted by user, by
// day, by label; a batch of neighbours would be a batch of one user, and a shuffle that stays
// within a task, of one class.
//
//     records   0 1|2 3|4 5|6 7|8 9|10 11|12     runs of 2, in steps of some 0.618 of all runs:
//     spread    0 1|6 7|12..                     any few runs in a row lie at even distances
//
// The order is a function of the numbers of records and of a run, so all processes agree on it.
#ifndef RUBATO_DATA_SPREAD_H_
#define RUBATO_DATA_SPREAD_H_

#include <cstdint>
#include <memory>

#include "rubato/data/source.h"

namespace rubato {

class SpreadOrder {
 public:
  // Neighbours stay together in runs of `run` records, 1 or more; what is left over stays last.
  SpreadOrder(int64_t records, int64_t run);

  // The record at `position`.
  int64_t At(int64_t position) const;
  // Where the run that holds `position` ends, as a position.
  int64_t RunEnd(int64_t position) const;

 private:
  const int64_t records_, run_, runs_;
  int64_t step_ = 1;  // Has no divisor in common with runs_.
};

// The records of `whole` in that order, as a source of their own. `hold`: all are read when the
// first one is asked for, and held in memory, for runs too short to be looked up in files.
std::unique_ptr<RecordSource> Spread(std::unique_ptr<RecordSource> whole, int64_t run, bool hold);

}  // namespace rubato

#endif  // RUBATO_DATA_SPREAD_H_
