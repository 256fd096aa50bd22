// What a job file names as data in a database:
//
//     sqlite:///data/clicks.db?table=clicks
//     postgresql://reader@db/shop?table=public.clicks&key=id
//     postgresql:///shop?host=/run/postgresql&query=SELECT id, a, b FROM clicks WHERE a > 1&key=id
//
// `key` is a column of integers, each once, by which rows are numbered; for a table its primary key
// unless named. Everything else after the '?' is for libpq. Values may be %-escaped.
#ifndef RUBATO_ADAPTERS_SQL_SQL_URI_H_
#define RUBATO_ADAPTERS_SQL_SQL_URI_H_

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace rubato {

struct SqlUri {
  bool sqlite = false;
  std::string connect;  // SQLite: the file. PostgreSQL: the URI without table, query and key.
  std::string table;    // One of table and query is set.
  std::string query;
  std::string key;  // Empty: the primary key.
};

bool IsSqlUri(absl::string_view text);
// INVALID_ARGUMENT for what is meant as a database, "sqlite:a.db", but is not written as one, and
// so would be taken for a file's name.
absl::Status CheckSlashes(absl::string_view text);
// The path of a SQLite database, if that is what it is, made absolute.
std::string AbsoluteSqlUri(const std::string& text, const std::string& folder);
// For messages, logs and exports: the address, of whatever kind, without the password it may have.
// Texts without "://" stay as they are.
std::string WithoutPassword(const std::string& text);
// INVALID_ARGUMENT says what is missing.
absl::StatusOr<SqlUri> ParseSqlUri(const std::string& text);

}  // namespace rubato

#endif  // RUBATO_ADAPTERS_SQL_SQL_URI_H_
