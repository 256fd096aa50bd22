#include "rubato/adapters/sql/sql_source.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "rubato/adapters/sql/connection.h"
#include "rubato/adapters/sql/sql_uri.h"
#include "rubato/base/status.h"
#include "rubato/data/delimited_parser.h"
#include "rubato/data/record_writer.h"
#include "rubato/job/suggest.h"

namespace rubato {
namespace {

absl::StatusOr<int64_t> Number(const std::optional<std::string>& cell) {
  int64_t number = 0;
  if (cell.has_value() && absl::SimpleAtoi(*cell, &number)) return number;
  return absl::InvalidArgumentError(
      absl::StrCat("key '", cell.value_or("NULL"), "' is not an integer"));
}

class TableSource : public RecordSource {
 public:
  TableSource(IndexedFile table, SqlUri uri, RecordWriter writer, const SqlOptions& options)
      : table_(std::move(table)),
        writer_(std::move(writer)),
        options_(options),
        // Whoever counted its rows has seen it.
        connection_(std::move(uri), {.patience = options.patience, .seen_before = true}) {}

  int64_t records() const override { return table_.records; }

  absl::Status Read(
      int64_t begin, int64_t end,
      absl::FunctionRef<absl::Status(int64_t record, absl::string_view bytes)> visit) override {
    RUBATO_CHECK(0 <= begin && begin <= end && end <= records());
    if (begin == end) return absl::OkStatus();
    if (key_.empty()) {
      RUBATO_ASSIGN_OR_RETURN(const std::string key, connection_.Key());
      key_ = QuoteName(key);
    }
    const int64_t mark = begin / kRecordsPerMark * kRecordsPerMark;
    // Where it stopped, if that is nearer than the mark.
    if (next_ < mark || next_ > begin) {
      next_ = mark;
      after_ = table_.marks[static_cast<size_t>(mark / kRecordsPerMark)].offset;
      inclusive_ = true;
    }
    while (next_ < end) {
      const int64_t rows = std::min(options_.page_rows, end - next_);
      const absl::Status status = ReadPage(rows, begin, visit);
      if (!status.ok()) {
        next_ = -1;  // Begin at a mark the next time.
        return status;
      }
    }
    return absl::OkStatus();
  }

  std::string Locate(int64_t record) const override {
    return absl::StrCat(WithoutPassword(table_.path), ", row ", record, " by ",
                        key_.empty() ? "its key" : key_);
  }

  std::optional<DataAway> away() const override { return connection_.away(); }

 private:
  absl::Status ReadPage(
      int64_t rows, int64_t begin,
      absl::FunctionRef<absl::Status(int64_t record, absl::string_view bytes)> visit) {
    // Up to the next mark: a block of more or fewer rows than were counted shows then, whoever
    // reads it, and shows again when it is read again.
    const size_t next_mark = static_cast<size_t>((next_ + rows - 1) / kRecordsPerMark) + 1;
    const bool is_last = next_mark == table_.marks.size();
    const bool is_to_its_end =
        next_ + rows == (is_last ? records() : static_cast<int64_t>(next_mark) * kRecordsPerMark);
    RUBATO_ASSIGN_OR_RETURN(
        const SqlRows page,
        connection_.Query(absl::StrCat(
            "SELECT ", key_, " AS rubato_key, * FROM ", connection_.from(), " WHERE ", key_,
            inclusive_ ? " >= " : " > ", after_, " AND ", key_, is_last ? " <= " : " < ",
            is_last ? table_.size : table_.marks[next_mark].offset, " ORDER BY ", key_, " LIMIT ",
            rows + (is_to_its_end ? 1 : 0))));
    if (static_cast<int64_t>(page.rows.size()) != rows) return Changed();
    std::string record;
    std::vector<absl::string_view> cells;
    for (const auto& row : page.rows) {
      RUBATO_ASSIGN_OR_RETURN(const int64_t key, Number(row[0]));
      const bool at_mark = next_ % kRecordsPerMark == 0;
      if (at_mark && table_.marks[static_cast<size_t>(next_ / kRecordsPerMark)].offset != key) {
        return Changed();
      }
      after_ = key;
      inclusive_ = false;
      if (next_++ < begin) continue;
      cells.clear();
      for (size_t c = 1; c < row.size(); ++c) {
        cells.push_back(row[c].has_value() ? absl::string_view(*row[c]) : absl::string_view());
      }
      RUBATO_RETURN_IF_ERROR(writer_.Write(cells, &record));
      RUBATO_RETURN_IF_ERROR(visit(next_ - 1, record));
    }
    return absl::OkStatus();
  }

