// Ids of categories: the field in the top byte, so that fields never meet in one table, and a hash
// of the value below.
#ifndef RUBATO_DATA_IDS_H_
#define RUBATO_DATA_IDS_H_

#include <cstdint>

#include "absl/strings/string_view.h"
#include "rubato/base/bytes.h"
#include "rubato/base/rng.h"

namespace rubato {

// Fields are numbered from 0, and 0 in the top byte means none.
constexpr int kIdFieldsMax = 255;

constexpr uint64_t FieldId(int field, uint64_t hash) {
  return static_cast<uint64_t>(field + 1) << 56 | hash >> 8;
}
// Of text. A missing value is the empty text, and so has an id like any other.
inline uint64_t FieldIdOfText(int field, absl::string_view text) {
  return FieldId(field, HashText(text, 0));
}
// Of an integer; a missing one is FieldIdOfText(field, "").
constexpr uint64_t FieldIdOfInteger(int field, int64_t value) {
  return FieldId(field, Mix(static_cast<uint64_t>(value)));
}

}  // namespace rubato

#endif  // RUBATO_DATA_IDS_H_
