#include "rubato/cli/params_report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace rubato {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

ServerInspection Server(int64_t id, int64_t rows, double seconds, int64_t pulls) {
  ServerInspection server;
  server.server = id;
  server.tables = {{.name = "deep",
                    .dim = 8,
                    .optimizer = "adagrad",
                    .rows = rows,
                    .bytes = rows * 80,
                    .admitted = rows + 5,
                    .refused = 7,
                    .evicted = 5}};
  server.partitions = 512;
  server.pulls = pulls;
  server.rows_pulled = pulls * 1000;
  server.seconds = seconds;
  server.stale_pushes = 4;
  server.staleness_sum = 6;
  server.hottest = {{0, 7, pulls * (10 + id)}};
  return server;
}

TEST(ParamsReportTest, AddsUpTablesAndGivesRatesBetweenTwoLooks) {
  const ParamsReport report = {.job = "ctr",
                               .servers = {Server(0, 100, 12, 60), Server(1, 50, 12, 10)},
                               .before = {Server(0, 90, 10, 20), Server(1, 0, 30, 900)}};
  const auto json = ParamsJson(report, 5);
  EXPECT_TRUE(json["live"]);
  EXPECT_EQ(json["tables"].size(), 1u);
  EXPECT_EQ(json["tables"][0]["rows"], 150);
  EXPECT_EQ(json["tables"][0]["bytes_per_row"], 80.0);
  EXPECT_EQ(json["tables"][0]["rows_refused"], 14);
  EXPECT_EQ(json["servers"][0]["pulls_s"], 20.0);
  EXPECT_EQ(json["servers"][0]["rows_pulled_s"], 20000.0);
  EXPECT_EQ(json["servers"][0]["staleness_mean"], 1.5);
  EXPECT_EQ(json["servers"][1]["pulls_s"], 0.0);  // Started again in between.
  EXPECT_EQ(json["hottest"][0]["id"], 7);
  EXPECT_EQ(json["hottest"][0]["pulled"], 60 * 10 + 10 * 11);
  EXPECT_EQ(ParamsJson(report, 0)["hottest"].size(), 0u);
  EXPECT_THAT(ParamsTable(report, 5),
              AllOf(HasSubstr("ctr: running"), HasSubstr("pulls/s"), HasSubstr("adagrad")));
}

TEST(ParamsReportTest, NamesWhoDidNotAnswer) {
  ParamsReport report = {.job = "ctr", .servers = {Server(0, 100, 12, 60)}};
  report.silent = {{1, "unix:/s1: no answer"}};
  EXPECT_TRUE(report.partial());
  EXPECT_TRUE(ParamsJson(report, 0)["partial"]);
  EXPECT_EQ(ParamsJson(report, 0)["silent"][0]["server"], 1);
  EXPECT_EQ(ParamsJson(report, 0)["silent"][0]["why"], "unix:/s1: no answer");
  EXPECT_THAT(ParamsTable(report, 0), AllOf(HasSubstr("server 1: unix:/s1: no answer\n"),
                                            HasSubstr("partial: all sums are without")));
  // One that is being started, and has nothing yet.
  report.servers.push_back(Server(2, 0, 12, 0));
  EXPECT_FALSE(report.partial());
  EXPECT_FALSE(ParamsJson(report, 0)["partial"]);
  EXPECT_THAT(ParamsTable(report, 0), AllOf(HasSubstr("server 1: "), Not(HasSubstr("partial:"))));
}

// Since a server came back from a checkpoint of an earlier build, or one left, it is not known how
// many there were.
TEST(ParamsReportTest, WhatIsNotKnownIsNotZero) {
  ParamsReport report = {.job = "ctr", .servers = {Server(0, 100, 12, 60), Server(1, 50, 12, 10)}};
  EXPECT_EQ(ParamsJson(report, 0)["tables"][0]["rows_admitted"], 160);
  const auto expect_unknown = [&] {
    for (const char* key : {"rows_admitted", "rows_refused", "rows_evicted"}) {
      EXPECT_TRUE(ParamsJson(report, 0)["tables"][0][key].is_null()) << key;
    }
    EXPECT_THAT(ParamsTable(report, 0), Not(HasSubstr("160")));
  };
  report.left = true;
  expect_unknown();
  report.left = false;
  report.servers[1].uncounted = 1;
  expect_unknown();
}

// By the keys of the job file, and only what is not as usual.
TEST(ParamsReportTest, NamesTheRulesOfEveryTable) {
  ParamsReport report = {.job = "ctr", .servers = {Server(0, 100, 12, 60)}};
  TableInspection& first = report.servers[0].tables[0];
  EXPECT_TRUE(ParamsJson(report, 0)["tables"][0]["ttl_steps"].is_null());  // An earlier build.
  first.learning_rate = 0.05, first.admit_count = 2, first.admit_probability = 1;
  first.ttl_steps = 0, first.capacity = 5000;
  TableInspection other = first;
  other.name = "items", other.admit_count = 1, other.capacity = 0;
  report.servers[0].tables.push_back(other);
  const auto json = ParamsJson(report, 0);
  EXPECT_EQ(json["tables"][0]["admit_count"], 2);
  EXPECT_EQ(json["tables"][0]["learning_rate"], 0.05);
  EXPECT_EQ(json["tables"][1]["capacity"], 0);
  EXPECT_THAT(ParamsTable(report, 0), AllOf(HasSubstr("  0.05  admit_count 2, capacity 5000\n"),
                                            HasSubstr("  0.05                             -\n")));
}

TEST(ParamsReportTest, ACheckpointHasNoRates) {
  const ParamsReport report = {
      .job = "ctr", .servers = {Server(0, 100, 0, 0)}, .before = {}, .checkpoint = 4};
  EXPECT_EQ(ParamsJson(report, 5)["checkpoint"], 4);
  EXPECT_FALSE(ParamsJson(report, 5)["live"]);
  EXPECT_THAT(ParamsTable(report, 5),
              AllOf(HasSubstr("ctr: checkpoint 4"), Not(HasSubstr("pulls/s"))));
}

}  // namespace
}  // namespace rubato
