#include "rubato/roles/row_reader.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "absl/strings/str_cat.h"
#include "rubato/base/json_text.h"
#include "rubato/base/status.h"
#include "rubato/data/cell_reader.h"
#include "rubato/data/quote.h"
#include "rubato/data/record_blocks.h"
#include "rubato/job/suggest.h"

namespace rubato {
namespace {

using Json = nlohmann::json;

absl::Status Wrong(const std::string& what) { return absl::InvalidArgumentError(what); }

// A value as a cell would have it. A database's yes and no are read as 1 and 0 (adapters/sql).
absl::StatusOr<std::string> CellOf(const Json& value, bool of_database) {
  if (value.is_null()) return std::string();
  if (value.is_string()) return value.get<std::string>();
  if (value.is_boolean() && of_database) return std::string(value.get<bool>() ? "1" : "0");
  if (value.is_number() || value.is_boolean()) return JsonText(value);
  return Wrong("is neither text nor a number");
}

// What a row is turned into.
struct Target {
  const std::vector<std::string>& columns;
  size_t label;
  const RecordWriter& writer;
  bool of_database;
};

absl::StatusOr<std::string> RecordOf(const Json& row, const Target& target) {
  const std::vector<std::string>& columns = target.columns;
  if (!row.is_object()) return Wrong("is no object of columns and values");
  std::vector<std::string> cells(columns.size());
  cells[target.label] = std::string("0");
  for (const auto& [name, value] : row.items()) {
    const auto column = std::find(columns.begin(), columns.end(), name);
    if (column == columns.end()) {
      return Wrong(absl::StrCat("no column ", Quote(name), DidYouMean(name, columns)));
    }
    absl::StatusOr<std::string> cell = CellOf(value, target.of_database);
    if (!cell.ok()) return Annotate(cell.status(), absl::StrCat("column ", Quote(name)));
    const auto at = static_cast<size_t>(column - columns.begin());
    if (at != target.label || !cell->empty()) cells[at] = *std::move(cell);
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
  const absl::StatusOr<CellReader> cells = CellReader::Make(servable.job.data, servable.schema);
  if (!cells.ok()) return reader;  // Images: records only.
  reader.columns_ = cells->columns();
  reader.of_database_ = servable.job.data.format == "sql";
  RUBATO_ASSIGN_OR_RETURN(
      reader.writer_,
      RecordWriter::Make(UnwrapSchema(servable.job.data, servable.schema).first, reader.columns_));
  std::string label = servable.features.has_value() ? servable.features->label : "";
  if (label.empty()) label = servable.job.data.label;
  const auto found = std::find(reader.columns_.begin(), reader.columns_.end(), label);
  if (found != reader.columns_.end()) {
    reader.label_ = static_cast<size_t>(found - reader.columns_.begin());
  }
  return reader;
}

absl::StatusOr<Batch> RowReader::Read(absl::string_view json) const {
  const Json document = Json::parse(json.begin(), json.end(), nullptr, /*allow_exceptions=*/false);
  if (document.is_discarded()) return Wrong("the body is not JSON");
  if (!document.is_object()) return Wrong("the body must be {\"rows\": [...]}");
  const bool by_column = document.contains("rows");
  const char* key = by_column ? "rows" : "records";
  if (!document.contains(key) || !document[key].is_array()) {
    return Wrong("the body has neither \"rows\" nor \"records\", a list of them");
  }
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
      record = RecordOf(rows[i], {columns_, label_, *writer_, of_database_});
    } else if (rows[i].is_string()) {
      record = rows[i].get<std::string>();
    }
    if (!record.ok()) return Annotate(record.status(), place);
    RUBATO_RETURN_IF_ERROR(Annotate(block->Add(*record), place));
  }
  Batch batch;
  block->Finish(&batch);
  return batch;
}

}  // namespace rubato
