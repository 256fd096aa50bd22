#include "rubato/params/embedding_table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <unordered_map>

#include "rubato/base/rng.h"
#include "rubato/params/row_index.h"

namespace rubato {
namespace {

using ::testing::HasSubstr;

constexpr uint64_t kRowsMax = uint64_t{1} << 22;

EmbeddingTableOptions Options(int64_t dim, std::string optimizer = "adagrad",
                              InitializerSpec initializer = {}) {
  EmbeddingTableOptions options;
  options.spec = {.name = "deep", .dim = dim, .initializer = std::move(initializer), .fields = {}};
  options.optimizer.name = std::move(optimizer);
  options.seed = 7;
  options.rows_max = kRowsMax;
  return options;
}

std::unique_ptr<EmbeddingTable> MakeTable(const EmbeddingTableOptions& options) {
  static SystemMemory memory;
  auto table = EmbeddingTable::Make(memory, options);
  EXPECT_TRUE(table.ok()) << table.status();
  return *std::move(table);
}

std::vector<float> Read(const EmbeddingTable& table, uint64_t id) {
  std::vector<float> row(table.dim());
  table.Gather({&id, 1}, row.data());
  return row;
}

// ---- RowIndex ----

struct Shape {
  double share;       // Of the line that keys come from.
  uint64_t universe;  // Distinct keys.
};
class RowIndexTest : public testing::TestWithParam<Shape> {};

// Random insertions, erasures and look-ups agree with a plain map at every step of its growth.
TEST_P(RowIndexTest, AgreesWithAPlainMap) {
  SystemMemory memory;
  auto made = RowIndex::Make(memory, kRowsMax, GetParam().share);
  ASSERT_TRUE(made.ok());
  RowIndex& index = *made;
  std::unordered_map<uint64_t, uint32_t> plain;
  Rng rng(3);
  const auto key_of = [&](uint64_t n) {
    return static_cast<uint64_t>(static_cast<double>(Mix(n)) * GetParam().share);
  };
  for (int step = 0; step < 200000; ++step) {
    const uint64_t key = key_of(rng.Below(GetParam().universe));
    const auto it = plain.find(key);
    ASSERT_EQ(index.Find(key), it == plain.end() ? RowIndex::kAbsent : it->second) << step;
    if (it == plain.end()) {
      index.Insert(key, static_cast<uint32_t>(step));
      plain.emplace(key, step);
    } else if (rng.Chance(0.4)) {
      ASSERT_EQ(index.Erase(key), it->second);
      plain.erase(it);
    }
    if (step % 9973 == 0) {
      ASSERT_TRUE(index.Sound()) << step;
    }
  }
  ASSERT_TRUE(index.Sound());
  ASSERT_EQ(index.size(), plain.size());
}

// Extremes of the line, and a visit by ranges that meets every key once whatever the growth.
TEST_P(RowIndexTest, RangesCoverEveryKeyOnceWhileItGrows) {
  SystemMemory memory;
  auto made = RowIndex::Make(memory, kRowsMax, GetParam().share);
  ASSERT_TRUE(made.ok());
  RowIndex& index = *made;
  std::set<uint64_t> keys = {0, 1, UINT64_MAX, UINT64_MAX - 1};
  for (uint64_t key : keys) index.Insert(key, 1);
  for (uint64_t n = 0; n < 3000; ++n) {
    keys.insert(Mix(n));
    index.Insert(Mix(n), 2);
    if (n % 97 != 0) continue;
    std::vector<uint64_t> seen;
    for (uint64_t range = 0; range < 16; ++range) {
      index.Visit(range << 60, (range << 60) + (UINT64_MAX >> 4),
                  [&](uint64_t key, uint32_t) { seen.push_back(key); });
    }
    std::sort(seen.begin(), seen.end());
    ASSERT_TRUE(std::equal(seen.begin(), seen.end(), keys.begin(), keys.end())) << n;
  }
}

INSTANTIATE_TEST_SUITE_P(Shapes, RowIndexTest,
                         testing::Values(Shape{1, 50}, Shape{1, 5000}, Shape{1, 100000},
                                         Shape{0.25, 60000}, Shape{1.0 / 1024, 60000}));

// What is named ahead is named once, before any of it is touched, and what growth touches last
// comes first.
TEST(RowIndexTest, WhatItGrowsIntoIsNamedAhead) {
  SystemMemory memory;
  auto index = RowIndex::Make(memory, 1 << 22, 1);
  ASSERT_TRUE(index.ok());
  const char* const begin = index->memory().begin;
  std::vector<MemoryRange> named;
  uint64_t bytes = 0, most = 0;  // Named so far, one after the other; in use beyond that.
  for (uint64_t n = 0; n < 2'000'000; ++n) {
    index->Insert(Mix(n), 1);
    if (n % 1000 != 0) continue;
    if (bytes > 0) most = std::max(most, index->bytes() - std::min(bytes, index->bytes()));
    named.clear();
    index->TakeAhead(&named);
    if (named.empty()) continue;
    const auto from = static_cast<uint64_t>(named.front().begin - begin);
    EXPECT_GE(from + (1 << 20), bytes) << n;
    EXPECT_GE(from, index->bytes());
    for (size_t i = 1; i < named.size(); ++i) {
      EXPECT_EQ(named[i].begin, named[i - 1].begin + named[i - 1].bytes);
    }
    bytes = static_cast<uint64_t>(named.back().begin - begin) + named.back().bytes;
  }
  EXPECT_GT(bytes, uint64_t{30} << 20);
  EXPECT_LT(most, uint64_t{1} << 20);  // The last homes push a little further.
}

// What came to be used before it was named, by pushes that are large or by many rows restored at
// once, is named late: what is named has no gap.
TEST(RowIndexTest, WhatItGrewIntoMeanwhileIsNamedToo) {
  SystemMemory memory;
  auto index = RowIndex::Make(memory, 1 << 22, 1);
  ASSERT_TRUE(index.ok());
  const char* end = nullptr;
  uint64_t n = 0;
  for (const uint64_t rows : {300'000, 90'000, 100'000, 600'000, 5'000, 400'000}) {
    if (rows == 600'000) index->Reserve(n + rows);
    for (const uint64_t all = n + rows; n < all; ++n) index->Insert(Mix(n), 1);
    std::vector<MemoryRange> named;
    index->TakeAhead(&named);
    for (const MemoryRange& range : named) {
      EXPECT_TRUE(end == nullptr || range.begin == end) << n;
      end = range.begin + range.bytes;
    }
    const char* const used = index->memory().begin + index->bytes();
    EXPECT_TRUE(end == nullptr || end + (1 << 20) >= used) << n;
  }
  EXPECT_NE(end, nullptr);
}

TEST(RowIndexTest, MemoryStaysNearWhatEntriesNeed) {
  SystemMemory memory;
  auto index = RowIndex::Make(memory, kRowsMax, 1);
  ASSERT_TRUE(index.ok());
  double worst = 0, sum = 0;
  int samples = 0;
  for (uint64_t n = 0; n < 500000; ++n) {
    index->Insert(Mix(n), static_cast<uint32_t>(n));
    if (n < 10000 || n % 1000 != 0) continue;
    const double per_row = static_cast<double>(index->bytes()) / static_cast<double>(n);
    worst = std::max(worst, per_row);
    sum += per_row;
    ++samples;
  }
  EXPECT_LT(worst, 22);
  EXPECT_LT(sum / samples, 20);  // A row of 64 bytes then takes 1.31 times itself.
}

// ---- EmbeddingTable ----

// SGD in exact arithmetic: every row is its initial value minus the sum of its gradients.
TEST(EmbeddingTableTest, RandomUpdatesAgreeWithAPlainMap) {
  for (const int64_t dim : {1, 3, 8, 16, 20}) {
    EmbeddingTableOptions options = Options(dim, "sgd", {.name = "zeros"});
    options.optimizer.learning_rate = 1;
    const auto table = MakeTable(options);
    std::unordered_map<uint64_t, std::vector<float>> plain;
    Rng rng(static_cast<uint64_t>(dim));
    for (int batch = 0; batch < 50; ++batch) {
      std::set<uint64_t> distinct;
      for (uint64_t n = rng.Below(700); n > 0; --n) distinct.insert(Mix(rng.Below(3000)));
      const std::vector<uint64_t> ids(distinct.begin(), distinct.end());
      std::vector<float> gradients(ids.size() * static_cast<size_t>(dim));
      for (float& g : gradients) g = static_cast<float>(rng.Below(17)) - 8;
      ASSERT_TRUE(table->Update(ids, gradients.data()).ok());
      for (size_t i = 0; i < gradients.size(); ++i) {
        auto& row = plain[ids[i / static_cast<size_t>(dim)]];
        row.resize(static_cast<size_t>(dim));
        row[i % static_cast<size_t>(dim)] -= gradients[i];
      }
    }
    std::vector<uint64_t> ids;
    for (const auto& [id, row] : plain) ids.push_back(id);
    std::vector<float> rows(ids.size() * static_cast<size_t>(dim));
    table->Gather(ids, rows.data());
    for (size_t i = 0; i < rows.size(); ++i) {
      ASSERT_EQ(rows[i], plain[ids[i / static_cast<size_t>(dim)]][i % static_cast<size_t>(dim)]);
    }
    ASSERT_EQ(table->rows(), plain.size());
  }
}

// What a row costs in memory with all that finds it, at any size: 1.35 of its weights and state at
// most.
TEST(EmbeddingTableTest, ARowTakesLittleMoreThanItself) {
  const auto table = MakeTable(Options(8, "adagrad"));
  const std::vector<float> gradients(size_t{500} * 8, 0.5f);
  std::vector<uint64_t> ids(500);
  constexpr double kPayload = 2 * 8 * sizeof(float);
  for (uint64_t n = 0; n < 600000;) {
    for (uint64_t& id : ids) id = n++;
    ASSERT_TRUE(table->Update(ids, gradients.data()).ok());
    if (n < 50000) continue;  // The first pages of everything.
    const double per_row = static_cast<double>(table->bytes()) / static_cast<double>(n);
    ASSERT_LE(per_row, 1.35 * kPayload) << n;
    ASSERT_GE(per_row, kPayload) << n;
  }
}

// Reading leaves no trace, and an unseen id reads as the value it would start from.
TEST(EmbeddingTableTest, ReadingDoesNotMakeRows) {
  const auto table = MakeTable(Options(8));
  const std::vector<float> before = Read(*table, 42);
  EXPECT_EQ(table->rows(), 0u);
  const std::vector<float> zeros(8);
  const uint64_t id = 42;
  ASSERT_TRUE(table->Update({&id, 1}, zeros.data()).ok());
  EXPECT_EQ(table->rows(), 1u);
  EXPECT_EQ(Read(*table, 42), before);
}

// The initial value belongs to (seed, table, id): not to the order, the owner, or the neighbours.
TEST(EmbeddingTableTest, InitialValuesDependOnNothingElse) {
  for (const char* name : {"uniform", "normal", "truncated_normal", "xavier_uniform",
                           "xavier_normal", "he_uniform", "he_normal"}) {
    EmbeddingTableOptions options = Options(5, "sgd", {.name = name, .scale = 0.5});
    const auto whole = MakeTable(options);
    options.partitions = IntervalSet();
    options.partitions.Add(512, 1024);
    const auto half = MakeTable(options);
    const std::vector<float> gradient(5);
    std::vector<uint64_t> ids;
    for (uint64_t id = 0; id < 100; ++id) {
      if (half->Has(PartitionOf(PointOf(id)))) ids.push_back(id);
    }
    for (const uint64_t id : ids) ASSERT_TRUE(half->Update({&id, 1}, gradient.data()).ok());
    for (const uint64_t id : std::vector<uint64_t>(ids.rbegin(), ids.rend())) {
      ASSERT_TRUE(whole->Update({&id, 1}, gradient.data()).ok());
      ASSERT_EQ(Read(*whole, id), Read(*half, id));
    }
    options.seed = 8;
    EXPECT_NE(Read(*whole, 5), Read(*MakeTable(options), 5));
    options.seed = 7;
    options.spec.name = "wide";
    EXPECT_NE(Read(*whole, 5), Read(*MakeTable(options), 5));
  }
}

struct Spread {
  const char* name;
  double scale;
  double deviation;  // For a dim of 7.
  double most;       // No value is farther from 0.
};
TEST(EmbeddingTableTest, InitialValuesHaveTheRightSpread) {
  constexpr double kNoBound = 1e9;
  const Spread cases[] = {
      {"zeros", 0.5, 0, 0},
      {"uniform", 0.5, 0.5 / std::sqrt(3), 0.5},
      {"normal", 0.5, 0.5, kNoBound},
      {"truncated_normal", 0.5, 0.5 * 0.87963, 1},  // The deviation of what is left.
      {"xavier_uniform", 1, std::sqrt(1.0 / 7), std::sqrt(3.0 / 7)},
      {"xavier_normal", 1, std::sqrt(1.0 / 7), kNoBound},
      {"he_uniform", 0.5, 0.5 * std::sqrt(2.0 / 7), 0.5 * std::sqrt(6.0 / 7)},
      {"he_normal", 1, std::sqrt(2.0 / 7), kNoBound},
  };
  for (const Spread& c : cases) {
    const auto table = MakeTable(Options(7, "sgd", {.name = c.name, .scale = c.scale}));
    double sum = 0, squares = 0, largest = 0;
    for (uint64_t id = 0; id < 20000; ++id) {
      for (const float value : Read(*table, id)) {
        sum += value;
        squares += value * value;
        largest = std::max<double>(largest, std::abs(value));
      }
    }
    EXPECT_NEAR(sum / 140000, 0, 0.005) << c.name;
    EXPECT_NEAR(std::sqrt(squares / 140000), c.deviation, 0.01 * c.deviation) << c.name;
    EXPECT_LE(largest, c.most * 1.000001) << c.name;
    if (c.most < kNoBound) {
      EXPECT_GE(largest, c.most * 0.999) << c.name;
    }
  }
  EXPECT_THAT(Read(*MakeTable(Options(3, "sgd", {.name = "constant", .scale = 2})), 9),
              testing::Each(2));
}

TEST(EmbeddingTableTest, WhatCannotBeIsRefused) {
  SystemMemory memory;
  const auto refusal = [&](const EmbeddingTableOptions& options) {
    return std::string(EmbeddingTable::Make(memory, options).status().message());
  };
  EXPECT_THAT(refusal(Options(8, "sgd", {.name = "zero"})),
              HasSubstr("table deep: unknown initializer 'zero'; there are zeros"));
  EXPECT_THAT(refusal(Options(8, "adagard")), HasSubstr("'adagard' is not one of sgd"));
  EXPECT_THAT(refusal(Options(0)), HasSubstr("dim is 0"));
}

TEST(EmbeddingTableTest, AFullTableSaysSoAndStaysAsItWas) {
  EmbeddingTableOptions options = Options(4);
  options.rows_max = 3;
  const auto table = MakeTable(options);
  const std::vector<uint64_t> ids = {1, 2, 3, 4};
  const std::vector<float> gradients(16, 1);
  EXPECT_TRUE(absl::IsResourceExhausted(table->Update(ids, gradients.data())));
  EXPECT_EQ(table->rows(), 0u);
}

// Rows that nobody can find yet take room like others.
TEST(EmbeddingTableTest, AppendedRowsTakeRoom) {
  EmbeddingTableOptions options = Options(1, "sgd");
  options.rows_max = 10;
  const auto table = MakeTable(options);
  const std::vector<uint64_t> ids = {1, 2, 3, 4, 5, 6, 7, 8};
  const std::vector<float> rows(8, 1);
  table->Append(ids, rows.data());
  EXPECT_TRUE(table->CheckRoom(2).ok());
  EXPECT_TRUE(absl::IsResourceExhausted(table->CheckRoom(3)));
  ASSERT_TRUE(table->LinkAppended().ok());
  EXPECT_EQ(table->room(), 2u);
}

// A process that may have so much address space and no more.
class LimitedMemory : public Memory {
 public:
  explicit LimitedMemory(uint64_t bytes) : left_(bytes) {}
  absl::StatusOr<char*> Reserve(size_t bytes) override {
    if (bytes > left_) return absl::ResourceExhaustedError("the system refuses");
    left_ -= bytes;
    return memory_.Reserve(bytes);
  }
  void Release(char* begin, size_t bytes) override {
    memory_.Release(begin, bytes);
    left_ += bytes;
  }
  uint64_t left() const { return left_; }

 private:
  SystemMemory memory_{/*huge_pages=*/false};
  uint64_t left_;
};

// With less address space tables have room for fewer rows, leave half of it to others, and do what
// they would do with more.
TEST(EmbeddingTableTest, TablesFitIntoTheAddressSpace) {
  const auto make = [](Memory& memory) {
    EmbeddingTableOptions wide = Options(1, "adam"), deep = Options(16, "adam");
    wide.rows_max = deep.rows_max = uint64_t{1} << 30;
    deep.rows.capacity = 1000;
    return EmbeddingTable::MakeAll(memory, {wide, deep});
  };
  constexpr uint64_t kLimit = uint64_t{40} << 30;
  LimitedMemory limited(kLimit), unlimited(uint64_t{1} << 60);
  const auto less = make(limited), more = make(unlimited);
  ASSERT_TRUE(less.ok() && more.ok()) << less.status();
  EXPECT_GE(limited.left(), kLimit / 2);
  EXPECT_LE(limited.left(), kLimit / 4 * 3);  // A power of two more would not have done.
  for (size_t t = 0; t < 2; ++t) {
    const auto& [small, large] = std::tie((*less)[t], (*more)[t]);
    EXPECT_GE(small->room(), uint64_t{1} << 24);
    EXPECT_EQ(large->room(), uint64_t{1} << 30);
    for (uint32_t step = 1; step < 100; ++step) {
      std::vector<uint64_t> ids;
      for (uint64_t i = 0; i < 100; ++i) ids.push_back(Mix(step * 50 + i));
      const std::vector<float> gradients(ids.size() * small->dim(), 0.5f);
      std::vector<float> a(gradients.size()), b(gradients.size());
      for (const auto* table : {&small, &large}) {
        ASSERT_TRUE((*table)->Update(ids, gradients.data()).ok());
        (*table)->BeginStep(step + 1, 0);
        (*table)->Gather(ids, table == &small ? a.data() : b.data());
      }
      ASSERT_EQ(a, b);
      ASSERT_EQ(small->rows(), large->rows());
    }
  }
}

TEST(EmbeddingTableTest, TooLittleAddressSpaceIsToldAndGivenBack) {
  constexpr uint64_t kLimit = uint64_t{200} << 20;
  LimitedMemory limited(kLimit);
  EmbeddingTableOptions wide = Options(1, "sgd"), deep = Options(64, "adam");
  wide.rows_max = deep.rows_max = uint64_t{1} << 30;
  const auto tables = EmbeddingTable::MakeAll(limited, {wide, deep});
  EXPECT_TRUE(absl::IsResourceExhausted(tables.status()));
  EXPECT_THAT(std::string(tables.status().message()),
              HasSubstr("table deep of 1048576 rows: the system refuses"));
  EXPECT_EQ(limited.left(), kLimit);
}

TEST(PartitionTest, APointGivesItsIdBack) {
  Rng rng(5);
  for (int i = 0; i < 1000; ++i) {
    const uint64_t id = rng.Next();
    ASSERT_EQ(IdOf(PointOf(id)), id);
  }
  EXPECT_EQ(IdOf(PointOf(0)), 0u);
  EXPECT_EQ(IdOf(PointOf(UINT64_MAX)), UINT64_MAX);
}

// Rows are made in memory that was named before: each byte once, and no more than a 32nd too much.
TEST(EmbeddingTableTest, MemoryOfRowsIsNamedAheadOfThem) {
  SystemMemory memory;
  EmbeddingTableOptions options;
  options.spec.name = "deep";
  options.spec.dim = 1024;
  options.optimizer.name = "sgd";
  options.rows_max = 40000;
  const auto table = *EmbeddingTable::Make(memory, options);
  const std::vector<float> gradients(100 * 1024, 0.5f);
  std::vector<MemoryRange> named;
  const auto used = [&] { return reinterpret_cast<const char*>(table->row(table->row_numbers())); };
  const char* end = nullptr;
  for (uint64_t push = 0; push < 300; ++push) {
    std::vector<uint64_t> ids;
    for (uint64_t i = 0; i < 100; ++i) ids.push_back(push * 100 + i);
    ASSERT_TRUE(table->Update(ids, gradients.data()).ok());
    EXPECT_TRUE(end == nullptr || used() <= end) << push;
    named.clear();
    table->TakeAhead(&named);
    std::reverse(named.begin(), named.end());
    for (const MemoryRange& range : named) {
      EXPECT_EQ(range.begin, end == nullptr ? used() : end);
      end = range.begin + range.bytes;
    }
  }
  ASSERT_NE(end, nullptr);
  EXPECT_LE(end - used(), 120'000'000 / 32);
}

// Pushes that make more rows than were named: what they passed by is named after them, each byte
// once, and the next push like them finds its memory named.
TEST(EmbeddingTableTest, MemoryThatPushesPassedByIsNamedToo) {
  SystemMemory memory;
  EmbeddingTableOptions options = Options(1024, "sgd");
  const auto table = *EmbeddingTable::Make(memory, options);
  const std::vector<float> gradients(4000 * 1024, 0.5f);
  std::vector<MemoryRange> named;
  const auto used = [&] { return reinterpret_cast<const char*>(table->row(table->row_numbers())); };
  const char* end = nullptr;
  uint64_t next = 0;
  int passed = 0;
  for (const uint64_t push : {100, 4000, 600, 4000, 4000, 50, 4000, 2000, 2000, 2000, 2000}) {
    std::vector<uint64_t> ids;
    while (ids.size() < push) ids.push_back(next++);
    ASSERT_TRUE(table->Update(ids, gradients.data()).ok());
    if (end != nullptr) passed += used() > end;
    named.clear();
    table->TakeAhead(&named);
    std::reverse(named.begin(), named.end());
    for (const MemoryRange& range : named) {
      EXPECT_EQ(range.begin, end == nullptr ? used() : end);
      end = range.begin + range.bytes;
    }
    EXPECT_TRUE(end == nullptr || used() <= end) << push;
  }
  EXPECT_EQ(passed, 4);  // None of the last four.
}

// Every partition and every dense weight has exactly one owner, and shares are even.
TEST(PartitionTest, SharesAreEvenAndComplete) {
  for (const int64_t servers : {1, 2, 3, 7, 64, 1024}) {
    const PartitionMap map = PartitionMap::Even(servers);
    int64_t partitions = 0;
    IntervalSet dense;
    for (int64_t s = 0; s < servers; ++s) {
      const IntervalSet owned = map.PartitionsOf(s);
      EXPECT_GE(owned.size(), kPartitions / servers);
      EXPECT_LE(owned.size(), kPartitions / servers + 1);
      partitions += owned.size();
      int64_t mine = 0;
      for (const Interval& slice : DenseSlices(1000003, map, s)) {
        mine += slice.end - slice.begin;
        EXPECT_EQ(dense.Add(slice.begin, slice.end), slice.end - slice.begin);
      }
      EXPECT_NEAR(mine, 1000003 / servers, 4 * kDenseSliceFloats);
    }
    EXPECT_EQ(partitions, kPartitions);
    EXPECT_EQ(dense.size(), 1000003);
  }
}

}  // namespace
}  // namespace rubato
