#include "rubato/adapters/sql/table_writer.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/time/clock.h"
#include "rubato/base/bytes.h"
#include "rubato/base/status.h"

namespace rubato {
namespace {

constexpr size_t kWaitingMax = 16384;        // Rows of one transaction.
constexpr size_t kStatementBytes = 1 << 18;  // SQLite takes up to a million.

// `name` in the schema of `table`.
std::string Beside(const std::string& table, absl::string_view name) {
  const size_t dot = table.rfind('.');
  const std::string schema = dot == std::string::npos ? "" : table.substr(0, dot + 1);
  return absl::StrCat(schema, name);
}

// Always as long: PostgreSQL cuts long names, and then it might be the table's own.
std::string StagingOf(const std::string& table) {
  return Beside(table, absl::StrFormat("rubato_new_%016x", HashText(table, /*seed=*/3)));
}

// The bytes of the character that `text` begins with; 0 if it is none that both databases take: a
// NUL, or no UTF-8, of which half of a pair and what is written longer than it need be are none.
size_t CharacterSize(absl::string_view text) {
  const auto at = [&](size_t i) -> uint32_t {
    return i < text.size() ? static_cast<unsigned char>(text[i]) : 0;
  };
  constexpr struct {
    uint32_t mask, lead, least, most;
  } kShapes[] = {{0x80, 0x00, 0x1, 0x7f},
                 {0xe0, 0xc0, 0x80, 0x7ff},
                 {0xf0, 0xe0, 0x800, 0xffff},
                 {0xf8, 0xf0, 0x10000, 0x10ffff}};
  for (size_t size = 1; size <= 4; ++size) {
    const auto& shape = kShapes[size - 1];
    if ((at(0) & shape.mask) != shape.lead) continue;
    uint32_t character = at(0) & ~shape.mask;
    for (size_t i = 1; i < size; ++i) {
      if ((at(i) & 0xc0) != 0x80) return 0;
      character = character << 6 | (at(i) & 0x3f);
    }
    const bool is_half = character >= 0xd800 && character <= 0xdfff;
    return character >= shape.least && character <= shape.most && !is_half ? size : 0;
  }
  return 0;
}

// A text that both databases take: of other bytes \xc3 and the like stand there.
std::string AsText(absl::string_view id) {
  std::string text;
  while (!id.empty()) {
    const size_t size = CharacterSize(id);
    if (size == 0) {
      absl::StrAppendFormat(&text, "\\x%02x", static_cast<unsigned char>(id[0]));
    } else {
      absl::StrAppend(&text, id.substr(0, size));
    }
    id.remove_prefix(std::max<size_t>(size, 1));
  }
  return text;
}

absl::Status OtherWriter(const std::string& table) {
  return absl::FailedPreconditionError(absl::StrCat(
      "table ", table, ": another process writes there, or has changed it; nothing was added"));
}

// Whether a table of these columns is one that a TableWriter makes, whatever its numbers are.
bool AreOfAPrediction(const std::vector<std::string>& columns) {
  if (columns.size() < 3 || columns[0] != "record" || columns[1] != "id") return false;
  if (columns.size() == 3 && columns[2] == "score") return true;
  for (size_t i = 2; i < columns.size(); ++i) {
    if (columns[i] != absl::StrCat("score_", i - 2)) return false;
  }
  return true;
}

}  // namespace

TableWriter::TableWriter(Options options, SqlUri uri)
    : options_(std::move(options)),
      uri_(std::move(uri)),
      table_{uri_.table, QuoteName(uri_.table)},
      staging_{StagingOf(uri_.table), QuoteName(StagingOf(uri_.table))},
      states_(QuoteName(Beside(uri_.table, "rubato_predictions"))),
      connection_(uri_, {.patience = options_.patience, .create = true}) {}

absl::StatusOr<std::unique_ptr<TableWriter>> TableWriter::Open(Options options) {
  RUBATO_ASSIGN_OR_RETURN(SqlUri uri, ParseSqlUri(options.uri));
  if (uri.table.empty()) {
    return absl::InvalidArgumentError(absl::StrCat(
        WithoutPassword(options.uri), ": rows go into a table, ?table=NAME, not into a query"));
  }
  auto writer = std::unique_ptr<TableWriter>(new TableWriter(std::move(options), std::move(uri)));
  RUBATO_RETURN_IF_ERROR(writer->Prepare());
  return writer;
}

std::vector<std::string> TableWriter::Columns() const {
  std::vector<std::string> columns = {"record", "id"};
  columns.insert(columns.end(), options_.numbers.begin(), options_.numbers.end());
  return columns;
}

absl::Status TableWriter::Prepare() {
  RUBATO_RETURN_IF_ERROR(
      connection_
          .Query(absl::StrCat("CREATE TABLE IF NOT EXISTS ", states_,
                              " (name TEXT PRIMARY KEY, work TEXT NOT NULL, records BIGINT NOT "
                              "NULL)"))
          .status());
  RUBATO_ASSIGN_OR_RETURN(const Found found, LookAt(table_));
  if (IsOurs(found)) {
    kept_ = found.rows;
    return absl::OkStatus();
  }
  if (found.columns.empty()) return BeginAnew(table_, {});
  RUBATO_ASSIGN_OR_RETURN(const Found staged, LookAt(staging_));
  const bool goes_on = found.rows > 0 && IsOurs(staged);
  RUBATO_RETURN_IF_ERROR(CheckReplaceable(found, options_.replace || goes_on));
  if (found.rows == 0) return BeginAnew(table_, found.columns);  // There is nothing to lose.
  replaced_ = found;
  into_ = &staging_;
  if (!goes_on) return BeginAnew(staging_, staged.columns);
  kept_ = staged.rows;
  return absl::OkStatus();
}

absl::StatusOr<TableWriter::Found> TableWriter::LookAt(const Place& place) {
  Found found;
  RUBATO_ASSIGN_OR_RETURN(found.state, ReadState(place));
  absl::StatusOr<SqlRows> none =
      connection_.Query(absl::StrCat("SELECT * FROM ", place.quoted, " LIMIT 0"));
  if (absl::IsUnavailable(none.status())) return none.status();
  if (!none.ok()) return found;
  found.columns = std::move(none->columns);
  RUBATO_ASSIGN_OR_RETURN(const SqlRows count,
                          connection_.Query(absl::StrCat("SELECT count(*) FROM ", place.quoted)));
  if (!absl::SimpleAtoi(count.rows[0][0].value_or(""), &found.rows)) found.rows = -1;
  return found;
}

bool TableWriter::IsOurs(const Found& found) const {
  return found.state.has_value() && found.state->work == options_.work &&
         found.state->records == found.rows && found.columns == Columns();
}

// A count may outlive its table, and another table of the same name may have come since: columns
// and rows, too, must be those of the prediction.
absl::Status TableWriter::CheckReplaceable(const Found& found, bool replace) const {
  const int64_t rows = found.rows;
  const bool is_counted = found.state.has_value() && AreOfAPrediction(found.columns);
  if (is_counted && found.state->records == rows) {
    if (rows == 0 || replace) return absl::OkStatus();
    return absl::AlreadyExistsError(absl::StrCat("table ", uri_.table, " holds ", rows,
                                                 " scores of another model or of other data; "
                                                 "--force replaces them"));
  }
  if (rows != 0 && is_counted) {
    return absl::AlreadyExistsError(
        absl::StrCat("table ", uri_.table, " holds ", rows, " rows, of which a prediction wrote ",
                     found.state->records, ": somebody has changed it; drop it, or name another"));
  }
  if (rows != 0) {
    return absl::AlreadyExistsError(absl::StrCat("table ", uri_.table, " holds ", rows,
                                                 " rows that no prediction wrote; name another"));
  }
  if (found.columns == Columns()) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("table ", uri_.table, " has the columns ",
                                                 absl::StrJoin(found.columns, ", "), ", not ",
                                                 absl::StrJoin(Columns(), ", "), "; name another"));
}

