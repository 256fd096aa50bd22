#include "rubato/model/named_tables.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace rubato {
namespace {

// Two tables that are looked up, and what the model remembers by itself.
ModelSignature TwoTowers() {
  ModelSignature signature;
  signature.tables = {{.name = "users", .dim = 8, .fields = {0, 1}},
                      {.name = "items", .dim = 4, .fields = {2}},
                      {.name = "norm", .dim = 2}};
  return signature;
}

JobSpec JobWith(const std::string& table, const std::string& key) {
  JobSpec job;
  job.model = "towers";
  job.tables = {.admit_count = 3};
  job.named_tables[table].given = {key};
  job.named_tables[table].rows.ttl_steps = 7;
  job.named_tables[table].optimizer.learning_rate = 0.5;
  return job;
}

TEST(NamedTablesTest, ATableGetsWhatIsSaidOfItAndTheOthersDoNot) {
  ModelSignature signature = TwoTowers();
  JobSpec job = JobWith("items", "ttl_steps");
  job.named_tables["items"].given.insert("optimizer.learning_rate");
  const OptimizerSpec moves = {.name = "adam", .beta1 = 0.8};
  ASSERT_TRUE(UseNamedTables(job, moves, &signature).ok());
  EXPECT_EQ(signature.tables[1].rows, (RowsSpec{.admit_count = 3, .ttl_steps = 7}));
  EXPECT_EQ(signature.tables[1].optimizer,
            (OptimizerSpec{.name = "adam", .learning_rate = 0.5, .beta1 = 0.8}));
  for (const size_t other : {0, 2}) {
    EXPECT_FALSE(signature.tables[other].rows.has_value());
    EXPECT_FALSE(signature.tables[other].optimizer.has_value());
  }
}

// What the user says of a table by its name comes before what the model asks for.
TEST(NamedTablesTest, TheUserComesBeforeTheModel) {
  ModelSignature signature = TwoTowers();
  signature.tables[0].rows = RowsSpec{.ttl_steps = 100, .capacity = 50};
  ASSERT_TRUE(UseNamedTables(JobWith("users", "ttl_steps"), {}, &signature).ok());
  EXPECT_EQ(signature.tables[0].rows, (RowsSpec{.ttl_steps = 7, .capacity = 50}));
  EXPECT_FALSE(signature.tables[0].optimizer.has_value());
}

TEST(NamedTablesTest, WhatThereIsIsNamed) {
  ModelSignature signature = TwoTowers();
  EXPECT_EQ(
      UseNamedTables(JobWith("user", "ttl_steps"), {}, &signature),
      absl::InvalidArgumentError(
          "tables.named.user: towers has no table of this name; it has 'users', 'items'; did you "
          "mean 'users'?"));
  EXPECT_EQ(
      UseNamedTables(JobWith("norm", "ttl_steps"), {}, &signature),
      absl::InvalidArgumentError("tables.named.norm: towers has no table of this name; it has "
                                 "'users', 'items'"));
  signature.tables[1].groups = {{.dim = 1}, {.dim = 3}};
  EXPECT_EQ(UseNamedTables(JobWith("items", "optimizer.learning_rate"), {}, &signature),
            absl::InvalidArgumentError(
                "tables.named.items.optimizer.learning_rate: the columns of this table fall into 2 "
                "groups, each with an optimizer that the model chose"));
  EXPECT_TRUE(UseNamedTables(JobWith("items", "ttl_steps"), {}, &signature).ok());
  ModelSignature none;
  EXPECT_EQ(UseNamedTables(JobWith("users", "ttl_steps"), {}, &none),
            absl::InvalidArgumentError("tables.named.users: towers has no table of this name; it "
                                       "has none of rows by id"));
}

}  // namespace
}  // namespace rubato
