// What each transform does to one value, as a plain function: the rules in one place, for the
// pipeline to run over columns and for tests to hold against known answers.
//
// A missing value never gets here: the pipeline decides what stands for it (see FeatureSpec).
#ifndef RUBATO_FEATURES_TRANSFORMS_H_
#define RUBATO_FEATURES_TRANSFORMS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "rubato/features/spellings.h"

namespace rubato {

// A cell read as a number: nothing if it is not one, or not finite; NaN for "nan", in any case of
// letters, which means a missing value everywhere.
std::optional<double> ToNumber(absl::string_view text);

// The same where a comma may stand for the point: 3,14, and with points that part thousands
// 1.234,5. A cell without a comma is read as above: whoever writes JSON writes 3.14.
std::optional<double> ToNumberWithComma(absl::string_view text);

// Whether `separator` is before every third digit of a whole number from the right, or not there
// at all.
bool PartThousands(absl::string_view whole, char separator);

// All of `texts` as numbers; empty if one of them is none.
std::vector<double> NumbersOf(absl::Span<const std::string> texts);

// Whether x stays finite in the 32 bits that models have for a number. NaN does not.
bool FitsFloat(double x);

// (x - mean) / deviation, rounded in the end to the 32 bits that the model will see: what differs
// by little beside its size keeps its digits. The largest of them, if it is larger.
float Normalize(double x, double mean, double deviation);

// log(1 + |x|) with the sign of x.
float SignedLog(double x);

// How many boundaries are at or below x: 0 .. boundaries.size(). NaN is above all of them.
int64_t Discretize(double x, absl::Span<const double> boundaries);

// log of x to `base` (0: e), rounded half to even. Outside of [0, buckets), so also for x <= 0 and
// NaN: `otherwise`.
int64_t LogRound(double x, double base, int64_t buckets, int64_t otherwise = 0);

// x rounded half to even. Outside of [0, buckets), and for NaN: `otherwise`.
int64_t RoundIdentity(double x, int64_t buckets, int64_t otherwise = 0);

// FarmHash's fingerprint modulo `buckets`, which is positive.
int64_t HashBucket(absl::string_view text, int64_t buckets);

// Several values' codes as one: the order counts.
uint64_t CrossCode(uint64_t left, uint64_t right);

// Calls visit(part) for what stands between separators, blanks around it and empty parts dropped,
// until it returns false. With `brackets`, of a cell that is a list in brackets what stands within,
// and without the quotes around a value.
template <typename Visit>
void SplitValues(absl::string_view cell, char separator, bool brackets, Visit visit);

// Whether a cell is a list as JSON and Python write it, [6, 41] or ['drama', 'war']. [a]|[b] is
// not: there each value has brackets of its own.
bool IsListInBrackets(absl::string_view cell);

// Takes "action:0.5" apart: the weight behind the last `separator` goes, the value stays. A value
// without one weighs 1; what stands there and is no finite number belongs to the value.
float TakeWeight(absl::string_view* part, char separator);

// Texts by their position in a list.
class Vocabulary {
 public:
  // INVALID_ARGUMENT names a word that stands there twice.
  static absl::StatusOr<Vocabulary> Make(const std::vector<std::string>& words);

  // The position of `word`, in whatever spelling; for a stranger, size() + a hash of it modulo
  // `oov` (at least 1).
  int64_t Find(absl::string_view word, int64_t oov) const;
  int64_t size() const { return static_cast<int64_t>(position_.size()); }

 private:
  explicit Vocabulary(const std::vector<std::string>& words) : spellings_(words) {}

  absl::flat_hash_map<std::string, int64_t> position_;
  Spellings spellings_;
};

template <typename Visit>
void SplitValues(absl::string_view cell, char separator, bool brackets, Visit visit) {
  const auto is_within = [](absl::string_view text, char quote) {
    return text.size() >= 2 && text.front() == quote && text.back() == quote;
  };
  const bool is_list = brackets && IsListInBrackets(cell);
  if (is_list) cell = cell.substr(1, cell.size() - 2);
  while (!cell.empty()) {
    const size_t end = std::min(cell.find(separator), cell.size());
    absl::string_view part = cell.substr(0, end);
    while (!part.empty() && part.front() == ' ') part.remove_prefix(1);
    while (!part.empty() && part.back() == ' ') part.remove_suffix(1);
    if (is_list && (is_within(part, '\'') || is_within(part, '"'))) {
      part = part.substr(1, part.size() - 2);
    }
    if (!part.empty() && !visit(part)) return;
    cell.remove_prefix(std::min(end + 1, cell.size()));
  }
}

}  // namespace rubato

#endif  // RUBATO_FEATURES_TRANSFORMS_H_