  absl::Status Changed() const {
    return absl::DataLossError(
        absl::StrCat(WithoutPassword(table_.path),
                     ": its rows are no longer those that were counted; begin the job anew"));
  }

  const IndexedFile table_;  // `size` is the largest key.
  std::string key_;          // Empty until first read.
  const RecordWriter writer_;
  const SqlOptions options_;
  Connection connection_;
  int64_t next_ = -1;       // The record that comes next,
  int64_t after_ = 0;       // behind this key,
  bool inclusive_ = false;  // or at it.
};

// SQLite takes a name that it does not know, quoted, for a text, the same in every row.
absl::Status CheckKey(const SqlUri& uri, const std::vector<std::string>& columns) {
  const bool is_there = std::any_of(columns.begin(), columns.end(), [&](const std::string& column) {
    return uri.sqlite ? absl::EqualsIgnoreCase(column, uri.key) : column == uri.key;
  });
  const bool is_rowid =
      uri.sqlite && !uri.table.empty() && absl::EqualsIgnoreCase(uri.key, "rowid");
  if (uri.key.empty() || is_there || is_rowid) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(uri.table.empty() ? "the query" : "the table", " has no column '", uri.key,
                   "', which key=", uri.key, " names", DidYouMean(uri.key, columns)));
}

}  // namespace

absl::StatusOr<RecordIndex> IndexTable(const std::string& text, const SqlOptions& options) {
  RUBATO_ASSIGN_OR_RETURN(const SqlUri uri, ParseSqlUri(text));
  const std::string shown = WithoutPassword(text);
  Connection connection(uri, {.patience = options.patience});
  absl::StatusOr<std::string> key = connection.Key();
  if (!key.ok()) return Annotate(key.status(), shown);
  const std::string quoted = QuoteName(*key);
  const auto query = [&](const std::string& sql) -> absl::StatusOr<SqlRows> {
    absl::StatusOr<SqlRows> rows = connection.Query(sql);
    return rows.ok() ? std::move(rows) : Annotate(rows.status(), shown);
  };
  RUBATO_ASSIGN_OR_RETURN(const SqlRows shape,
                          query(absl::StrCat("SELECT * FROM ", connection.from(), " LIMIT 0")));
  RUBATO_RETURN_IF_ERROR(Annotate(CheckKey(uri, shape.columns), shown));
  RUBATO_ASSIGN_OR_RETURN(const SqlRows totals,
                          query(absl::StrCat("SELECT count(*), count(DISTINCT ", quoted, "), max(",
                                             quoted, ") FROM ", connection.from())));
  IndexedFile table = {.path = text};
  RUBATO_ASSIGN_OR_RETURN(table.records, Number(totals.rows[0][0]));
  if (table.records == 0) return absl::InvalidArgumentError(absl::StrCat(shown, ": has no rows"));
  if (totals.rows[0][0] != totals.rows[0][1]) {
    return absl::InvalidArgumentError(
        absl::StrCat(shown, ": ", table.records, " rows have ", totals.rows[0][1].value_or("0"),
                     " different values of ", *key, "; a key has another one in every row"));
  }
  absl::StatusOr<int64_t> largest = Number(totals.rows[0][2]);
  if (!largest.ok()) return Annotate(largest.status(), shown);
  table.size = *largest;
  RUBATO_ASSIGN_OR_RETURN(
      const SqlRows marks,
      query(absl::StrCat("SELECT k FROM (SELECT ", quoted, " AS k, row_number() OVER (ORDER BY ",
                         quoted, ") AS n FROM ", connection.from(),
                         ") AS numbered WHERE (n - 1) % ", kRecordsPerMark, " = 0 ORDER BY k")));
  for (const auto& row : marks.rows) {
    RUBATO_ASSIGN_OR_RETURN(const int64_t offset, Number(row[0]));
    table.marks.push_back({.offset = offset});
  }
  RUBATO_ASSIGN_OR_RETURN(const RecordWriter writer,
                          RecordWriter::Make({.format = "csv"}, shape.columns));
  return RecordIndex{.format = "sql", .schema = writer.Header(), .files = {std::move(table)}};
}

absl::StatusOr<std::unique_ptr<RecordSource>> OpenTable(const RecordIndex& index,
                                                        const SqlOptions& options) {
  if (index.files.size() != 1) return absl::DataLossError("an index of a table without one");
  const IndexedFile& table = index.files[0];
  RUBATO_ASSIGN_OR_RETURN(const SqlUri uri, ParseSqlUri(table.path));
  RUBATO_ASSIGN_OR_RETURN(RecordWriter writer,
                          RecordWriter::Make({.format = "csv"}, SplitFields(index.schema, ',')));
  return std::make_unique<TableSource>(table, uri, std::move(writer), options);
}

}  // namespace rubato
