#include "rubato/adapters/sql/connection.h"

#include <algorithm>
#include <cstdio>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "rubato/base/status.h"

namespace rubato {
namespace {

// How long a database may be away that nobody has seen yet.
constexpr absl::Duration kForAnAnswer = absl::Seconds(5);

}  // namespace

absl::StatusOr<SqlRows> Connection::Query(const std::string& sql) {
  const absl::Time until = absl::Now() + options_.patience;
  absl::Duration pause = absl::Milliseconds(50);
  while (true) {
    absl::StatusOr<SqlRows> rows = QueryOnce(sql);
    if (!absl::IsUnavailable(rows.status()) || absl::Now() > until) return rows;
    if (connected_before_) {
      std::fprintf(stderr, "the database is away, asking again: %s\n",
                   std::string(rows.status().message()).c_str());
    } else if (options_.patience > kForAnAnswer &&
               absl::Now() > until - options_.patience + kForAnAnswer) {
      return rows;  // It was never there: more likely a wrong name than a restart.
    }
    absl::SleepFor(pause);
    pause = std::min(2 * pause, absl::Seconds(2));
  }
}

absl::StatusOr<SqlRows> Connection::QueryOnce(const std::string& sql) {
  if (database_ == nullptr) {
    RUBATO_ASSIGN_OR_RETURN(database_, uri_.sqlite ? OpenSqlite(uri_.connect, options_.create)
                                                   : OpenPostgres(uri_.connect));
    connected_before_ = true;
  }
  absl::StatusOr<SqlRows> rows = database_->Query(sql);
  if (absl::IsUnavailable(rows.status())) database_.reset();
  return rows;
}

absl::StatusOr<std::string> Connection::Key() {
  if (!uri_.key.empty()) return uri_.key;
  RUBATO_RETURN_IF_ERROR(Query("SELECT 1").status());
  absl::StatusOr<std::string> key = database_->KeyOf(uri_.table);
  if (!absl::IsNotFound(key.status())) return key;
  return absl::InvalidArgumentError(absl::StrCat(
      key.status().message(), "; name a column of integers, each once, with &key=COLUMN"));
}

std::string Connection::from() const {
  return uri_.table.empty() ? absl::StrCat("(", uri_.query, ") AS rubato_query")
                            : QuoteName(uri_.table);
}

}  // namespace rubato
