#include "rubato/adapters/sql/sql_source.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sqlite3.h>

#include <filesystem>

#include "absl/strings/str_cat.h"
#include "rubato/adapters/sql/sql_uri.h"

namespace rubato {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

// A SQLite database of 5000 clicks whose keys have gaps.
class SqlSourceTest : public testing::Test {
 protected:
  void SetUp() override {
    path_ = testing::TempDir() + "/sql_source_test.db";
    std::filesystem::remove(path_);
    std::string sql = "CREATE TABLE clicks (id INTEGER PRIMARY KEY, town TEXT, age REAL);";
    for (int i = 0; i < 5000; ++i) {
      absl::StrAppend(&sql, "INSERT INTO clicks VALUES (", 3 * i + 7, ", 'a,\"b\"", i, "', ",
                      i % 5 == 0 ? "NULL" : absl::StrCat(i), ");");
    }
    Execute("BEGIN;" + sql + "COMMIT;", SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE);
  }
  void Execute(const std::string& sql, int flags = SQLITE_OPEN_READWRITE) {
    sqlite3* db = nullptr;
    ASSERT_EQ(sqlite3_open_v2(path_.c_str(), &db, flags, nullptr), SQLITE_OK);
    ASSERT_EQ(sqlite3_exec(db, sql.c_str(), nullptr, nullptr, nullptr), SQLITE_OK);
    sqlite3_close(db);
  }
  std::string Uri(const std::string& what) const { return absl::StrCat("sqlite://", path_, what); }

