#include "rubato/data/formats.h"

#include <algorithm>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "rubato/base/status.h"
#include "rubato/data/cell_reader.h"
#include "rubato/data/criteo_parser.h"
#include "rubato/data/delimited_parser.h"
#include "rubato/data/entries_parser.h"
#include "rubato/data/idx.h"
#include "rubato/data/record_blocks.h"

namespace rubato {
namespace {

std::vector<std::string> NamesIn(const DataSpec& data, absl::string_view schema) {
  return ColumnNames(schema, IsDelimited(data) ? DelimiterOf(data) : ',');
}

absl::Status OtherWidth(size_t now, size_t before, absl::string_view rule) {
  return absl::InvalidArgumentError(
      absl::StrCat("the data has ", now, " columns, and the training data had ", before, rule));
}

absl::Status CheckNames(absl::string_view what, const std::vector<std::string>& has,
                        const std::vector<std::string>& needs) {
  if (has == needs) return absl::OkStatus();
  const auto list = [](const std::vector<std::string>& names) {
    constexpr size_t kEnough = 20;
    const size_t shown = std::min(names.size(), kEnough);
    return names.empty()
               ? std::string("none")
               : absl::StrCat("'", absl::StrJoin(names.begin(), names.begin() + shown, "', '"), "'",
                              shown < names.size() ? ", ..." : "");
  };
  return absl::InvalidArgumentError(absl::StrCat("the data's columns of ", what, " are ", list(has),
                                                 ", and the model was trained with ", list(needs)));
}

}  // namespace

std::string FormatName(const DataSpec& data) {
  return absl::StrCat(data.format, HasHeader(data) ? " with header" : "");
}

RecordRule RuleOf(const DataSpec& data) {
  return data.format == "csv"   ? RecordRule::kQuoted
         : data.format == "tsv" ? RecordRule::kQuotedTabs
         : data.format == "ssv" ? RecordRule::kQuotedSemicolons
         : data.format == "psv" ? RecordRule::kQuotedBars
                                : RecordRule::kLines;
}

bool HasHeader(const DataSpec& data) {
  return IsDelimited(data) && data.format != "sql" && data.header;
}

std::string SchemaOf(const DataSpec& data, absl::string_view first_record) {
  if (HasEntries(data)) return EntriesSchema(data, first_record);
  if (data.format == "criteo") return CriteoSchema(first_record);
  if (!IsDelimited(data)) return "";
  if (data.header) return std::string(first_record);
  std::string names;
  const size_t columns = SplitFields(first_record, DelimiterOf(data)).size();
  for (size_t i = 1; i <= columns; ++i) {
    if (i > 1) names.push_back(DelimiterOf(data));
    absl::StrAppend(&names, i);
  }
  return names;
}

bool AreByPlace(const std::vector<std::string>& columns) {
  for (size_t i = 0; i < columns.size(); ++i) {
    if (columns[i] != absl::StrCat(i + 1)) return false;
  }
  return true;
}

absl::StatusOr<std::unique_ptr<RecordParser>> MakeParser(const DataSpec& outer,
                                                         absl::string_view outer_schema,
                                                         bool has_labels) {
  const auto [data, schema] = UnwrapSchema(outer, outer_schema);
  if (data.format == "criteo") {
    using Label = CriteoParser::Label;
    return std::make_unique<CriteoParser>(has_labels                    ? Label::kNeeded
                                          : schema == kUnlabelledCriteo ? Label::kAbsent
                                                                        : Label::kIgnored);
  }
  if (data.format == "idx") {
    std::vector<int64_t> shape;
    for (const absl::string_view part : absl::StrSplit(schema, 'x')) {
      if (!absl::SimpleAtoi(part, &shape.emplace_back()) || shape.back() <= 0) {
        return absl::InvalidArgumentError(absl::StrCat("'", schema, "' is no shape of an image"));
      }
    }
    return std::make_unique<IdxParser>(std::move(shape));
  }
  if (HasEntries(data)) return EntriesParser::Create(data, schema, has_labels);
  if (IsDelimited(data)) {
    return DelimitedParser::Create(data, NamesIn(data, schema), {.has_labels = has_labels});
  }
  return absl::InvalidArgumentError(
      absl::StrCat("data.format: '", data.format,
                   "' is not one of criteo, csv, tsv, ssv, psv, libfm, "
                   "libsvm, libffm, idx, recordio, sql"));
}

absl::StatusOr<NamedData> NameAsTrained(const KnownData& trained, const KnownData& known,
                                        const std::string& label, bool has_labels) {
  const auto [before, before_schema] = UnwrapSchema(trained.data, trained.schema);
  const auto [now, schema] = UnwrapSchema(known.data, known.schema);
  NamedData named = {now, std::string(schema)};
  // Fields are named in every record; which of them the first one has does not matter.
  if (before.format == "libffm" && now.format == "libffm") {
    RUBATO_RETURN_IF_ERROR(CheckFieldsKnown(before_schema, schema));
    named.schema = std::string(before_schema);
  }
  const size_t width = NamesIn(now, schema).size();
  std::vector<std::string> names = NamesIn(before, before_schema);
  if (before.format == "libfm" && now.format == "libfm" && width != names.size()) {
    return OtherWidth(width, names.size(), ", counted with the label; in libfm they go by place");
  }
  if (!IsDelimited(before) || !IsDelimited(now)) return named;
  // The label that training found by its place has a name as well.
  if (named.data.label.empty()) named.data.label = names[0];
  if (HasHeader(known.data)) return named;
  if (!AreByPlace(names) || !AreByPlace(NamesIn(now, schema)) || width == names.size()) {
    return named;
  }
  const auto at = label.empty() ? names.begin() : std::find(names.begin(), names.end(), label);
  if (has_labels || width + 1 != names.size() || at == names.end()) {
    return OtherWidth(width, names.size(),
                      has_labels && width + 1 == names.size()
                          ? "; is it the label that is missing?"
                          : "; without a header they go by place");
  }
  names.erase(at);
  named.schema = absl::StrJoin(names, std::string(1, DelimiterOf(now)));
  return named;
}

absl::StatusOr<std::unique_ptr<RecordParser>> MakeParserLike(const KnownData& trained,
                                                             const KnownData& known,
                                                             bool has_labels) {
  const auto [before, before_schema] = UnwrapSchema(trained.data, trained.schema);
  RUBATO_ASSIGN_OR_RETURN(NamedData named, NameAsTrained(trained, known, before.label, has_labels));
  const DataSpec& now = named.data;
  RUBATO_ASSIGN_OR_RETURN(const auto model, MakeParser(before, before_schema));
  const BatchShape& needs = model->shape();
  std::unique_ptr<RecordParser> parser;
  if (IsDelimited(before) && IsDelimited(now)) {
    RUBATO_ASSIGN_OR_RETURN(parser,
                            DelimitedParser::Create(now, NamesIn(now, named.schema),
                                                    {.order = &needs, .has_labels = has_labels}));
  } else {
    RUBATO_ASSIGN_OR_RETURN(parser, MakeParser(now, named.schema, has_labels));
  }
  RUBATO_RETURN_IF_ERROR(CheckNames("numbers", parser->shape().dense, needs.dense));
  RUBATO_RETURN_IF_ERROR(CheckNames("categories", parser->shape().ids, needs.ids));
  return parser;
}

}  // namespace rubato
