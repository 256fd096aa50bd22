#include "rubato/data/delimited_parser.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "rubato/base/status.h"
#include "rubato/data/find_byte.h"
#include "rubato/data/ids.h"
#include "rubato/data/quote.h"
#include "rubato/data/record_splitter.h"
#include "rubato/job/suggest.h"

namespace rubato {
namespace {

size_t Find(absl::string_view text, char wanted, size_t from) {
  return static_cast<size_t>(FindByte(text.data() + from, text.data() + text.size(), wanted) -
                             text.data());
}

// Where the quote is that opens the field at the start of `text`, behind blanks at most.
size_t FindOpening(absl::string_view text, char delimiter) {
  size_t i = 0;
  // Nearly every field begins with a byte beyond all that matter here.
  while (i < text.size() && static_cast<unsigned char>(text[i]) <= '"') {
    if (text[i] == '"') return i;
    if (!IsBlank(text[i++], delimiter)) break;
  }
  return absl::string_view::npos;
}

// The quoted field at the start of `text`, its doubled quotes made single, and whatever stands
// between the closing quote and the delimiter. Returns the bytes it took.
size_t Unquote(absl::string_view text, char delimiter, std::string* field, bool* is_closed) {
  field->clear();
  size_t i = 1;
  while (true) {
    const size_t quote = Find(text, '"', i);
    field->append(text.data() + i, quote - i);
    i = quote;
    if (i + 1 >= text.size() || text[i + 1] != '"') break;
    field->push_back('"');
    i += 2;
  }
  if (i >= text.size()) *is_closed = false;
  const size_t after = std::min(i + 1, text.size());
  const size_t end = Find(text, delimiter, after);
  // "nike" shoes has a blank within.
  const absl::string_view rest =
      absl::StripTrailingAsciiWhitespace(text.substr(after, end - after));
  field->append(rest.data(), rest.size());
  return end;
}

// A name as the header has it, or INVALID_ARGUMENT with the nearest.
absl::StatusOr<size_t> FindColumn(absl::string_view key, const std::string& name,
                                  const std::vector<std::string>& columns) {
  // A name's blanks are dropped in headers, so that they mean nothing here either.
  auto found = std::find(columns.begin(), columns.end(), name);
  if (found == columns.end()) {
    found = std::find(columns.begin(), columns.end(), absl::StripAsciiWhitespace(name));
  }
  if (found == columns.end()) {
    return absl::InvalidArgumentError(
        absl::StrCat(key, ": the data has no column '", name, "'", DidYouMean(name, columns)));
  }
  if (std::find(found + 1, columns.end(), *found) != columns.end()) {
    return absl::InvalidArgumentError(
        absl::StrCat(key, ": the data has more than one column '", name, "'"));
  }
  return static_cast<size_t>(found - columns.begin());
}

}  // namespace

bool IsDelimited(const DataSpec& data) {
  return data.format == "csv" || data.format == "tsv" || data.format == "ssv" ||
         data.format == "psv" || data.format == "sql";
}

char DelimiterOf(const DataSpec& data) {
  return data.format == "tsv"   ? '\t'
         : data.format == "ssv" ? ';'
         : data.format == "psv" ? '|'
                                : ',';
}

bool VisitFields(absl::string_view record, char delimiter,
                 absl::FunctionRef<bool(absl::string_view field)> visit) {
  std::string unquoted;
  bool is_closed = true;
  while (true) {
    size_t end;
    if (const size_t quote = FindOpening(record, delimiter); quote != absl::string_view::npos) {
      record.remove_prefix(quote);
      end = Unquote(record, delimiter, &unquoted, &is_closed);
      if (!visit(absl::StripAsciiWhitespace(unquoted))) return is_closed;
    } else {
      end = Find(record, delimiter, 0);
      if (!visit(absl::StripAsciiWhitespace(record.substr(0, end)))) return is_closed;
    }
    if (end == record.size()) return is_closed;
    record.remove_prefix(end + 1);
  }
}

absl::Status CheckFields(absl::string_view record, bool is_closed, size_t fields, size_t expected) {
  if (!is_closed) {
    return absl::InvalidArgumentError(
        "a quote that opens is never closed at the end of a cell; a cell that begins with a quote "
        "ends with one, quotes "
        "within it being doubled: \"12\"\" disk\"");
  }
  if (fields == expected) return absl::OkStatus();
  const bool has_quotes = record.find('"') != absl::string_view::npos;
  return absl::InvalidArgumentError(absl::StrCat(
      "has ", fields, " columns, not ", expected,
      has_quotes ? "; a cell that begins with a quote goes on to the next that is not doubled"
                 : ""));
}

std::vector<std::string> SplitFields(absl::string_view record, char delimiter) {
  std::vector<std::string> fields;
  VisitFields(record, delimiter, [&](absl::string_view field) {
    fields.emplace_back(field);
    return true;
  });
  return fields;
}

std::vector<std::string> ColumnNames(absl::string_view header, char delimiter) {
  std::vector<std::string> names = SplitFields(header, delimiter);
  if (names.size() > 1 && names[0].empty()) names[0] = std::string(kUnnamedColumn);
  return names;
}

absl::StatusOr<std::unique_ptr<DelimitedParser>> DelimitedParser::Create(
    const DataSpec& data, const std::vector<std::string>& columns, const Options& options) {
  std::vector<Column> plan;
  for (const std::string& name : columns) plan.push_back({.name = name});
  if (plan.empty()) return absl::InvalidArgumentError("the data has no columns");

  const auto assign = [&](absl::string_view key, const std::string& name,
                          Role role) -> absl::Status {
    RUBATO_ASSIGN_OR_RETURN(const size_t column, FindColumn(key, name, columns));
    if (plan[column].role != Role::kIgnored) {
      return absl::InvalidArgumentError(absl::StrCat(key, ": column '", name, "' is used twice"));
    }
    plan[column].role = role;
    return absl::OkStatus();
  };
  if (data.label.empty()) {
    plan[0].role = Role::kLabel;
  } else {
    const absl::Status status = assign("data.label", data.label, Role::kLabel);
    if (options.has_labels) RUBATO_RETURN_IF_ERROR(status);
  }
  for (const std::string& name : data.numeric) {
    RUBATO_RETURN_IF_ERROR(assign("data.numeric", name, Role::kNumeric));
  }
  for (const std::string& name : data.categorical) {
    RUBATO_RETURN_IF_ERROR(assign("data.categorical", name, Role::kCategorical));
  }
  if (data.numeric.empty() && data.categorical.empty()) {
    for (Column& column : plan) {
      if (column.role == Role::kIgnored && column.name != kUnnamedColumn) {
        column.role = Role::kCategorical;
      }
    }
  }
  if (!options.has_labels) {
    for (Column& column : plan) {
      if (column.role == Role::kLabel) column.role = Role::kIgnored;
    }
  }
  std::unique_ptr<DelimitedParser> parser(new DelimitedParser(DelimiterOf(data), std::move(plan)));
  if (parser->shape_.ids.size() > kIdFieldsMax) {
    return absl::InvalidArgumentError(absl::StrCat("data.categorical: ", parser->shape_.ids.size(),
                                                   " columns, more than ", kIdFieldsMax));
  }
  if (options.order != nullptr) parser->Reorder(*options.order);
  return parser;
}

DelimitedParser::DelimitedParser(char delimiter, std::vector<Column> columns)
    : delimiter_(delimiter), columns_(std::move(columns)) {
  for (Column& column : columns_) {
    if (column.role != Role::kNumeric && column.role != Role::kCategorical) continue;
    std::vector<std::string>& names = column.role == Role::kNumeric ? shape_.dense : shape_.ids;
    column.slot = static_cast<int>(names.size());
    names.push_back(column.name);
  }
}

void DelimitedParser::Reorder(const BatchShape& order) {
  const auto is_same = [](const std::vector<std::string>& a, const std::vector<std::string>& b) {
    return std::is_permutation(a.begin(), a.end(), b.begin(), b.end());
  };
  if (!is_same(shape_.dense, order.dense) || !is_same(shape_.ids, order.ids)) return;
  for (Column& column : columns_) {
    if (column.role != Role::kNumeric && column.role != Role::kCategorical) continue;
    const auto& names = column.role == Role::kNumeric ? order.dense : order.ids;
    column.slot =
        static_cast<int>(std::find(names.begin(), names.end(), column.name) - names.begin());
  }
  shape_.dense = order.dense;
  shape_.ids = order.ids;
}

absl::Status DelimitedParser::Place(const Column& column, absl::string_view field, float* label,
                                    float* dense, uint64_t* ids) const {
  if (column.role == Role::kIgnored) return absl::OkStatus();
  if (column.role == Role::kCategorical) {
    ids[column.slot] = FieldIdOfText(column.slot, field);
    return absl::OkStatus();
  }
  float value = 0;
  const bool is_missing = field.empty() && column.role == Role::kNumeric;
  if (!is_missing && (!absl::SimpleAtof(field, &value) || !std::isfinite(value))) {
    return absl::InvalidArgumentError(absl::StrCat("column ", Quote(column.name), ", ",
                                                   Quote(field), ", is not a finite number"));
  }
  (column.role == Role::kLabel ? *label : dense[column.slot]) = value;
  return absl::OkStatus();
}

absl::Status DelimitedParser::Parse(absl::string_view record, Batch* batch) const {
  const size_t labels = batch->labels.size(), dense = batch->dense.size(), ids = batch->ids.size();
  batch->labels.resize(labels + 1);
  batch->dense.resize(dense + shape_.dense.size());
  batch->ids.resize(ids + shape_.ids.size());
  size_t count = 0;
  absl::Status status;
  const bool is_closed = VisitFields(record, delimiter_, [&](absl::string_view field) {
    if (count < columns_.size()) {
      status = Place(columns_[count], field, &batch->labels[labels], batch->dense.data() + dense,
                     batch->ids.data() + ids);
    }
    ++count;
    return status.ok();
  });
  if (status.ok()) status = CheckFields(record, is_closed, count, columns_.size());
  if (!status.ok()) {
    batch->labels.resize(labels);
    batch->dense.resize(dense);
    batch->ids.resize(ids);
    return status;
  }
  ++batch->rows;
  return absl::OkStatus();
}

}  // namespace rubato
