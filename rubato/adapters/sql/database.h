// A connection to a database: text in, rows of text out.
#ifndef RUBATO_ADAPTERS_SQL_DATABASE_H_
#define RUBATO_ADAPTERS_SQL_DATABASE_H_

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace rubato {

struct SqlRows {
  std::vector<std::string> columns;
  std::vector<std::vector<std::optional<std::string>>> rows;  // Nothing: NULL.
};

// One thread uses it.
class Database {
 public:
  virtual ~Database() = default;
  // UNAVAILABLE if the database is not there, or not any more, or if another's lock kept it waiting
  // for too long (see IsLocked): connecting again may help.
  // INVALID_ARGUMENT, in the database's words, for anything else.
  virtual absl::StatusOr<SqlRows> Query(const std::string& sql) = 0;
  // The name of a table's column of row numbers: its integer primary key. NOT_FOUND if none.
  virtual absl::StatusOr<std::string> KeyOf(const std::string& table) = 0;
};

absl::StatusOr<std::unique_ptr<Database>> OpenSqlite(const std::string& path, bool create = false);
// `lock_wait`: how long a query waits for a lock, unless the address or the server says so.
absl::StatusOr<std::unique_ptr<Database>> OpenPostgres(const std::string& uri,
                                                       absl::Duration lock_wait);

// The host that an address of PostgreSQL's names, or where its socket is; "this machine" if it
// leaves that to libpq.
std::string PostgresHost(const std::string& uri);

// An UNAVAILABLE of a query that waited for another's lock, in the database's words.
absl::Status Locked(absl::string_view text);
bool IsLocked(const absl::Status& status);

// "public.clicks" as "public"."clicks".
std::string QuoteName(absl::string_view name);
// 'it''s'
std::string QuoteText(absl::string_view text);

}  // namespace rubato

#endif  // RUBATO_ADAPTERS_SQL_DATABASE_H_
