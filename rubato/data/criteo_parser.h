// Criteo's click logs: label, 13 integers and 26 texts, separated by tabs. Anything but the label
// may be missing.
//
// The integers come twice, as the dense columns I1..I13 and as the first 13 id columns, in bins;
// C1..C26 follow as ids. A model takes what it likes.
#ifndef RUBATO_DATA_CRITEO_PARSER_H_
#define RUBATO_DATA_CRITEO_PARSER_H_

#include <cstdint>

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
  CriteoParser();
  const BatchShape& shape() const override { return shape_; }
  absl::Status Parse(absl::string_view record, Batch* batch) const override;

 private:
  BatchShape shape_;
};

}  // namespace rubato

#endif  // RUBATO_DATA_CRITEO_PARSER_H_
