// One row of every so many is kept back from training, to evaluate on.
//
//   records    0 1 2 3 4 5 6 7 8 ...      every 4: one of each four, which one is drawn by the
//   held back    x           x            number of the four
//   to train on  0   1 2 3 4 5   6        numbered through, as are those held back
//
// A record is in one of both parts by its number alone, so all processes, and `rubato evaluate`
// after them, agree. Which one of each few is drawn, as tables may have a rhythm of their own.
#ifndef RUBATO_DATA_HOLDOUT_H_
#define RUBATO_DATA_HOLDOUT_H_

#include <cstdint>
#include <memory>

#include "rubato/data/source.h"

namespace rubato {

class Holdout {
 public:
  explicit Holdout(int64_t every) : every_(every) {}  // 2 or more.

  bool Holds(int64_t record) const { return record % every_ == DrawnOf(record / every_); }
  // How many of the first `records` are held back.
  int64_t HeldOf(int64_t records) const;
  // The record that is number `position` of those held back, or of the others.
  int64_t HeldAt(int64_t position) const { return position * every_ + DrawnOf(position); }
  int64_t OtherAt(int64_t position) const;

 private:
  int64_t DrawnOf(int64_t group) const;

  int64_t every_;
};

// The records of `whole` that are held back, or the others, as a source of their own. Reading some
// reads those between them too, and passes them over.
std::unique_ptr<RecordSource> TakePart(std::unique_ptr<RecordSource> whole, Holdout holdout,
                                       bool held);

}  // namespace rubato

#endif  // RUBATO_DATA_HOLDOUT_H_
