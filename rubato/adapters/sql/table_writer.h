// Rows that are written once each into a table, however often their writer is killed and however
// often the database goes away.
//
//     TABLE                 record (the key: its number), id, and numbers; NULL where there is none
//     rubato_new_HASH       the same, while rows of another work still stand in TABLE
//     rubato_predictions    for every such table whose rows they are, and how many there are
//
// Rows and their count change in one transaction, and only while the count is what this writer
// thinks it is: a commit of which nobody knows whether it came through is found out by reading the
// count, and of two writers at once one is refused. What is replaced stays until all that replaces
// it is there; Finish() puts that in its place, in one transaction too. The table itself stays, and
// with it who may read it and the views upon it, unless the columns are others.
#ifndef RUBATO_ADAPTERS_SQL_TABLE_WRITER_H_
#define RUBATO_ADAPTERS_SQL_TABLE_WRITER_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "rubato/adapters/sql/connection.h"

namespace rubato {

class TableWriter {
 public:
  struct Options {
    std::string uri;   // ...?table=NAME; made if it is not there.
    std::string work;  // Whose rows they are: only the same work goes on with what is there.
    std::vector<std::string> numbers;  // Columns behind record and id.
    bool replace = false;              // Rows that another work has written, when all is there.
    absl::Duration patience = absl::Minutes(5);
  };
  // Goes on with what an earlier writer of the same work left; one that was told to replace rows
  // need not be told again. ALREADY_EXISTS if the table holds rows of another work, unless they are
  // to be replaced, or rows that are not just those that a TableWriter wrote: these stay in any
  // case. INVALID_ARGUMENT if it is empty and has other columns.
  static absl::StatusOr<std::unique_ptr<TableWriter>> Open(Options options);

  // Rows that are there or wait.
  int64_t records() const { return kept_ + static_cast<int64_t>(waiting_.size()); }
  // The next row; waits until Keep(), or until there are many.
  absl::Status Append(const std::string& id, absl::Span<const std::optional<float>> numbers);
  // Commits all that wait. FAILED_PRECONDITION if another process writes there.
  absl::Status Keep();
  // All rows are there: those of another work go. FAILED_PRECONDITION if these are not what they
  // were at Open(); then they stay, and the new ones wait where they are.
  absl::Status Finish();

 private:
  struct Place {  // A table, and the name of its count.
    std::string name, quoted;
  };
  struct State {
    std::string work;
    int64_t records = 0;
  };
  struct Found {
    std::optional<State> state;
    std::vector<std::string> columns;  // None: there is no such table.
    int64_t rows = 0;
  };

  explicit TableWriter(Options options, SqlUri uri);
  absl::Status Prepare();
  absl::StatusOr<Found> LookAt(const Place& place);
  bool IsOurs(const Found& found) const;
  absl::Status CheckReplaceable(const Found& found, bool replace) const;
  std::vector<std::string> Emptied(const Place& place, const std::vector<std::string>& found) const;
  absl::Status BeginAnew(const Place& place, const std::vector<std::string>& found);
  absl::StatusOr<std::optional<State>> ReadState(const Place& place);
  std::vector<std::string> Inserts() const;
  std::string CountTo(const Place& place, const State& from) const;
  absl::Status Commit(const std::vector<std::string>& statements, const Place* counted);
  absl::Status Transaction(const std::vector<std::string>& statements);
  std::vector<std::string> Columns() const;

  const Options options_;
  const SqlUri uri_;
  const Place table_, staging_;
  const std::string states_;  // Quoted.
  Connection connection_;
  Found replaced_;               // With rows, if there are some to go; then staging_ is filled.
  const Place* into_ = &table_;  // Where rows go until all are there.
  int64_t kept_ = 0;
  std::vector<std::string> waiting_;  // "(5,'u5',0.25)"
};

}  // namespace rubato

#endif  // RUBATO_ADAPTERS_SQL_TABLE_WRITER_H_
