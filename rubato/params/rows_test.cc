// Which ids have rows in an embedding table, and what their columns follow.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <list>
#include <set>

#include "rubato/base/rng.h"
#include "rubato/params/embedding_table.h"

namespace rubato {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::UnorderedElementsAreArray;

// A table of one column that starts at 0.5 and falls by 1 with every push of its id.
class RowsTest : public testing::Test {
 protected:
  void Open(const RowsSpec& rows, Interval partitions = {0, kPartitions}) {
    EmbeddingTableOptions options;
    options.spec.name = "t";
    options.spec.dim = 1;
    options.spec.initializer = {"constant", 0.5};
    options.optimizer = {.name = "sgd", .learning_rate = 1};
    options.rows = rows;
    options.rows_max = 1 << 16;
    options.late_max = 10;
    options.partitions = IntervalSet();
    options.partitions.Add(partitions.begin, partitions.end);
    auto made = EmbeddingTable::Make(memory_, options);
    ASSERT_TRUE(made.ok()) << made.status();
    table_ = *std::move(made);
    step_ = 0;
  }
  // One step, as a shard takes it; no row goes while partitions move.
  void Push(const std::vector<uint64_t>& ids, bool moving = false) {
    const std::vector<float> gradients(ids.size(), 1);
    ASSERT_TRUE(table_->Update(ids, gradients.data()).ok());
    table_->BeginStep(++step_ + 1, 0, /*rate=*/1, /*evict=*/!moving);
    table_->ForgetCounted(step_, table_->options().partitions);
  }
  float Read(uint64_t id) const {
    float value = 0;
    table_->Gather({&id, 1}, &value);
    return value;
  }
  std::set<uint64_t> Rows() const {
    std::set<uint64_t> ids;
    table_->Visit(0, UINT64_MAX, [&](uint64_t id, uint32_t) { ids.insert(id); });
    EXPECT_EQ(ids.size(), table_->rows());
    return ids;
  }