  std::string path_;
};

std::vector<std::string> ReadAll(RecordSource& source, int64_t begin, int64_t end) {
  std::vector<std::string> records;
  EXPECT_TRUE(source
                  .Read(begin, end,
                        [&](int64_t record, absl::string_view bytes) {
                          EXPECT_EQ(record, begin + static_cast<int64_t>(records.size()));
                          records.emplace_back(bytes);
                          return absl::OkStatus();
                        })
                  .ok());
  return records;
}

// Addresses are in messages, logs and exports, where no password belongs.
TEST(SqlUriTest, APasswordIsNotShown) {
  EXPECT_EQ(WithoutPassword("postgresql://me:secret@db:5432/shop?table=a&password=secret&key=id"),
            "postgresql://me@db:5432/shop?table=a&key=id");
  EXPECT_EQ(WithoutPassword("postgresql://db:5432/shop?password=secret"),
            "postgresql://db:5432/shop");
  for (const char* as_is : {"postgresql://me@db:5432/shop?table=a", "data/a:b@c?password=d.csv",
                            "sqlite:///a.db?query=SELECT a?1:2&key=id"}) {
    EXPECT_EQ(WithoutPassword(as_is), as_is);
  }
  EXPECT_EQ(WithoutPassword("mysql://me:secret@db/shop"), "mysql://me@db/shop");
  EXPECT_EQ(CheckSlashes("postgresql:/me:secret@db/shop"),
            absl::InvalidArgumentError("'postgresql:/me@db/shop': a database is written with two "
                                       "slashes, postgresql://me@db/shop (a file of that name: "
                                       "./postgresql:/me@db/shop)"));
  const auto refused = ParseSqlUri("postgresql://me:secret@db/shop");
  EXPECT_THAT(refused.status().message(), Not(HasSubstr("secret")));
  const auto gone = IndexTable("postgresql://me:secret@127.0.0.1:1/shop?table=a",
                               {.patience = absl::ZeroDuration()});
  EXPECT_THAT(gone.status().message(), AllOf(HasSubstr("me@127.0.0.1"), Not(HasSubstr("secret"))));
  // libpq's own words repeat an address that it cannot read.
  const auto torn =
      IndexTable("postgresql://me:secret@[::1]x/shop?table=a", {.patience = absl::ZeroDuration()});
  EXPECT_THAT(torn.status().message(), AllOf(HasSubstr("me@[::1]x"), Not(HasSubstr("secret"))));
}

TEST_F(SqlSourceTest, AnyRangeIsReadByKey) {
  const auto index = IndexTable(Uri("?table=clicks"));
  ASSERT_TRUE(index.ok()) << index.status();
  EXPECT_EQ(index->schema, "id,town,age");
  EXPECT_EQ(index->records(), 5000);
  const auto source = OpenTable(*RecordIndex::Decode(index->Encode()), {.page_rows = 100});
  ASSERT_TRUE(source.ok()) << source.status();
  const std::vector<std::string> all = ReadAll(**source, 0, 5000);
  ASSERT_EQ(all.size(), 5000u);
  EXPECT_EQ(all[0], "7,\"a,\"\"b\"\"0\",");
  EXPECT_EQ(all[4999], "15004,\"a,\"\"b\"\"4999\",4999.0");
  for (const int64_t begin : {0, 1, 1023, 1024, 3000, 2999, 4999}) {
    const int64_t end = std::min<int64_t>(5000, begin + 150);
    EXPECT_EQ(ReadAll(**source, begin, end),
              std::vector<std::string>(all.begin() + begin, all.begin() + end));
  }
}

TEST_F(SqlSourceTest, QueriesAreTables) {
  const auto index = IndexTable(Uri("?query=SELECT id, age FROM clicks WHERE id %25 2 = 1&key=id"));
  ASSERT_TRUE(index.ok()) << index.status();
  EXPECT_EQ(index->records(), 2500);
  const auto source = OpenTable(*index);
  EXPECT_EQ(ReadAll(**source, 1, 2), std::vector<std::string>{"13,2.0"});
}

// A row that is scored from its numbers must be the row that was trained on.
TEST_F(SqlSourceTest, NumbersKeepAllOfTheirDigits) {
  Execute(
      "UPDATE clicks SET age = 0.44071947041628473 WHERE id = 7;"
      "UPDATE clicks SET age = 0.1 WHERE id = 10; UPDATE clicks SET age = -3e300 WHERE id = 13;"
      "UPDATE clicks SET age = 9e999 WHERE id = 16");
  const auto index = IndexTable(Uri("?query=SELECT id, age FROM clicks&key=id"));
  ASSERT_TRUE(index.ok()) << index.status();
  const auto source = OpenTable(*index);
  EXPECT_THAT(ReadAll(**source, 0, 4),
              testing::ElementsAre("7,0.44071947041628473", "10,0.1", "13,-3.0e+300", "16,Inf"));
}

// New rows behind are for the next job; others that come or go are noticed.
TEST_F(SqlSourceTest, ChangesAreNoticed) {
  const auto index = IndexTable(Uri("?table=clicks"));
  const auto source = OpenTable(*index);
  Execute("INSERT INTO clicks VALUES (99999, 'late', 1)");
  EXPECT_EQ(ReadAll(**source, 0, 5000).size(), 5000u);
  Execute("DELETE FROM clicks WHERE id = 10");
  const auto ignore = [](int64_t, absl::string_view) { return absl::OkStatus(); };
  EXPECT_TRUE(absl::IsDataLoss((*source)->Read(0, 5000, ignore)));
}

// A task that failed is tried again, from a mark on: it must not succeed then. Key 7 + 3i is row i.
TEST_F(SqlSourceTest, ChangesAreNoticedByWhoeverReadsTheBlockAlone) {
  const auto index = IndexTable(Uri("?table=clicks"));
  const auto ignore = [](int64_t, absl::string_view) { return absl::OkStatus(); };
  Execute("DELETE FROM clicks WHERE id IN (10, 15004)");
  Execute("INSERT INTO clicks VALUES (6155, 'new', 1)");  // Among 2048 to 3071.
  for (const int64_t page_rows : {100, 4096}) {
    const auto source = OpenTable(*index, {.page_rows = page_rows});
    const auto is_changed = [&](int64_t begin, int64_t end) {
      const bool first = absl::IsDataLoss((*source)->Read(begin, end, ignore));
      EXPECT_EQ(absl::IsDataLoss((*source)->Read(begin, end, ignore)), first) << begin;
      return first;
    };
    EXPECT_TRUE(is_changed(0, 1024));
    EXPECT_TRUE(is_changed(1000, 1024));
    EXPECT_TRUE(is_changed(1000, 1100));
    EXPECT_FALSE(is_changed(1024, 2048));
    EXPECT_TRUE(is_changed(2048, 3072));
    EXPECT_FALSE(is_changed(3072, 4096));
    EXPECT_TRUE(is_changed(4096, 5000));
    EXPECT_TRUE(is_changed(1024, 5000));
  }
}

// Whoever waits for a database can be asked for what, and who asks learns no password.
TEST(SqlAwayTest, WhatIsWaitedForCanBeSeen) {
  const auto away_after = [](const std::string& uri) {
    RecordIndex index = {.format = "sql", .schema = "id,a"};
    index.files.push_back({.path = uri, .size = 10, .records = 10, .marks = {{.offset = 1}}});
    const auto source = OpenTable(index, {.patience = absl::ZeroDuration()});
    EXPECT_TRUE(source.ok()) << source.status();  // Nobody is asked yet.
    EXPECT_FALSE((*source)->away().has_value());
    const auto ignore = [](int64_t, absl::string_view) { return absl::OkStatus(); };
    EXPECT_TRUE(absl::IsUnavailable((*source)->Read(0, 1, ignore)));
    EXPECT_TRUE((*source)->away().has_value());
    return (*source)->away().value_or(DataAway());
  };
  const DataAway away =
      away_after("postgresql://me:secret@/x?host=/nowhere&table=public.clicks&key=id");
  EXPECT_EQ(away.data, "public.clicks");
  EXPECT_EQ(away.place, "the database at /nowhere");
  EXPECT_THAT(away.why, AllOf(HasSubstr("/nowhere"), Not(HasSubstr("secret"))));
  EXPECT_GE(away.waited, absl::ZeroDuration());
  EXPECT_EQ(away_after("postgresql://me@localhost:1/x?query=SELECT 1 AS id&key=id").place,
            "the database at localhost");
}

TEST_F(SqlSourceTest, MistakesAreNamed) {
  const auto message = [&](const std::string& uri) {
    return std::string(IndexTable(uri, {.patience = absl::ZeroDuration()}).status().message());
  };
  EXPECT_THAT(message(Uri("?table=clix")), HasSubstr("no such table: clix"));
  EXPECT_THAT(message(Uri("?table=clicks&key=age")), HasSubstr("different values of age"));
  EXPECT_THAT(message(Uri("?query=SELECT age FROM clicks&key=id")),
              HasSubstr("the query has no column 'id', which key=id names"));
  EXPECT_THAT(message(Uri("?table=clicks&key=idd")),
              HasSubstr("the table has no column 'idd', which key=idd names; did you mean 'id'?"));
  EXPECT_THAT(message(Uri("?query=SELECT 1")), HasSubstr("key=COLUMN"));
  Execute("CREATE TABLE named (name TEXT PRIMARY KEY) WITHOUT ROWID");
  EXPECT_THAT(message(Uri("?table=named")), HasSubstr("key=COLUMN"));
  EXPECT_THAT(message(Uri("")), HasSubstr("?table="));
  EXPECT_THAT(message("sqlite:///nowhere/at.db?table=t"), HasSubstr("unable to open"));
  EXPECT_THAT(message("postgresql:///x?host=/nowhere&table=t"), HasSubstr("/nowhere"));
  EXPECT_THAT(message("train.csv"), HasSubstr("format: sql"));
}

TEST(SqlUriTest, WhatIsNotOursIsForTheDatabase) {
  const auto uri = ParseSqlUri("postgresql://me@db/shop?host=/run&table=public.c&sslmode=off");
  ASSERT_TRUE(uri.ok());
  EXPECT_EQ(uri->connect, "postgresql://me@db/shop?host=/run&sslmode=off");
  EXPECT_EQ(uri->table, "public.c");
}

}  // namespace
}  // namespace rubato
