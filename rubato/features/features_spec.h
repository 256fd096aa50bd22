// What features.yaml says: which columns of a row become which columns of a batch, and how.
//
//   transform       in        out          needs                       a missing value becomes
//   number          number    a number                                 `default`, else 0
//   normalize       number    a number     mean, deviation, min, max   `default`, else the mean
//   log             number    a number                                 `default`, else 0
//   discretize      number    an id        boundaries                  `default`, else its own id
//   log_round       number    an id        buckets, base, outside      `default`, else its own id
//   round_identity  number    an id        buckets, outside            `default`, else its own id
//   criteo          number    an id                                    `default`, else its own id
//   time_part       time      an id        part, unit                  its own id
//   hash            text      an id, a bag buckets (0: all 64 bits)    its own id; an empty bag
//   lookup          text      an id, a bag vocabulary, oov             its own id; an empty bag
//   merge_rare      text      an id, a bag vocabulary                  its own id; an empty bag
//   cross           any       an id        two columns or more         as of its parts
//   concatenate     ids       a bag        offsets                     is left out
//
// An empty cell is missing, and so is one that reads as a text of `missing`, the file's or the
// feature's own, or as "nan" where a number is wanted. Text that is no finite number makes the row
// a bad one (`data.bad_rows` says what then), unless the feature says `malformed: missing`. With a
// `separator`, hash, lookup and merge_rare read a cell as several values and give a bag.
#ifndef RUBATO_FEATURES_FEATURES_SPEC_H_
#define RUBATO_FEATURES_FEATURES_SPEC_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "rubato/features/number_style.h"

namespace rubato {

struct FeatureSpec {
  std::string name;  // Of the column it makes; by default its input's.
  std::string transform;
  // One column of the data; for cross columns or features, for concatenate features, above it.
  std::vector<std::string> columns;

  double mean = 0;                      // normalize
  double deviation = 1;                 // normalize; above 0
  std::optional<double> min, max;       // normalize: what is beyond counts as this
  std::vector<double> boundaries;       // discretize; growing
  double base = 0;                      // log_round; 0 is e
  int64_t buckets = 0;                  // log_round, round_identity, hash, cross
  int64_t outside = 0;                  // log_round, round_identity: the bucket of all beyond
  std::vector<std::string> vocabulary;  // lookup, merge_rare; no word twice
  int64_t oov = 1;                      // lookup: ids that strangers share
  std::vector<int64_t> offsets;         // concatenate; none: running sums of the parts' sizes
  std::optional<double> otherwise;      // `default`: stands for a missing number
  bool malformed_is_missing = false;    // `malformed: missing`
  std::vector<std::string> missing;     // Texts that are nothing, besides those of the file.
  bool decimal_comma = false;           // `decimal: comma`: 3,14 is a number
  std::string read = "number";          // What a cell is: a number, an amount ($5, 12%), a time
  std::string date = "year_first";      // Of times: what comes first, or month_first, day_first
  std::string part;                     // time_part: hour, weekday, day, month
  std::string unit;                     // time_part: what a number says of a time; none: a text
  std::string separator;                // One character between the values of a cell.
  std::string weight_separator;         // One character between such a value and its weight.
  bool brackets = false;                // Such cells may be lists in brackets: [6, 41].
  int64_t values_max = 0;               // Values of a cell that count; 0: all.
  std::string combiner = "mean";        // How a bag's vectors become one: sum, mean, sqrtn.

  // "features.yaml:7", for messages; no part of what the feature is.
  std::string where;

  // How it reads its column, if it reads numbers.
  NumberStyle style() const;
  void set_style(NumberStyle style);
  bool is_bag() const { return !separator.empty() || transform == "concatenate"; }
};
// All but `where`.
bool operator==(const FeatureSpec& a, const FeatureSpec& b);

struct FeaturesSpec {
  std::string label;                  // Column; empty: the data's own.
  std::vector<std::string> positive;  // Labels that are 1; none: a label is a number.
  // Labels that are 0, whatever is in neither list making a bad row; none: all others are 0 but for
  // missing ones.
  std::vector<std::string> negative;
  // In place of both: labels are numbers, of which those from here on are 1 and all others 0.
  std::optional<double> at_least;
  std::vector<std::string> missing;   // Texts that mean nothing is there, besides the empty one.
  std::vector<FeatureSpec> features;  // In the order of the batch's columns.
  friend bool operator==(const FeaturesSpec&, const FeaturesSpec&) = default;

  // INVALID_ARGUMENT "features.yaml:7: feature 'age': boundaries: 30 comes after 40". What depends
  // on the data's columns is for Pipeline::Create().
  absl::Status Validate() const;
};

// Transforms by name, and the keys that each may have besides name, column, columns and transform.
const std::vector<std::string>& TransformNames();
const std::vector<std::string>& TransformKeys(absl::string_view transform);
bool MakesNumber(absl::string_view transform);  // A dense column.
bool ReadsNumber(absl::string_view transform);  // Of one raw column.
bool ReadsText(absl::string_view transform);    // Of one raw column.

}  // namespace rubato

#endif  // RUBATO_FEATURES_FEATURES_SPEC_H_
