// A database that comes back: what is asked of it is asked again until it answers.
#ifndef RUBATO_ADAPTERS_SQL_CONNECTION_H_
#define RUBATO_ADAPTERS_SQL_CONNECTION_H_

#include <memory>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "rubato/adapters/sql/database.h"
#include "rubato/adapters/sql/sql_uri.h"
#include "rubato/base/mutex.h"
#include "rubato/data/data_away.h"

namespace rubato {

struct ConnectionOptions {
  // How long to knock at a database that has gone away, or that another has locked, before giving
  // up; one that was never there is given five seconds.
  absl::Duration patience = absl::Minutes(5);
  bool create = false;       // SQLite: make the file if it is missing.
  bool seen_before = false;  // By somebody: it has gone away if it is not there now.
};

// One thread uses it, but for away(). Connects when first asked.
class Connection {
 public:
  Connection(SqlUri uri, const ConnectionOptions& options)
      : uri_(std::move(uri)), options_(options), connected_before_(options.seen_before) {}

  // Only for what may be done twice: a query that was lost is asked again.
  absl::StatusOr<SqlRows> Query(const std::string& sql);
  // Asked once. UNAVAILABLE if the database went away, before or after it had done it; a
  // transaction that was open is gone then.
  absl::StatusOr<SqlRows> QueryOnce(const std::string& sql);

  // The column that numbers the rows: the one named, or the table's primary key.
  absl::StatusOr<std::string> Key();
  // What stands after FROM.
  std::string from() const;
  // That the database does not answer Query(), until it does. Any thread may ask.
  std::optional<DataAway> away() const;

 private:
  absl::Status GiveUp(const absl::Status& why) const;
  void NoteAway(const absl::Status& why);
  void NoteBack();

  const SqlUri uri_;
  const ConnectionOptions options_;
  std::unique_ptr<Database> database_;
  bool connected_before_;
  mutable Mutex mu_;
  std::optional<DataAway> away_ ABSL_GUARDED_BY(mu_);  // Without `waited`, which is
  absl::Time away_since_ ABSL_GUARDED_BY(mu_);         // since then.
};

}  // namespace rubato

#endif  // RUBATO_ADAPTERS_SQL_CONNECTION_H_