// What makes a table of the columns `found`, or of none, one of ours without rows.
std::vector<std::string> TableWriter::Emptied(const Place& place,
                                              const std::vector<std::string>& found) const {
  if (found == Columns()) return {absl::StrCat("DELETE FROM ", place.quoted)};
  std::string columns =
      absl::StrCat("record ", uri_.sqlite ? "INTEGER" : "BIGINT", " PRIMARY KEY, id TEXT NOT NULL");
  for (const std::string& name : options_.numbers) {
    absl::StrAppend(&columns, ", ", QuoteName(name), " DOUBLE PRECISION");
  }
  std::vector<std::string> statements;
  if (!found.empty()) statements.push_back(absl::StrCat("DROP TABLE ", place.quoted));
  statements.push_back(absl::StrCat("CREATE TABLE ", place.quoted, " (", columns, ")"));
  return statements;
}

absl::Status TableWriter::BeginAnew(const Place& place, const std::vector<std::string>& found) {
  std::vector<std::string> statements = Emptied(place, found);
  statements.push_back(
      absl::StrCat("DELETE FROM ", states_, " WHERE name = ", QuoteText(place.name)));
  statements.push_back(absl::StrCat("INSERT INTO ", states_, " VALUES (", QuoteText(place.name),
                                    ", ", QuoteText(options_.work), ", 0)"));
  return Commit(statements, /*counted=*/nullptr);
}

absl::StatusOr<std::optional<TableWriter::State>> TableWriter::ReadState(const Place& place) {
  RUBATO_ASSIGN_OR_RETURN(const SqlRows rows,
                          connection_.Query(absl::StrCat("SELECT work, records FROM ", states_,
                                                         " WHERE name = ", QuoteText(place.name))));
  if (rows.rows.empty()) return std::nullopt;
  State state = {.work = rows.rows[0][0].value_or("")};
  if (!absl::SimpleAtoi(rows.rows[0][1].value_or(""), &state.records)) return std::nullopt;
  return state;
}

