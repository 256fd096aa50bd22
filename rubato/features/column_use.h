// What the columns of a table hold, by their statistics and names: the guesses behind the features
// that are proposed.
#ifndef RUBATO_FEATURES_COLUMN_USE_H_
#define RUBATO_FEATURES_COLUMN_USE_H_

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "rubato/features/analysis.h"
#include "rubato/features/times.h"

namespace rubato {

enum class Use {
  kNone,     // Never changes, or never repeats.
  kNumber,   // A quantity.
  kTime,     // When something was.
  kStamp,    // When its row was written, where names say all else.
  kRow,      // The number of its row.
  kText,     // Names something, in letters or in digits.
  kCode,     // Integers that may be either: a quantity, or the rows of some other table.
  kBag,      // Several texts with a separator between: "drama|action".
  kEntries,  // Of libsvm and its like: "3 9:0.5".
};

struct ColumnUse {
  Use use = Use::kNone;
  char separator = 0;            // Of a bag.
  bool brackets = false;         // Of a bag: its cells are lists in brackets, as "[6, 41]".
  std::string numbered;          // Of a bag: one of its values, if they end as weights do, "a:0.5".
  bool has_weights = false;      // These are weights; else they may be something else.
  std::optional<TimeUnit> unit;  // Of times that are numbers.
  bool by_range = false;         // Names, since the columns' integers are numbered through.
};

// As `analysis.columns`. What stands at `label` is no use of the label's.
std::vector<ColumnUse> UsesOf(const Analysis& analysis, size_t label);

// Whether some cells have a value and some have none, and neither are next to all: that there is
// one says something then.
bool ComesAndGoes(const ColumnStats& stats);

// Whether the table is Criteo's, in its own format or as a table with these names: its integers are
// counts, for which the bins are known.
bool HasCriteoColumns(const Analysis& analysis);

}  // namespace rubato

#endif  // RUBATO_FEATURES_COLUMN_USE_H_
