#include <libpq-fe.h>

#include <algorithm>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "rubato/adapters/sql/array_text.h"
#include "rubato/adapters/sql/database.h"
#include "rubato/adapters/sql/sql_uri.h"
#include "rubato/base/status.h"

namespace rubato {
namespace {

constexpr Oid kBoolean = 16;

class PostgresDatabase : public Database {
 public:
  explicit PostgresDatabase(PGconn* connection) : connection_(connection) {}
  ~PostgresDatabase() override { PQfinish(connection_); }

  absl::Status Check() const {
    return PQstatus(connection_) == CONNECTION_OK ? absl::OkStatus() : Lost();
  }

  // Learns which types are arrays: everyone may make some, as of an enum. Nothing from what speaks
  // as PostgreSQL does and is none.
  void AskForArrays() {
    const absl::StatusOr<SqlRows> types =
        Query("SELECT oid, typelem FROM pg_type WHERE typinput = 'array_in'::regproc");
    if (!types.ok()) return;
    for (const auto& row : types->rows) {
      Oid array = 0, element = 0;
      if (absl::SimpleAtoi(row[0].value_or(""), &array) &&
          absl::SimpleAtoi(row[1].value_or(""), &element)) {
        arrays_[array] = element;
      }
    }
  }

  absl::StatusOr<SqlRows> Query(const std::string& sql) override {
    const std::unique_ptr<PGresult, void (*)(PGresult*)> result(PQexec(connection_, sql.c_str()),
                                                                PQclear);
    const ExecStatusType status = PQresultStatus(result.get());
    if (status != PGRES_TUPLES_OK && status != PGRES_COMMAND_OK) return ErrorOf(result.get());
    SqlRows out;
    const int columns = PQnfields(result.get()), rows = PQntuples(result.get());
    for (int c = 0; c < columns; ++c) out.columns.emplace_back(PQfname(result.get(), c));
    for (int r = 0; r < rows; ++r) {
      auto& row = out.rows.emplace_back(static_cast<size_t>(columns));
      for (int c = 0; c < columns; ++c) {
        if (PQgetisnull(result.get(), r, c)) continue;
        std::string& cell = row[static_cast<size_t>(c)].emplace(
            PQgetvalue(result.get(), r, c), static_cast<size_t>(PQgetlength(result.get(), r, c)));
        const Oid type = PQftype(result.get(), c);
        if (type == kBoolean) cell.assign(1, cell == "t" ? '1' : '0');
        const auto array = arrays_.find(type);
        if (array != arrays_.end()) cell = ArrayAsJson(cell, array->second == kBoolean);
      }
    }
    return out;
  }

  absl::StatusOr<std::string> KeyOf(const std::string& table) override {
    RUBATO_ASSIGN_OR_RETURN(
        const SqlRows keys,
        Query(absl::StrCat("SELECT a.attname FROM pg_index i JOIN pg_attribute a ON a.attrelid = "
                           "i.indrelid AND a.attnum = i.indkey[0] WHERE i.indisprimary AND "
                           "i.indnatts = 1 AND a.atttypid IN (20, 21, 23) AND i.indrelid = ",
                           QuoteText(QuoteName(table)), "::regclass")));
    if (!keys.rows.empty()) return keys.rows[0][0].value_or("");
    return absl::NotFoundError(absl::StrCat("table ", table, " has no primary key of integers"));
  }

 private:
  absl::Status Lost() const {
    // libpq says a line for every address that it has tried.
    return absl::UnavailableError(absl::StrReplaceAll(
        absl::StripAsciiWhitespace(PQerrorMessage(connection_)), {{"\n\t", "; "}, {"\n", "; "}}));
  }

  // 57P01 to 57P03: it is shutting down, has crashed, or starts; 08: the connection is gone. An
  // error without a code is libpq's own, about the connection, whatever its status says.
  absl::Status ErrorOf(const PGresult* result) const {
    const char* code = PQresultErrorField(result, PG_DIAG_SQLSTATE);
    const absl::string_view state = code == nullptr ? "" : code;
    if (state == "55P03") return Locked(absl::StripAsciiWhitespace(PQerrorMessage(connection_)));
    if (PQstatus(connection_) != CONNECTION_OK || state.empty() ||
        absl::StartsWith(state, "57P0") || absl::StartsWith(state, "08")) {
      return Lost();
    }
    // Without the line of SQL that it points into, which is ours and not the user's.
    const char* hint = PQresultErrorField(result, PG_DIAG_MESSAGE_HINT);
    return absl::InvalidArgumentError(
        absl::StrCat(PQresultErrorField(result, PG_DIAG_MESSAGE_PRIMARY),
                     hint == nullptr ? "" : "; ", hint == nullptr ? "" : hint));
  }

  PGconn* const connection_;
  absl::flat_hash_map<Oid, Oid> arrays_;  // With the types of their elements.
};

}  // namespace

absl::StatusOr<std::unique_ptr<Database>> OpenPostgres(const std::string& uri,
                                                       absl::Duration lock_wait) {
  // Seconds for each address of a host that does not answer; nor is a host waited for without end
  // that is gone in the middle of a query. What the address says goes first.
  const char* const keys[] = {"connect_timeout",
                              "keepalives_idle",
                              "keepalives_interval",
                              "keepalives_count",
                              "tcp_user_timeout",
                              "dbname",
                              nullptr};
  const char* const values[] = {"3", "30", "10", "3", "60000", uri.c_str(), nullptr};
  auto database =
      std::make_unique<PostgresDatabase>(PQconnectdbParams(keys, values, /*expand_dbname=*/1));
  if (const absl::Status status = database->Check(); !status.ok()) {
    // libpq repeats an address that it cannot read.
    return absl::Status(status.code(),
                        absl::StrReplaceAll(status.message(), {{uri, WithoutPassword(uri)}}));
  }
  database->AskForArrays();
  // A page is one range of keys in their order, and the key's index has it so. Of a table that was
  // never analyzed the planner thinks otherwise, and sorts all rows for every page.
  RUBATO_RETURN_IF_ERROR(database->Query("SET enable_bitmapscan = off").status());
  // Behind another's lock a query would wait without a word. 0 is no limit, of nobody's choice.
  RUBATO_RETURN_IF_ERROR(
      database
          ->Query(absl::StrCat("SELECT set_config('lock_timeout', '",
                               std::max<int64_t>(1, absl::ToInt64Milliseconds(lock_wait)),
                               "ms', false) WHERE current_setting('lock_timeout') = '0'"))
          .status());
  return database;
}

std::string PostgresHost(const std::string& uri) {
  const std::unique_ptr<PQconninfoOption, void (*)(PQconninfoOption*)> parts(
      PQconninfoParse(uri.c_str(), /*errmsg=*/nullptr), PQconninfoFree);
  for (const PQconninfoOption* part = parts.get(); part != nullptr && part->keyword != nullptr;
       ++part) {
    const bool is_set = part->val != nullptr && *part->val != '\0';
    if (is_set && absl::string_view(part->keyword) == "host") return part->val;
  }
  return "this machine";
}

std::string QuoteName(absl::string_view name) {
  std::string quoted;
  for (const absl::string_view part : absl::StrSplit(name, '.')) {
    absl::StrAppend(&quoted, quoted.empty() ? "" : ".", "\"",
                    absl::StrReplaceAll(part, {{"\"", "\"\""}}), "\"");
  }
  return quoted;
}

std::string QuoteText(absl::string_view text) {
  return absl::StrCat("'", absl::StrReplaceAll(text, {{"'", "''"}}), "'");
}

}  // namespace rubato
