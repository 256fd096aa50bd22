#include "rubato/adapters/sql/table_writer.h"

#include <cmath>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/time/clock.h"
#include "rubato/base/status.h"

namespace rubato {
namespace {

constexpr size_t kWaitingMax = 16384;        // Rows of one transaction.
constexpr size_t kStatementBytes = 1 << 18;  // SQLite takes up to a million.

// The table of counts, in the schema of `table`.
std::string StatesOf(const std::string& table) {
  const size_t dot = table.rfind('.');
  const std::string schema = dot == std::string::npos ? "" : table.substr(0, dot + 1);
  return QuoteName(schema + "rubato_predictions");
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
      table_(QuoteName(uri_.table)),
      states_(StatesOf(uri_.table)),
      connection_(uri_, {.patience = options_.patience, .create = true}) {}

absl::StatusOr<std::unique_ptr<TableWriter>> TableWriter::Open(Options options) {
  RUBATO_ASSIGN_OR_RETURN(SqlUri uri, ParseSqlUri(options.uri));
  if (uri.table.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat(options.uri, ": rows go into a table, ?table=NAME, not into a query"));
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
  RUBATO_ASSIGN_OR_RETURN(const std::optional<State> state, ReadState());
  absl::StatusOr<SqlRows> found =
      connection_.Query(absl::StrCat("SELECT * FROM ", table_, " LIMIT 0"));
  if (absl::IsUnavailable(found.status())) return found.status();
  if (!found.ok()) return BeginAnew({});  // There is no such table.
  RUBATO_ASSIGN_OR_RETURN(const SqlRows count,
                          connection_.Query(absl::StrCat("SELECT count(*) FROM ", table_)));
  int64_t rows = 0;
  if (!absl::SimpleAtoi(count.rows[0][0].value_or(""), &rows)) rows = -1;
  const bool is_same = state.has_value() && state->work == options_.work &&
                       state->records == rows && found->columns == Columns();
  if (is_same) {
    kept_ = rows;
    return absl::OkStatus();
  }
  RUBATO_RETURN_IF_ERROR(CheckReplaceable(state, found->columns, rows));
  return BeginAnew(found->columns);
}

// A count may outlive its table, and another table of the same name may have come since: columns
// and rows, too, must be those of the prediction.
absl::Status TableWriter::CheckReplaceable(const std::optional<State>& state,
                                           const std::vector<std::string>& found,
                                           int64_t rows) const {
  const bool has_columns = AreOfAPrediction(found);
  if (state.has_value() && has_columns && state->records == rows) {
    if (rows == 0 || options_.replace) return absl::OkStatus();
    return absl::AlreadyExistsError(absl::StrCat("table ", uri_.table, " holds ", rows,
                                                 " scores of another model or of other data; "
                                                 "--force replaces them"));
  }
  if (rows != 0 && state.has_value() && has_columns) {
    return absl::AlreadyExistsError(
        absl::StrCat("table ", uri_.table, " holds ", rows, " rows, of which a prediction wrote ",
                     state->records, ": somebody has changed it; drop it, or name another"));
  }
  if (rows != 0) {
    return absl::AlreadyExistsError(absl::StrCat("table ", uri_.table, " holds ", rows,
                                                 " rows that no prediction wrote; name another"));
  }
  if (found == Columns()) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("table ", uri_.table, " has the columns ",
                                                 absl::StrJoin(found, ", "), ", not ",
                                                 absl::StrJoin(Columns(), ", "), "; name another"));
}

absl::Status TableWriter::BeginAnew(const std::vector<std::string>& found) {
  std::vector<std::string> statements;
  if (found == Columns()) {
    statements.push_back(absl::StrCat("DELETE FROM ", table_));
  } else {
    std::string columns = absl::StrCat("record ", uri_.sqlite ? "INTEGER" : "BIGINT",
                                       " PRIMARY KEY, id TEXT NOT NULL");
    for (const std::string& name : options_.numbers) {
      absl::StrAppend(&columns, ", ", QuoteName(name), " DOUBLE PRECISION");
    }
    if (!found.empty()) statements.push_back(absl::StrCat("DROP TABLE ", table_));
    statements.push_back(absl::StrCat("CREATE TABLE ", table_, " (", columns, ")"));
  }
  statements.push_back(
      absl::StrCat("DELETE FROM ", states_, " WHERE name = ", QuoteText(uri_.table)));
  statements.push_back(absl::StrCat("INSERT INTO ", states_, " VALUES (", QuoteText(uri_.table),
                                    ", ", QuoteText(options_.work), ", 0)"));
  // To do this twice does no harm.
  const absl::Time until = absl::Now() + options_.patience;
  while (true) {
    const absl::Status status = Transaction(statements);
    if (!absl::IsUnavailable(status) || absl::Now() > until) return status;
    RUBATO_RETURN_IF_ERROR(connection_.Query("SELECT 1").status());
  }
}

absl::StatusOr<std::optional<TableWriter::State>> TableWriter::ReadState() {
  RUBATO_ASSIGN_OR_RETURN(const SqlRows rows,
                          connection_.Query(absl::StrCat("SELECT work, records FROM ", states_,
                                                         " WHERE name = ", QuoteText(uri_.table))));
  if (rows.rows.empty()) return std::nullopt;
  State state = {.work = rows.rows[0][0].value_or("")};
  if (!absl::SimpleAtoi(rows.rows[0][1].value_or(""), &state.records)) return std::nullopt;
  return state;
}

absl::Status TableWriter::Append(const std::string& id,
                                 absl::Span<const std::optional<float>> numbers) {
  std::string row = absl::StrCat("(", records(), ",", QuoteText(id));
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
  const absl::Time until = absl::Now() + options_.patience;
  while (true) {
    const absl::Status status = CommitOnce();
    if (!status.ok() && !absl::IsUnavailable(status)) return status;
    if (status.ok()) break;
    if (absl::Now() > until) return status;
    // Nobody knows whether the last word was heard, but the count does.
    RUBATO_ASSIGN_OR_RETURN(const std::optional<State> state, ReadState());
    if (!state.has_value() || state->work != options_.work) return OtherWriter(uri_.table);
    if (state->records == records()) break;
    if (state->records != kept_) return OtherWriter(uri_.table);
  }
  kept_ = records();
  waiting_.clear();
  return absl::OkStatus();
}

absl::Status TableWriter::CommitOnce() {
  std::vector<std::string> statements;
  for (size_t i = 0; i < waiting_.size();) {
    std::string& insert =
        statements.emplace_back(absl::StrCat("INSERT INTO ", table_, " VALUES ", waiting_[i]));
    for (++i; i < waiting_.size() && insert.size() < kStatementBytes; ++i) {
      absl::StrAppend(&insert, ",", waiting_[i]);
    }
  }
  // First, since it locks the row: whoever else writes waits, and then finds another count.
  statements.insert(statements.begin(),
                    absl::StrCat("UPDATE ", states_, " SET records = ", records(), " WHERE name = ",
                                 QuoteText(uri_.table), " AND work = ", QuoteText(options_.work),
                                 " AND records = ", kept_, " RETURNING records"));
  return Transaction(statements);
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
