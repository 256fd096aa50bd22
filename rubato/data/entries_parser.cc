#include "rubato/data/entries_parser.h"

#include <cmath>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "rubato/base/status.h"
#include "rubato/data/ids.h"
#include "rubato/data/quote.h"

namespace rubato {

absl::StatusOr<std::unique_ptr<EntriesParser>> EntriesParser::Create(const DataSpec& data,
                                                                     absl::string_view schema,
                                                                     bool has_labels) {
  RUBATO_ASSIGN_OR_RETURN(CellReader reader, CellReader::Make(data, schema));
  std::unique_ptr<EntriesParser> parser(new EntriesParser(std::move(reader)));
  parser->has_labels_ = has_labels;
  const std::vector<std::string>& columns = parser->reader_.columns();
  parser->shape_.ids.assign(columns.begin() + 1, columns.end());
  if (parser->shape_.ids.empty() || parser->shape_.ids.size() > kIdFieldsMax) {
    return absl::InvalidArgumentError(absl::StrCat("data.format: a row of ", data.format, " has ",
                                                   parser->shape_.ids.size(), " fields, not 1 to ",
                                                   kIdFieldsMax));
  }
  return parser;
}

absl::Status EntriesParser::Parse(absl::string_view record, Batch* batch) const {
  Cells cells;
  RUBATO_RETURN_IF_ERROR(reader_.Read(record, &cells));
  float label = 0;
  if (has_labels_ && cells.views[0].empty()) {
    return absl::InvalidArgumentError("has no label: its first word is an entry");
  }
  if (has_labels_ && (!absl::SimpleAtof(cells.views[0], &label) || !std::isfinite(label))) {
    return absl::InvalidArgumentError(absl::StrCat(Quote(cells.views[0]), " is not a label"));
  }
  batch->labels.push_back(label > 0 ? 1 : 0);
  for (size_t i = 1; i < cells.views.size(); ++i) {
    batch->ids.push_back(FieldIdOfText(static_cast<int>(i) - 1, cells.views[i]));
  }
  ++batch->rows;
  return absl::OkStatus();
}

}  // namespace rubato