absl::Status TableWriter::Append(const std::string& id,
                                 absl::Span<const std::optional<float>> numbers) {
  std::string row = absl::StrCat("(", records(), ",", QuoteText(AsText(id)));
  for (const std::optional<float>& number : numbers) {
    // SQL has no word for infinity that all databases know, nor for NaN.
    if (number.has_value() && std::isfinite(*number)) {
      absl::StrAppendFormat(&row, ",%.9g", *number);
    } else {
      row.append(",NULL");
    }
  }
  row.push_back(')');
  waiting_.push_back(std::move(row));
  return waiting_.size() < kWaitingMax ? absl::OkStatus() : Keep();
}

absl::Status TableWriter::Keep() {
  if (waiting_.empty()) return absl::OkStatus();
  // The count first, since it locks its row: whoever else writes waits, and finds another count.
  std::vector<std::string> statements = {CountTo(*into_, {options_.work, kept_})};
  for (std::string& insert : Inserts()) statements.push_back(std::move(insert));
  RUBATO_RETURN_IF_ERROR(Commit(statements, into_));
  kept_ = records();
  waiting_.clear();
  return absl::OkStatus();
}

absl::Status TableWriter::Finish() {
  RUBATO_RETURN_IF_ERROR(Keep());
  if (into_ == &table_) return absl::OkStatus();
  std::vector<std::string> statements;
  // Readers go on reading the old rows; somebody's own must not come in between.
  if (!uri_.sqlite) {
    statements.push_back(
        absl::StrCat("LOCK TABLE ", table_.quoted, " IN SHARE ROW EXCLUSIVE MODE"));
  }
  statements.push_back(CountTo(table_, *replaced_.state));
  statements.push_back(absl::StrCat("SELECT n FROM (SELECT count(*) AS n FROM ", table_.quoted,
                                    ") AS counted WHERE n = ", replaced_.rows));
  for (std::string& empty : Emptied(table_, replaced_.columns)) {
    statements.push_back(std::move(empty));
  }
  statements.push_back(
      absl::StrCat("INSERT INTO ", table_.quoted, " SELECT * FROM ", staging_.quoted));
  statements.push_back(absl::StrCat("DROP TABLE ", staging_.quoted));
  statements.push_back(absl::StrCat(
      "DELETE FROM ", states_, " WHERE name = ", QuoteText(staging_.name),
      " AND work = ", QuoteText(options_.work), " AND records = ", kept_, " RETURNING name"));
  return Commit(statements, &table_);
}

std::vector<std::string> TableWriter::Inserts() const {
  std::vector<std::string> statements;
  for (size_t i = 0; i < waiting_.size();) {
    std::string& insert = statements.emplace_back(
        absl::StrCat("INSERT INTO ", into_->quoted, " VALUES ", waiting_[i]));
    for (++i; i < waiting_.size() && insert.size() < kStatementBytes; ++i) {
      absl::StrAppend(&insert, ",", waiting_[i]);
    }
  }
  return statements;
}

// Says that all rows are there, and that they are of this work. No row comes back if the count is
// not `from` any more.
std::string TableWriter::CountTo(const Place& place, const State& from) const {
  return absl::StrCat("UPDATE ", states_, " SET work = ", QuoteText(options_.work),
                      ", records = ", records(), " WHERE name = ", QuoteText(place.name),
                      " AND work = ", QuoteText(from.work), " AND records = ", from.records,
                      " RETURNING records");
}

// One transaction, asked for again if the database goes away. Nobody knows then whether the last
// word was heard, but the count of `counted` does; where that is nullptr, to do it twice does no
// harm.
absl::Status TableWriter::Commit(const std::vector<std::string>& statements, const Place* counted) {
  const absl::Time until = absl::Now() + options_.patience;
  while (true) {
    const absl::Status status = Transaction(statements);
    if (!absl::IsUnavailable(status) || absl::Now() > until) return status;
    RUBATO_ASSIGN_OR_RETURN(const std::optional<State> count,
                            ReadState(counted == nullptr ? *into_ : *counted));
    if (counted != nullptr && count.has_value() && count->work == options_.work &&
        count->records == records()) {
      return absl::OkStatus();
    }
  }
}

absl::Status TableWriter::Transaction(const std::vector<std::string>& statements) {
  RUBATO_RETURN_IF_ERROR(connection_.QueryOnce(uri_.sqlite ? "BEGIN IMMEDIATE" : "BEGIN").status());
  absl::Status status;
  for (const std::string& statement : statements) {
    const absl::StatusOr<SqlRows> rows = connection_.QueryOnce(statement);
    status = rows.status();
    if (rows.ok() && !rows->columns.empty() && rows->rows.empty()) status = OtherWriter(uri_.table);
    if (!status.ok()) break;
  }
  if (status.ok()) return connection_.QueryOnce("COMMIT").status();
  if (!absl::IsUnavailable(status)) connection_.QueryOnce("ROLLBACK").IgnoreError();
  return status;
}

}  // namespace rubato
