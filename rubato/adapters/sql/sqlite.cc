#include <sqlite3.h>

#include <charconv>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "rubato/adapters/sql/database.h"
#include "rubato/base/status.h"

namespace rubato {
namespace {

// What a cell of column `c` holds. SQLite writes numbers in fifteen digits; where those are of
// another number, as many are taken as it needs.
std::string CellOf(sqlite3_stmt* row, int c) {
  const bool is_real = sqlite3_column_type(row, c) == SQLITE_FLOAT;
  const double exact = is_real ? sqlite3_column_double(row, c) : 0;
  const auto* bytes = reinterpret_cast<const char*>(sqlite3_column_text(row, c));
  const std::string text(bytes == nullptr ? "" : bytes,
                         static_cast<size_t>(sqlite3_column_bytes(row, c)));
  double shown = 0;
  if (!is_real || (absl::SimpleAtod(text, &shown) && shown == exact)) return text;
  char digits[32];
  return std::string(digits, std::to_chars(digits, digits + sizeof(digits), exact).ptr);
}

class SqliteDatabase : public Database {
 public:
  explicit SqliteDatabase(std::string path) : path_(std::move(path)) {}
  ~SqliteDatabase() override { sqlite3_close(db_); }

  absl::Status Open(bool create) {
    // Not made unasked: a wrong name must not become an empty database.
    const int flags = SQLITE_OPEN_READWRITE | (create ? SQLITE_OPEN_CREATE : 0);
    const int result = sqlite3_open_v2(path_.c_str(), &db_, flags, nullptr);
    if (result != SQLITE_OK) return Error(result);
    sqlite3_busy_timeout(db_, /*ms=*/10000);
    return absl::OkStatus();
  }

  absl::StatusOr<SqlRows> Query(const std::string& sql) override {
    sqlite3_stmt* made = nullptr;
    if (const int result = sqlite3_prepare_v2(db_, sql.c_str(), -1, &made, nullptr);
        result != SQLITE_OK) {
      return Error(result);
    }
    const std::unique_ptr<sqlite3_stmt, int (*)(sqlite3_stmt*)> statement(made, sqlite3_finalize);
    SqlRows out;
    const int columns = sqlite3_column_count(made);
    for (int c = 0; c < columns; ++c) out.columns.emplace_back(sqlite3_column_name(made, c));
    int result = SQLITE_ROW;
    while ((result = sqlite3_step(made)) == SQLITE_ROW) {
      auto& row = out.rows.emplace_back(static_cast<size_t>(columns));
      for (int c = 0; c < columns; ++c) {
        if (sqlite3_column_type(made, c) == SQLITE_NULL) continue;
        row[static_cast<size_t>(c)] = CellOf(made, c);
      }
    }
    if (result != SQLITE_DONE) return Error(result);
    return out;
  }

  absl::StatusOr<std::string> KeyOf(const std::string& table) override {
    const std::string name = QuoteName(table);
    RUBATO_RETURN_IF_ERROR(Query(absl::StrCat("SELECT 1 FROM ", name, " LIMIT 0")).status());
    if (Query(absl::StrCat("SELECT rowid FROM ", name, " LIMIT 0")).ok()) {
      return std::string("rowid");
    }
    return absl::NotFoundError(absl::StrCat("table ", table, " has no rowid"));
  }

 private:
  absl::Status Error(int result) const {
    const std::string text = absl::StrCat(path_, ": ", db_ != nullptr ? sqlite3_errmsg(db_) : "");
    if (result == SQLITE_CANTOPEN) return absl::NotFoundError(text);
    if (result == SQLITE_BUSY || result == SQLITE_LOCKED) return Locked(text);
    if (result == SQLITE_CORRUPT || result == SQLITE_NOTADB) return absl::DataLossError(text);
    return absl::InvalidArgumentError(text);
  }

  const std::string path_;
  sqlite3* db_ = nullptr;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Database>> OpenSqlite(const std::string& path, bool create) {
  auto database = std::make_unique<SqliteDatabase>(path);
  RUBATO_RETURN_IF_ERROR(database->Open(create));
  return database;
}

}  // namespace rubato
