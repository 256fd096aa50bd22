// Criteo's click logs: label, 13 integers and 26 texts, separated by tabs. Anything but the label
// may be missing. Its test files have no column of labels at all.
//
// The integers come twice, as the dense columns I1..I13 and as the first 13 id columns, in bins;
// C1..C26 follow as ids. A model takes what it likes.
#ifndef RUBATO_DATA_CRITEO_PARSER_H_
#define RUBATO_DATA_CRITEO_PARSER_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "rubato/data/source.h"

namespace rubato {

constexpr int kCriteoIntegers = 13;
constexpr int kCriteoTexts = 26;
constexpr int kCriteoIds = kCriteoIntegers + kCriteoTexts;

// The bin of an integer, as the winners of Criteo's contest made them: v up to 2, floor(ln(v)^2)
// above.
int64_t CriteoBin(int64_t value);
// log(1 + v), mirrored for negative v.
float CriteoDense(int64_t value);

class CriteoParser : public RecordParser {
 public:
  enum class Label { kNeeded, kIgnored, kAbsent };  // Ignored: 40 columns, the first is anything.
  explicit CriteoParser(Label label = Label::kNeeded);
  const BatchShape& shape() const override { return shape_; }
  absl::Status Parse(absl::string_view record, Batch* batch) const override;

 private:
  // The label goes; what is left begins with the first integer.
  absl::StatusOr<float> TakeLabel(absl::string_view* record) const;
  absl::Status WrongColumns(absl::string_view record) const;

  Label label_;
  BatchShape shape_;
};

}  // namespace rubato

#endif  // RUBATO_DATA_CRITEO_PARSER_H_
