#include "rubato/data/criteo_parser.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "rubato/base/status.h"
#include "rubato/data/find_byte.h"
#include "rubato/data/ids.h"
#include "rubato/data/quote.h"

namespace rubato {
namespace {

constexpr int64_t kTabled = 1024;

int64_t BinOfLarge(int64_t value) {
  const double log = std::log(static_cast<double>(value));
  return static_cast<int64_t>(log * log);
}

// Most values are small, and a look-up is ten times cheaper than a logarithm.
struct Tables {
  std::array<uint64_t, kTabled> bin_hash;
  std::array<float, kTabled> dense;

  Tables() {
    for (int64_t v = 0; v < kTabled; ++v) {
      bin_hash[v] = Mix(static_cast<uint64_t>(v <= 2 ? v : BinOfLarge(v)));
      dense[v] = static_cast<float>(std::log1p(static_cast<double>(v)));
    }
  }
};

const Tables& GetTables() {
  static const Tables& tables = *new Tables();
  return tables;
}

const char* FindTab(const char* at, const char* end) { return FindByte(at, end, '\t'); }

// False if [at, end) is not an integer of at most 18 digits.
bool ParseInteger(const char* at, const char* end, int64_t* value) {
  const bool negative = *at == '-';
  at += negative;
  if (at == end || end - at > 18) return false;
  int64_t result = 0;
  for (; at != end; ++at) {
    const unsigned digit = static_cast<unsigned char>(*at) - '0';
    if (digit > 9) return false;
    result = 10 * result + static_cast<int64_t>(digit);
  }
  *value = negative ? -result : result;
  return true;
}

absl::Status WrongValue(int column, absl::string_view text, absl::string_view what) {
  return absl::InvalidArgumentError(
      absl::StrCat("column ", column, ", ", Quote(text), ", is not ", what));
}

}  // namespace

int64_t CriteoBin(int64_t value) { return value <= 2 ? value : BinOfLarge(value); }

float CriteoDense(int64_t value) {
  const double size = std::log1p(std::abs(static_cast<double>(value)));
  return static_cast<float>(value < 0 ? -size : size);
}

CriteoParser::CriteoParser(Label label) : label_(label) {
  for (int i = 1; i <= kCriteoIntegers; ++i) shape_.dense.push_back(absl::StrCat("I", i));
  shape_.ids = shape_.dense;
  for (int i = 1; i <= kCriteoTexts; ++i) shape_.ids.push_back(absl::StrCat("C", i));
}

absl::Status CriteoParser::WrongColumns(absl::string_view record) const {
  const auto tabs = std::count(record.begin(), record.end(), '\t');
  return absl::InvalidArgumentError(absl::StrCat(
      "has ", tabs + 1, " columns, not the ", kCriteoIds + (label_ == Label::kAbsent ? 0 : 1),
      " of criteo", label_ == Label::kAbsent ? " without the label" : ""));
}

absl::StatusOr<float> CriteoParser::TakeLabel(absl::string_view* record) const {
  if (label_ == Label::kAbsent) return 0;
  const char* const at = record->data();
  const char* const tab = FindTab(at, at + record->size());
  const size_t size = static_cast<size_t>(tab - at);
  if (size == record->size()) return WrongColumns(*record);
  const bool is_label = size == 1 && (at[0] == '0' || at[0] == '1');
  if (!is_label && label_ == Label::kNeeded) {
    return WrongValue(1, record->substr(0, size), "a label, 0 or 1");
  }
  record->remove_prefix(size + 1);
  return is_label ? static_cast<float>(at[0] - '0') : 0;
}

absl::Status CriteoParser::Parse(absl::string_view record, Batch* batch) const {
  const Tables& tables = GetTables();
  absl::string_view rest = record;
  RUBATO_ASSIGN_OR_RETURN(const float label, TakeLabel(&rest));
  const char* next = rest.data();  // Where the next field begins.
  const char* const end = next + rest.size();
  const char* at = next;  // Where it ends.
  float dense[kCriteoIntegers];
  uint64_t ids[kCriteoIds];
  for (int i = 0; i < kCriteoIntegers; ++i, next = at + 1) {
    if (i > 0 && at == end) return WrongColumns(record);
    const char* const begin = next;
    at = FindTab(begin, end);
    int64_t value = 0;
    if (begin == at) {
      dense[i] = 0;
      ids[i] = FieldIdOfText(i, "");
    } else if (!ParseInteger(begin, at, &value)) {
      return WrongValue(i + (label_ == Label::kAbsent ? 1 : 2),
                        {begin, static_cast<size_t>(at - begin)}, "an integer");
    } else if (value >= 0 && value < kTabled) {
      dense[i] = tables.dense[value];
      ids[i] = FieldId(i, tables.bin_hash[value]);
    } else {
      dense[i] = CriteoDense(value);
      ids[i] = FieldIdOfInteger(i, CriteoBin(value));
    }
  }
  for (int i = kCriteoIntegers; i < kCriteoIds; ++i) {
    if (at == end) return WrongColumns(record);
    const char* const begin = at + 1;
    at = FindTab(begin, end);
    const absl::string_view text(begin, static_cast<size_t>(at - begin));
    ids[i] = FieldIdOfText(i, absl::StripAsciiWhitespace(text));
  }
  if (at != end) return WrongColumns(record);

  batch->labels.push_back(label);
  batch->dense.insert(batch->dense.end(), dense, dense + kCriteoIntegers);
  batch->ids.insert(batch->ids.end(), ids, ids + kCriteoIds);
  ++batch->rows;
  return absl::OkStatus();
}

}  // namespace rubato
