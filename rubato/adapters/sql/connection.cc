#include "rubato/adapters/sql/connection.h"

#include <algorithm>
#include <cstdio>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "rubato/base/status.h"

namespace rubato {
namespace {

// How long a database may be away that nobody has seen yet.
constexpr absl::Duration kForAnAnswer = absl::Seconds(5);

// So long a query waits for a lock before it is said, and asked again.
constexpr absl::Duration kForALock = absl::Seconds(5);

constexpr absl::string_view kLocked = "another holds a lock on it";

// Without names and passwords: it is for everyone's eyes.
std::string PlaceOf(const SqlUri& uri) {
  return absl::StrCat("the database ", uri.sqlite ? "in " : "at ",
                      uri.sqlite ? uri.connect : PostgresHost(uri.connect));
}

}  // namespace

absl::Status Locked(absl::string_view text) {
  return absl::UnavailableError(absl::StrCat(kLocked, ": ", text));
}

bool IsLocked(const absl::Status& status) {
  return absl::IsUnavailable(status) && absl::StrContains(status.message(), kLocked);
}

absl::StatusOr<SqlRows> Connection::Query(const std::string& sql) {
  const absl::Time until = absl::Now() + options_.patience;
  absl::Duration pause = absl::Milliseconds(50);
  while (true) {
    absl::StatusOr<SqlRows> rows = QueryOnce(sql);
    if (!absl::IsUnavailable(rows.status())) {
      NoteBack();
      return rows;
    }
    if (connected_before_) NoteAway(rows.status());
    if (absl::Now() > until) return GiveUp(rows.status());
    if (connected_before_) {
      std::fprintf(stderr, "the database %s, asking again: %s\n",
                   IsLocked(rows.status()) ? "is locked" : "is away",
                   std::string(rows.status().message()).c_str());
    } else if (options_.patience > kForAnAnswer &&
               absl::Now() > until - options_.patience + kForAnAnswer) {
      return rows;  // It was never there: more likely a wrong name than a restart.
    }
    absl::SleepFor(pause);
    pause = std::min(2 * pause, absl::Seconds(2));
  }
}

absl::Status Connection::GiveUp(const absl::Status& why) const {
  return Annotate(why, absl::StrCat("the database was asked for ",
                                    absl::FormatDuration(options_.patience), " in vain"));
}

void Connection::NoteAway(const absl::Status& why) {
  MutexLock lock(mu_);
  if (!away_.has_value()) away_since_ = absl::Now();
  away_ = {.data = uri_.table.empty() ? "the query" : uri_.table,
           .place = PlaceOf(uri_),
           .why = std::string(why.message())};
}

void Connection::NoteBack() {
  MutexLock lock(mu_);
  away_.reset();
}

std::optional<DataAway> Connection::away() const {
  MutexLock lock(mu_);
  std::optional<DataAway> away = away_;
  if (away.has_value()) away->waited = absl::Now() - away_since_;
  return away;
}

absl::StatusOr<SqlRows> Connection::QueryOnce(const std::string& sql) {
  if (database_ == nullptr) {
    const absl::Duration lock_wait = std::min(kForALock, options_.patience);
    RUBATO_ASSIGN_OR_RETURN(database_, uri_.sqlite ? OpenSqlite(uri_.connect, options_.create)
                                                   : OpenPostgres(uri_.connect, lock_wait));
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
