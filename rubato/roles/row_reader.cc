#include "rubato/roles/row_reader.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "rubato/base/json_text.h"
#include "rubato/base/status.h"
#include "rubato/data/delimited_parser.h"
#include "rubato/data/formats.h"
#include "rubato/data/quote.h"
#include "rubato/data/record_blocks.h"
#include "rubato/features/spellings.h"
#include "rubato/job/suggest.h"

namespace rubato {
namespace {

using Json = nlohmann::json;

absl::Status Wrong(const std::string& what) { return absl::InvalidArgumentError(what); }

// What the parser says of a body that it cannot read, with the place. It knows none for a number
// that is too large.
absl::StatusOr<Json> Parse(absl::string_view text) {
  try {
    return Json::parse(text.begin(), text.end());
  } catch (const Json::parse_error& error) {
    constexpr size_t kBefore = 20, kShown = 30;
    const size_t at = std::min(error.byte > 0 ? error.byte - 1 : 0, text.size());
    const size_t begin = at < kBefore ? 0 : at - kBefore;
    const absl::string_view word = text.substr(at < 3 ? 0 : at - 3, 12);
    const bool is_nan =
        absl::StrContains(word, "NaN") || absl::StrContains(word, "Inf") || word == "nan";
    return Wrong(absl::StrCat("the body is not JSON: at byte ", at, ", near ",
                              Quote(text.substr(begin, kShown)),
                              is_nan ? "; it has no NaN and no Infinity: null is missing" : ""));
  } catch (const Json::exception&) {
    return Wrong("the body is not JSON: a number is too large for 64 bits");
  }
}

// A value as a cell would have it.
absl::StatusOr<std::string> CellOf(const Json& value, const ColumnWords& words) {
  if (value.is_null()) return std::string();
  if (value.is_string()) return value.get<std::string>();
  if (value.is_number()) return JsonText(value);
  if (!value.is_boolean()) return Wrong("is neither text nor a number");
  const bool is_true = value.get<bool>();
  if (words.refusal.empty()) return is_true ? words.yes : words.no;
  return Wrong(absl::StrCat(is_true ? "true" : "false", words.refusal));
}

// A list as a cell would have it: what is null or empty in it is left out there as well.
absl::StatusOr<std::string> ListOf(const Json& list, const ColumnWords& words) {
  if (words.separator.empty()) {
    return Wrong("is a list, and no feature with a separator reads this column; send one value");
  }
  std::string cell;
  for (size_t i = 0; i < list.size(); ++i) {
    absl::StatusOr<std::string> value = CellOf(list[i], words);
    if (!value.ok()) return Annotate(value.status(), absl::StrCat("value ", i));
    if (absl::StrContains(absl::StripAsciiWhitespace(*value), words.separator)) {
      return Wrong(absl::StrCat("value ", i, ", ", Quote(*value), ", holds ",
                                Quote(words.separator), ", which stands between values"));
    }
    absl::StrAppend(&cell, cell.empty() ? "" : words.separator, *value);
  }
  return cell;
}

constexpr absl::string_view kNoSpelling =
    " is spelt in no way that the model's vocabulary knows; send the text that the data has";

// What the features make of `column`.
ColumnWords BooleansOf(const FeaturesSpec& features, const std::string& column, bool of_database) {
  ColumnWords booleans;
  for (const FeatureSpec& f : features.features) {
    if (std::find(f.columns.begin(), f.columns.end(), column) == f.columns.end()) continue;
    if (ReadsNumber(f.transform)) {
      if (!of_database) booleans.refusal = " stands where a number is wanted; send 1 or 0";
      break;
    }
    const std::optional<std::string> yes = SpellBoolean(f.vocabulary, true),
                                     no = SpellBoolean(f.vocabulary, false);
    if (yes.has_value() && no.has_value()) return {*yes, *no, "", ""};
    if (!of_database) booleans.refusal = std::string(kNoSpelling);
  }
  // A database's yes and no are read as 1 and 0 (adapters/sql).
  if (of_database) return {"1", "0", "", ""};
  return booleans;
}

// The separator that all bags of `column` have; empty if there is none, or if they differ.
std::string SeparatorOf(const FeaturesSpec& features, const std::string& column) {
  std::string separator;
  for (const FeatureSpec& f : features.features) {
    if (f.separator.empty() || f.columns[0] != column) continue;
    if (!separator.empty() && separator != f.separator) return "";
    separator = f.separator;
  }
  return separator;
}

// What a row is turned into.
struct Target {
  const std::vector<std::string>& columns;
  size_t label;
  const RecordWriter& writer;
  const std::vector<ColumnWords>& words;
  bool is_libfm;
};

absl::StatusOr<std::string> RecordOf(const Json& row, const Target& target) {
  const std::vector<std::string>& columns = target.columns;
  if (!row.is_object()) return Wrong("is no object of columns and values");
  std::vector<std::string> cells(columns.size());
  cells[target.label] = std::string("0");
  for (const auto& [name, value] : row.items()) {
    const auto column = std::find(columns.begin(), columns.end(), absl::StripAsciiWhitespace(name));
    if (column == columns.end()) {
      return Wrong(absl::StrCat("no column ", Quote(name), DidYouMean(name, columns)));
    }
    const auto at = static_cast<size_t>(column - columns.begin());
    absl::StatusOr<std::string> cell =
        value.is_array() ? ListOf(value, target.words[at]) : CellOf(value, target.words[at]);
    if (!cell.ok()) return Annotate(cell.status(), absl::StrCat("column ", Quote(name)));
    if (at != target.label || !cell->empty()) cells[at] = *std::move(cell);
  }
  if (target.is_libfm) {
    // Where columns go by place, one that is left out keeps its place, and has no index.
    std::replace(cells.begin(), cells.end(), std::string(), std::string(":1"));
  }
  std::string record;
  const std::vector<absl::string_view> views(cells.begin(), cells.end());
  RUBATO_RETURN_IF_ERROR(target.writer.Write(views, &record));
  return record;
}

}  // namespace

absl::StatusOr<RowReader> RowReader::Make(const Servable& servable) {
  RowReader reader;
  RUBATO_ASSIGN_OR_RETURN(reader.owned_,
                          servable.MakeParser(servable.schema, /*has_labels=*/false));
  reader.model_parser_ = servable.trainer->parser();
  if (reader.owned_ == nullptr) return reader;
  RUBATO_RETURN_IF_ERROR(reader.NameColumns(servable));
  return reader;
}

absl::Status RowReader::NameColumns(const Servable& servable) {
  const absl::StatusOr<CellReader> cells = CellReader::Make(servable.job.data, servable.schema);
  if (!cells.ok()) return absl::OkStatus();  // Images: records only.
  columns_ = cells->columns();
  const DataSpec data = UnwrapSchema(servable.job.data, servable.schema).first;
  RUBATO_ASSIGN_OR_RETURN(writer_, RecordWriter::Make(data, columns_));
  is_libfm_ = data.format == "libfm";
  std::string label = servable.features.has_value() ? servable.features->label : "";
  if (label.empty()) label = servable.job.data.label;
  const auto found = std::find(columns_.begin(), columns_.end(), label);
  if (found != columns_.end()) label_ = static_cast<size_t>(found - columns_.begin());
  const bool of_database = servable.job.data.format == "sql";
  for (const std::string& column : columns_) {
    if (servable.features.has_value()) {
      words_.push_back(BooleansOf(*servable.features, column, of_database));
      words_.back().separator = SeparatorOf(*servable.features, column);
    } else if (of_database) {
      words_.push_back({"1", "0", "", ""});
    } else {
      words_.push_back({.refusal = std::string(kNoSpelling)});
    }
  }
  words_[label_] = {};
  const bool by_place = data.format == "criteo" || (IsDelimited(data) && AreByPlace(columns_) &&
                                                    !HasHeader(servable.job.data));
  if (!by_place || columns_.size() < 2) return absl::OkStatus();
  std::vector<std::string> others = columns_;
  others.erase(others.begin() + static_cast<std::ptrdiff_t>(label_));
  const std::string schema = data.format == "criteo"
                                 ? std::string(kUnlabelledCriteo)
                                 : absl::StrJoin(others, std::string(1, DelimiterOf(data)));
  RUBATO_ASSIGN_OR_RETURN(unlabelled_, CellReader::Make(data, schema));
  return absl::OkStatus();
}

absl::StatusOr<std::string> RowReader::Labelled(std::string record) const {
  Cells cells;
  if (!unlabelled_.has_value() || !unlabelled_->Read(record, &cells).ok()) return record;
  cells.views.insert(cells.views.begin() + static_cast<std::ptrdiff_t>(label_), "0");
  std::string labelled;
  RUBATO_RETURN_IF_ERROR(writer_->Write(cells.views, &labelled));
  return labelled;
}

absl::StatusOr<Batch> RowReader::Read(absl::string_view json) const {
  RUBATO_ASSIGN_OR_RETURN(const Json document, Parse(json));
  if (!document.is_object()) return Wrong("the body must be {\"rows\": [...]}");
  const bool by_column = document.contains("rows");
  if (by_column && document.contains("records")) {
    return Wrong("the body has both \"rows\" and \"records\"; send one of them");
  }
  const char* key = by_column ? "rows" : "records";
  if (!document.contains(key)) {
    return Wrong("the body has neither \"rows\" nor \"records\", a list of them");
  }
  if (!document[key].is_array()) return Wrong(absl::StrCat("\"", key, "\" is no list"));
  if (by_column && !writer_.has_value()) {
    return Wrong("this model reads no columns; send \"records\", as its data files have them");
  }
  const Json& rows = document[key];
  if (rows.size() > kRowsMax) {
    return Wrong(absl::StrCat(rows.size(), " rows in one request, more than ", kRowsMax));
  }
  const auto block = parser().NewBlock();
  for (size_t i = 0; i < rows.size(); ++i) {
    const std::string place = absl::StrCat(key, "[", i, "]");
    absl::StatusOr<std::string> record = Wrong("is no text");
    if (by_column) {
      record = RecordOf(rows[i], {columns_, label_, *writer_, words_, is_libfm_});
    } else if (rows[i].is_string()) {
      record = Labelled(rows[i].get<std::string>());
    }
    if (!record.ok()) return Annotate(record.status(), place);
    RUBATO_RETURN_IF_ERROR(Annotate(block->Add(*record), place));
  }
  Batch batch;
  block->Finish(&batch);
  return batch;
}

}  // namespace rubato
