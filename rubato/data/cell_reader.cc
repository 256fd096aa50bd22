#include "rubato/data/cell_reader.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "rubato/base/status.h"
#include "rubato/data/criteo_parser.h"
#include "rubato/data/delimited_parser.h"
#include "rubato/data/find_byte.h"
#include "rubato/data/quote.h"
#include "rubato/data/record_blocks.h"

namespace rubato {
namespace {

constexpr size_t kFieldsMax = 1000;

bool IsWithin(absl::string_view part, absl::string_view whole) {
  return part.data() >= whole.data() && part.data() + part.size() <= whole.data() + whole.size();
}

void SplitPlain(absl::string_view record, char delimiter, std::vector<absl::string_view>* views) {
  const char* at = record.data();
  const char* const end = at + record.size();
  while (true) {
    const char* const stop = FindByte(at, end, delimiter);
    views->push_back(absl::StripAsciiWhitespace({at, static_cast<size_t>(stop - at)}));
    if (stop == end) return;
    at = stop + 1;
  }
}

// The next word of `text`, which moves on behind it; empty at the end.
absl::string_view NextWord(absl::string_view* text) {
  *text = absl::StripLeadingAsciiWhitespace(*text);
  const size_t end = std::min(text->find_first_of(" \t"), text->size());
  const absl::string_view word = text->substr(0, end);
  text->remove_prefix(end);
  return word;
}

// Takes the label of a row of entries, or nothing if there is none.
absl::string_view TakeLabel(absl::string_view* record) {
  absl::string_view rest = *record;
  const absl::string_view word = NextWord(&rest);
  if (word.find(':') != absl::string_view::npos) return {};
  *record = rest;
  return word;
}

// "12:1" as "12"; other values stay.
absl::string_view Entry(absl::string_view word) {
  for (const absl::string_view one : {":1", ":1.0", ":1.000000"}) {
    if (absl::ConsumeSuffix(&word, one)) break;
  }
  return word;
}

absl::Status WrongColumns(size_t found, size_t expected) {
  return absl::InvalidArgumentError(absl::StrCat("has ", found, " columns, not ", expected));
}

}  // namespace

bool HasEntries(const DataSpec& data) {
  return data.format == "libfm" || data.format == "libsvm" || data.format == "libffm";
}

std::string EntriesSchema(const DataSpec& data, absl::string_view first_record) {
  std::vector<std::string> columns = {"label"};
  absl::string_view rest = first_record;
  TakeLabel(&rest);
  for (absl::string_view word = NextWord(&rest); !word.empty(); word = NextWord(&rest)) {
    const std::string name = data.format == "libffm" ? std::string(word.substr(0, word.find(':')))
                                                     : absl::StrCat(columns.size());
    if (std::find(columns.begin(), columns.end(), name) == columns.end()) columns.push_back(name);
  }
  if (data.format == "libsvm") columns = {"label", "entries"};
  return absl::StrJoin(columns, ",");
}

void FieldsSeen::See(absl::string_view record) {
  TakeLabel(&record);
  size_t next = 1;  // Rows that have the same fields in the same order are the rule.
  for (absl::string_view word = NextWord(&record); !word.empty(); word = NextWord(&record)) {
    const size_t colon = word.find(':');
    const absl::string_view field = word.substr(0, colon);
    if (next < columns_.size() && columns_[next] == field) {
      ++next;
      continue;
    }
    const auto found = std::find(columns_.begin() + 1, columns_.end(), field);
    next = static_cast<size_t>(found - columns_.begin()) + 1;
    // Without a colon it is no entry, and makes a bad row, not a field.
    if (found != columns_.end() || colon == absl::string_view::npos) continue;
    if (columns_.size() <= kFieldsMax + 1) columns_.emplace_back(field);
  }
}

absl::StatusOr<std::string> FieldsSeen::Schema() const {
  if (columns_.size() <= kFieldsMax + 1) return absl::StrJoin(columns_, ",");
  return absl::InvalidArgumentError(absl::StrCat(
      "the rows have more than ", kFieldsMax, " different fields, as ", Quote(columns_.back()),
      ": is it libffm, field:index:value? libsvm's entries are index:value"));
}

absl::Status CheckFieldsKnown(absl::string_view trained_schema, absl::string_view schema) {
  const std::vector<std::string> known = SplitFields(trained_schema, ',');
  const std::vector<std::string> fields = SplitFields(schema, ',');
  const auto is_known = [&](const std::string& field) {
    return std::find(known.begin() + 1, known.end(), field) != known.end();
  };
  if (std::any_of(fields.begin() + 1, fields.end(), is_known)) return absl::OkStatus();
  const auto list = [](const std::vector<std::string>& names) {
    constexpr size_t kEnough = 20;
    const size_t shown = std::min(names.size(), kEnough + 1);
    return absl::StrCat(absl::StrJoin(names.begin() + 1, names.begin() + shown, ", "),
                        shown < names.size() ? ", ..." : "");
  };
  return absl::InvalidArgumentError(absl::StrCat("the data's fields are ", list(fields),
                                                 ", and none of them is one of the training data, ",
                                                 list(known)));
}

std::string CriteoSchema(absl::string_view first_record) {
  const bool lacks_label =
      std::count(first_record.begin(), first_record.end(), '\t') == kCriteoIds - 1;
  return std::string(lacks_label ? kUnlabelledCriteo : "");
}

absl::StatusOr<CellReader> CellReader::Make(const DataSpec& outer, absl::string_view outer_schema) {
  const auto [data, schema] = UnwrapSchema(outer, outer_schema);
  CellReader reader;
  if (data.format == "criteo") {
    reader.delimiter_ = '\t';
    reader.kind_ = Kind::kPlain;
    if (schema != kUnlabelledCriteo) reader.columns_.push_back("label");
    for (int i = 1; i <= kCriteoIntegers; ++i) reader.columns_.push_back(absl::StrCat("I", i));
    for (int i = 1; i <= kCriteoTexts; ++i) reader.columns_.push_back(absl::StrCat("C", i));
    return reader;
  }
  if (IsDelimited(data)) {
    reader.delimiter_ = DelimiterOf(data);
    reader.columns_ = ColumnNames(schema, reader.delimiter_);
    return reader;
  }
  if (HasEntries(data)) {
    reader.columns_ = SplitFields(schema, ',');
    reader.kind_ = data.format == "libfm"    ? Kind::kByPosition
                   : data.format == "libsvm" ? Kind::kTogether
                                             : Kind::kByField;
    return reader;
  }
  return absl::UnimplementedError(
      absl::StrCat("data.format: ", data.format, " has no columns to make features of"));
}

absl::Status CellReader::Read(absl::string_view record, Cells* cells) const {
  cells->views.clear();
  cells->made.clear();
  if (kind_ == Kind::kPlain) {
    SplitPlain(record, delimiter_, &cells->views);
  } else if (kind_ == Kind::kQuoted) {
    const bool is_closed = VisitFields(record, delimiter_, [&](absl::string_view field) {
      const bool is_within = IsWithin(field, record);
      cells->views.push_back(is_within ? field : cells->made.emplace_back(field));
      return true;
    });
    return CheckFields(record, is_closed, cells->views.size(), columns_.size());
  } else {
    RUBATO_RETURN_IF_ERROR(ReadEntries(record, cells));
  }
  if (cells->views.size() == columns_.size()) return absl::OkStatus();
  return WrongColumns(cells->views.size(), columns_.size());
}

absl::Status CellReader::ReadEntries(absl::string_view record, Cells* cells) const {
  cells->views.push_back(TakeLabel(&record));
  if (kind_ == Kind::kByField) return ReadFields(record, cells);
  std::string* together = kind_ == Kind::kTogether ? &cells->made.emplace_back() : nullptr;
  for (absl::string_view word = NextWord(&record); !word.empty(); word = NextWord(&record)) {
    if (word.find(':') == absl::string_view::npos) {
      return absl::InvalidArgumentError(absl::StrCat(Quote(word), " is no entry, index:value"));
    }
    if (together == nullptr) {
      cells->views.push_back(Entry(word));
    } else {
      absl::StrAppend(together, together->empty() ? "" : " ", Entry(word));
    }
  }
  if (together != nullptr) cells->views.push_back(*together);
  return absl::OkStatus();
}

absl::Status CellReader::ReadFields(absl::string_view entries, Cells* cells) const {
  cells->made.resize(columns_.size() - 1);
  for (absl::string_view word = NextWord(&entries); !word.empty(); word = NextWord(&entries)) {
    const size_t colon = word.find(':');
    const absl::string_view field = word.substr(0, colon);
    const auto column = std::find(columns_.begin() + 1, columns_.end(), field);
    if (colon == absl::string_view::npos) {
      return absl::InvalidArgumentError(
          absl::StrCat(Quote(word), " is no entry, field:index:value"));
    }
    if (column == columns_.end()) continue;
    std::string& cell = cells->made[static_cast<size_t>(column - columns_.begin() - 1)];
    absl::StrAppend(&cell, cell.empty() ? "" : " ", Entry(word.substr(colon + 1)));
  }
  for (const std::string& cell : cells->made) cells->views.push_back(cell);
  return absl::OkStatus();
}

}  // namespace rubato