  SystemMemory memory_{/*huge_pages=*/false};
  std::unique_ptr<EmbeddingTable> table_;
  uint32_t step_ = 0;
};

TEST_F(RowsTest, AnIdGetsItsRowByEnoughPushes) {
  Open({.admit_count = 3});
  Push({7, 8});
  Push({7});
  EXPECT_EQ(table_->rows(), 0u);
  EXPECT_EQ(table_->counted(), 2u);
  EXPECT_EQ(Read(7), 0.5f);  // As it would start, and reading does not count.
  EXPECT_EQ(Read(7), 0.5f);
  Push({7, 8});  // The third push of 7 makes its row and moves it.
  EXPECT_THAT(Rows(), ElementsAre(7));
  EXPECT_EQ(Read(7), -0.5f);
  EXPECT_EQ(Read(8), 0.5f);
  Push({8, 7});
  EXPECT_EQ(Read(7), -1.5f);
  EXPECT_EQ(Read(8), -0.5f);
  EXPECT_EQ(table_->counted(), 0u);
  EXPECT_EQ(table_->counters().admitted, 2);
  EXPECT_EQ(table_->counters().refused, 4);
}

// Counted ids are cheap, and thousands of them among rows are all kept apart.
TEST_F(RowsTest, ManyAreCountedBesideRows) {
  Open({.admit_count = 2});
  std::vector<uint64_t> once, twice;
  for (uint64_t id = 0; id < 8000; ++id) (id % 4 == 0 ? twice : once).push_back(id);
  Push(twice);
  Push(once);
  Push(twice);
  EXPECT_EQ(table_->rows(), twice.size());
  EXPECT_EQ(table_->counted(), once.size());
  for (const uint64_t id : twice) ASSERT_EQ(Read(id), -0.5f);
  for (const uint64_t id : once) ASSERT_EQ(Read(id), 0.5f);
  EXPECT_LT(table_->bytes(), 8000 * 22 + 2000 * 8 + 4096u);
}

// While partitions move no row goes. What should have does so afterwards, in steps that are no
// longer than others: what has just become too old or too many, and a few of those that are late.
TEST_F(RowsTest, WhatIsLateGoesBitByBit) {
  for (const RowsSpec& rules : {RowsSpec{.ttl_steps = 5}, RowsSpec{.capacity = 500},
                                RowsSpec{.ttl_steps = 8, .capacity = 500}}) {
    Open(rules);
    uint64_t next = 0;
    const auto some = [&](uint64_t count) {
      std::vector<uint64_t> ids(count);
      for (uint64_t& id : ids) id = Mix(++next);
      return ids;
    };
    for (int step = 0; step < 30; ++step) Push(some(100));
    EXPECT_EQ(table_->rows(), 500u);
    for (int step = 0; step < 30; ++step) Push(some(100), /*moving=*/true);
    EXPECT_EQ(table_->rows(), 3500u);
    int steps = 0;
    for (; table_->rows() > 500; ++steps) {
      const int64_t before = table_->counters().evicted;
      const uint64_t most = 100 + 100 + 10;  // Due now, as many as the step touches, and a few.
      Push(some(100));
      ASSERT_LE(table_->counters().evicted - before, static_cast<int64_t>(most)) << steps;
      ASSERT_LT(steps, 300);
    }
    EXPECT_GT(steps, 10);
    // The youngest are left, as if nothing had been late.
    const std::set<uint64_t> left = Rows();
    for (uint64_t i = 0; i < 500; ++i) EXPECT_TRUE(left.contains(Mix(next - i))) << i;
  }
}

// What is due in a step is so whatever is late beside it, so that servers with more rows, or fewer,
// keep the same.
TEST_F(RowsTest, WhatIsDueNowDoesNotWaitForWhatIsLate) {
  Open({.ttl_steps = 3});
  std::vector<uint64_t> many(1000);
  for (uint64_t& id : many) id = Mix(static_cast<uint64_t>(&id - many.data()));
  Push(many);
  for (int step = 0; step < 5; ++step) Push({}, /*moving=*/true);
  Push({7});
  Push({8});
  Push({});
  EXPECT_GT(table_->rows(), 900u);
  EXPECT_TRUE(table_->Find(7).row.has_value());
  Push({});
  EXPECT_FALSE(table_->Find(7).row.has_value());
  EXPECT_TRUE(table_->Find(8).row.has_value());
  EXPECT_GT(table_->rows(), 900u);
}

// Ids that come once and never again do not fill the memory, and those that come often enough get
// their rows as before.
TEST_F(RowsTest, WhoDoesNotComeAgainIsForgotten) {
  constexpr int64_t kRound = 50, kNew = 20;
  Open({.admit_count = 3, .ttl_steps = kRound});
  uint64_t most = 0, bytes = 0;
  for (uint64_t step = 0; step < 2000; ++step) {
    std::vector<uint64_t> ids;
    for (uint64_t i = 0; i < kNew; ++i) ids.push_back(Mix(step * kNew + i));
    if (step == 400 || step == 400 + kRound || step == 400 + 2 * kRound) ids.push_back(7);
    Push(ids);
    most = std::max(most, table_->counted());
    EXPECT_EQ(table_->Find(7).row.has_value(), step >= 500 && step < 550) << step;
    if (step == 1000) bytes = table_->bytes();
  }
  EXPECT_LE(most, static_cast<uint64_t>(2 * kRound * kNew) + 1);
  EXPECT_GE(most, static_cast<uint64_t>(kRound * kNew));
  EXPECT_EQ(table_->bytes(), bytes);
  EXPECT_EQ(table_->counters().forgotten + static_cast<int64_t>(table_->counted()), 2000 * kNew);
}

// The same for a table whose rows stay, where they may wait for longer.
TEST_F(RowsTest, WhereRowsStayCountsDoNot) {
  Open({.admit_count = 2});
  Push({7, 8});
  const IntervalSet all = table_->options().partitions;
  for (int64_t step = 2; step < 100'000; ++step) table_->ForgetCounted(step, all);
  EXPECT_EQ(table_->counted(), 2u);
  Push({8});
  EXPECT_EQ(Rows(), std::set<uint64_t>{8});
  for (int64_t step = 0; step < 200'000; ++step) table_->ForgetCounted(step, all);
  EXPECT_EQ(table_->counted(), 0u);
  EXPECT_EQ(Rows(), std::set<uint64_t>{8});
}

// Chance falls by id and step alone: the same pushes make the same rows, whatever came before.
TEST_F(RowsTest, ChanceIsRepeatable) {
  std::vector<uint64_t> ids;
  for (uint64_t id = 0; id < 10000; ++id) ids.push_back(Mix(id));
  Open({.admit_probability = 0.2});
  Push(ids);
  const std::set<uint64_t> first = Rows();
  EXPECT_NEAR(static_cast<double>(first.size()), 2000, 200);
  Push(ids);  // Another chance for those without a row.
  EXPECT_NEAR(static_cast<double>(table_->rows()), 3600, 250);
  Open({.admit_probability = 0.2});
  std::reverse(ids.begin(), ids.end());
  Push(ids);
  EXPECT_EQ(Rows(), first);
}

TEST_F(RowsTest, RowsNotPushedToGo) {
  Open({.ttl_steps = 3});
  Push({1, 2});
  Push({1});
  Push({1});
  EXPECT_THAT(Rows(), ElementsAre(1, 2));
  EXPECT_EQ(Read(2), -0.5f);  // Reading keeps no row.
  Push({1});
  EXPECT_THAT(Rows(), ElementsAre(1));
  EXPECT_EQ(Read(2), 0.5f);
  Push({2});
  EXPECT_EQ(Read(2), -0.5f);  // A fresh start.
  for (int i = 0; i < 3; ++i) Push({});
  EXPECT_THAT(Rows(), ElementsAre());
  EXPECT_EQ(table_->counters().evicted, 3);
}

// However its partitions are dealt out, and if that leaves a server without any room.
TEST_F(RowsTest, SharesOfACapacityAddUpToIt) {
  for (const auto& [capacity, servers] : {std::pair(1000, 3), {100, 1}, {5, 7}, {2048, 1024}}) {
    uint64_t rows = 0;
    for (int64_t s = 0; s < servers; ++s) {
      const Interval own = {s * kPartitions / servers, (s + 1) * kPartitions / servers};
      Open({.capacity = capacity}, own);
      std::vector<uint64_t> ids;
      for (uint64_t id = 1; id < 20 * kPartitions; ++id) {
        const int64_t p = PartitionOf(PointOf(id));
        if (own.begin <= p && p < own.end) ids.push_back(id);
      }
      Push(ids);
      rows += table_->rows();
    }
    EXPECT_EQ(rows, static_cast<uint64_t>(capacity)) << servers;
  }
}

// Against a plain list: after every step the table holds the ids pushed last.
TEST_F(RowsTest, TheLeastRecentlyPushedGoFirst) {
  Open({.capacity = 200}, {0, 512});  // Half of the partitions, so half of the rows.
  std::list<uint64_t> order;
  Rng rng(9);
  int64_t evicted = 0;
  for (int step = 0; step < 300; ++step) {
    std::vector<uint64_t> ids;
    for (uint64_t n = rng.Below(40); n > 0; --n) {
      const uint64_t id = IdOf(PointOf(rng.Below(400)) / 2);  // In the lower half.
      if (std::find(ids.begin(), ids.end(), id) == ids.end()) ids.push_back(id);
    }
    for (const uint64_t id : ids) {
      order.remove(id);
      order.push_back(id);
    }
    for (; order.size() > 100; ++evicted) order.pop_front();
    Push(ids);
    ASSERT_THAT(Rows(), UnorderedElementsAreArray(order)) << step;
  }
  EXPECT_EQ(table_->counters().evicted, evicted);
  EXPECT_LE(table_->row_numbers(), 140u);  // Numbers of rows that went are used again.
}

// ---- columns ----

TEST(ColumnsTest, AWideWeightAndADeepVectorShareAKey) {
  SystemMemory memory(/*huge_pages=*/false);
  const OptimizerSpec ftrl = {.name = "ftrl", .learning_rate = 0.5, .l1 = 0.1};
  const OptimizerSpec adam = {.name = "adam", .learning_rate = 0.1};
  const auto open = [&](int64_t dim, std::vector<ColumnGroup> groups) {
    TableSpec spec;
    spec.name = "fm";
    spec.dim = dim;
    spec.groups = std::move(groups);
    auto made = EmbeddingTable::Make(memory, {.spec = spec, .optimizer = adam, .rows_max = 64});
    EXPECT_TRUE(made.ok()) << made.status();
    return *std::move(made);
  };
  ColumnGroup w, v;
  w.dim = 1;
  w.initializer = {"uniform", 0.1};
  w.optimizer = ftrl;
  v.dim = 4;
  v.initializer = {"constant", 0.3};
  const auto both = open(5, {w, v});
  const auto wide = open(1, {w});
  const auto deep = open(4, {v});
  Rng rng(2);
  for (uint32_t step = 1; step < 30; ++step) {
    const std::vector<uint64_t> ids = {step % 3, 7};
    std::vector<float> g(10), wide_g, deep_g;
    for (size_t i = 0; i < g.size(); ++i) {
      g[i] = static_cast<float>(rng.Normal());
      (i % 5 == 0 ? wide_g : deep_g).push_back(g[i]);
    }
    ASSERT_TRUE(both->Update(ids, g.data()).ok());
    ASSERT_TRUE(wide->Update(ids, wide_g.data()).ok());
    ASSERT_TRUE(deep->Update(ids, deep_g.data()).ok());
    for (const auto* table : {&both, &wide, &deep}) (*table)->BeginStep(step + 1, 0);
    for (const uint64_t id : {0, 1, 2, 7, 99}) {
      std::vector<float> row(5), apart(5);
      both->Gather({&id, 1}, row.data());
      wide->Gather({&id, 1}, apart.data());
      deep->Gather({&id, 1}, apart.data() + 1);
      ASSERT_EQ(row, apart) << id;
    }
  }
}

// Groups of equal shape and rule start apart, the first as it would alone.
TEST(ColumnsTest, EachGroupHasValuesOfItsOwn) {
  SystemMemory memory(/*huge_pages=*/false);
  const auto row = [&](int groups) {
    ColumnGroup group;
    group.dim = 2;
    group.initializer = {"uniform", 0.1};
    TableSpec spec;
    spec.name = "fm";
    spec.dim = 2 * groups;
    spec.groups.assign(static_cast<size_t>(groups), group);
    const auto table = EmbeddingTable::Make(memory, {.spec = spec, .rows_max = 64});
    EXPECT_TRUE(table.ok()) << table.status();
    std::vector<float> values(static_cast<size_t>(spec.dim));
    const uint64_t id = 7;
    (*table)->Gather({&id, 1}, values.data());
    return values;
  };
  const std::vector<float> three = row(3), one = row(1);
  EXPECT_EQ(std::vector<float>(three.begin(), three.begin() + 2), one);
  EXPECT_EQ(std::set<float>(three.begin(), three.end()).size(), 6u);
}

TEST(ColumnsTest, GroupsThatDoNotFitAreRefused) {
  SystemMemory memory(/*huge_pages=*/false);
  const auto refusal = [&](std::vector<int64_t> dims, const char* start = "zeros") {
    std::vector<ColumnGroup> groups;
    for (const int64_t dim : dims) {
      groups.emplace_back().dim = dim;
      groups.back().initializer.name = start;
    }
    TableSpec spec;
    spec.name = "fm";
    spec.dim = 5;
    spec.groups = std::move(groups);
    return std::string(EmbeddingTable::Make(memory, {.spec = spec}).status().message());
  };
  EXPECT_THAT(refusal({1, 5}), HasSubstr("table fm: a group of 5 columns does not fit into 4"));
  EXPECT_THAT(refusal({1, 3}), HasSubstr("table fm: groups of 4 columns in all, but dim is 5"));
  EXPECT_THAT(refusal({2, 3}, "nought"), HasSubstr("unknown initializer 'nought'"));
}

}  // namespace
}  // namespace rubato
