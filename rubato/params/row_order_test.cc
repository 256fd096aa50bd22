// Which row of a table is the oldest.
#include "rubato/params/row_order.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <set>
#include <tuple>
#include <utility>
#include <vector>

#include "rubato/base/rng.h"
#include "rubato/params/embedding_table.h"

namespace rubato {
namespace {

// A row's step, place and point.
using Age = std::tuple<uint32_t, uint32_t, uint64_t>;

class RowOrderTest : public testing::Test {
 protected:
  void SetUp() override {
    auto order = RowOrder::Make(memory_, 1 << 17);
    ASSERT_TRUE(order.ok()) << order.status();
    order_ = *std::move(order);
  }
  void Put(uint32_t row, uint32_t step, uint32_t place) {
    ages_[row] = {step, place, Mix(row)};
    order_.Put(row, step, place);
  }
  uint32_t Oldest() {
    return order_.Oldest([this](uint32_t row) {
      ++asked_;
      return RowOrder::Place{std::get<1>(ages_[row]), std::get<2>(ages_[row])};
    });
  }

  SystemMemory memory_{/*huge_pages=*/false};
  RowOrder order_;
  std::map<uint32_t, Age> ages_;
  int asked_ = 0;  // For places of rows.
};

TEST_F(RowOrderTest, AgreesWithASortedSet) {
  constexpr uint32_t kRows = 300;
  std::set<std::pair<Age, uint32_t>> sorted;
  Rng rng(4);
  for (uint32_t n = 0; n < 100'000; ++n) {
    const auto row = static_cast<uint32_t>(rng.Below(kRows));
    if (const auto known = ages_.find(row); known != ages_.end()) {
      sorted.erase({known->second, row});
    }
    if (rng.Below(3) == 0) {
      order_.Remove(row);
    } else {
      const uint64_t back = rng.Below(5) == 0 ? rng.Below(40) : 0;
      Put(row, 100 + n / 20 - static_cast<uint32_t>(back), static_cast<uint32_t>(rng.Below(9)));
      sorted.insert({ages_[row], row});
    }
    ASSERT_EQ(order_.empty(), sorted.empty());
    if (sorted.empty()) continue;
    ASSERT_EQ(order_.oldest_step(), std::get<0>(sorted.begin()->first));
    ASSERT_EQ(Oldest(), sorted.begin()->second) << n;
  }
  EXPECT_LE(order_.bytes(), kRows * 48);
}

// Rows that are restored are put in order step by step, as they become the oldest, each once; and
// rows that only pushes touched are never looked at.
TEST_F(RowOrderTest, NobodyWaitsForMoreThanAStep) {
  constexpr uint32_t kRows = 100'000, kEach = 200;
  std::vector<uint32_t> rows(kRows);
  for (uint32_t row = 0; row < kRows; ++row) rows[row] = row;
  Rng rng(6);
  for (size_t i = kRows; --i > 0;) std::swap(rows[i], rows[rng.Below(i + 1)]);
  for (const uint32_t row : rows) Put(row, 1 + row / kEach, row % kEach);
  for (uint32_t row = kRows; row < kRows + kEach; ++row) Put(row, kRows, row - kRows);
  EXPECT_EQ(asked_, 0);
  for (uint32_t row = 0; row < kRows + kEach; ++row) {
    const int before = std::exchange(asked_, 0);
    ASSERT_LE(before, static_cast<int>(kEach));
    ASSERT_EQ(Oldest(), row);
    ASSERT_EQ(asked_, row < kRows && row % kEach == 0 ? static_cast<int>(kEach) : 0);
    order_.Remove(row);
  }
  EXPECT_TRUE(order_.empty());
}

// ---- a table's ----

// Half of a table that drops its rows for their age and for their number, beside the plainest one:
// all ids in a map, of which the smallest by step, place and point goes.
class OldestRowsTest : public testing::TestWithParam<uint64_t> {
 protected:
  static constexpr uint64_t kCapacity = 1000;
  static constexpr uint32_t kTtl = 60;

  static std::unique_ptr<EmbeddingTable> Fresh(const IntervalSet& partitions) {
    static SystemMemory memory(/*huge_pages=*/false);
    EmbeddingTableOptions options;
    options.spec.name = "t";
    options.spec.dim = 1;
    options.optimizer = {.name = "sgd", .learning_rate = 1};
    options.rows = {.ttl_steps = kTtl, .capacity = kCapacity};
    options.rows_max = 1 << 16;
    options.partitions = partitions;
    return *EmbeddingTable::Make(memory, options);
  }
  // Of a partition that is here.
  uint64_t Id(const IntervalSet& of) {
    for (;;) {
      const uint64_t id = IdOf(FirstPoint(static_cast<int64_t>(rng_.Below(512))) + rng_.Below(3));
      if (of.Contains(PartitionOf(PointOf(id)))) return id;
    }
  }
  // What other servers pushed to meanwhile may be behind, or have the same places.
  void Push(uint32_t step, const IntervalSet& of) {
    std::set<uint64_t> ids;
    for (uint64_t n = rng_.Below(40); n > 0; --n) ids.insert(Id(of));
    const std::vector<uint64_t> all(ids.begin(), ids.end());
    const std::vector<float> gradients(all.size(), 1);
    table_->BeginStep(step, 0, 1, /*evict=*/false);
    ASSERT_TRUE(table_->Update(all, gradients.data()).ok());
    uint32_t place = 0;
    for (const uint64_t id : all) ages_[id] = {step, place++, PointOf(id)};
  }
  void Evict() {
    table_->BeginStep(step_ + 1, 0);
    const auto share = static_cast<double>(owned_.size()) / kPartitions;
    while (!ages_.empty()) {
      const auto oldest = std::min_element(ages_.begin(), ages_.end(),
                                           [](auto& a, auto& b) { return a.second < b.second; });
      const bool too_many = static_cast<double>(ages_.size()) > std::ceil(kCapacity * share);
      if (!too_many && step_ - std::get<0>(oldest->second) < kTtl) break;
      ages_.erase(oldest);
      ++evicted_;
    }
  }
  using Saved = std::vector<std::pair<uint64_t, std::vector<float>>>;
  Saved Save(const EmbeddingTable& table, uint64_t first, uint64_t last) {
    Saved rows;
    table.Visit(first, last, [&](uint64_t id, uint32_t number) {
      const float* row = table.row(number);
      rows.emplace_back(id, std::vector<float>(row, row + table.row_floats()));
    });
    for (size_t i = rows.size(); i-- > 1;) std::swap(rows[i], rows[rng_.Below(i + 1)]);
    return rows;
  }
  static void Restore(const Saved& rows, EmbeddingTable& table) {
    for (const auto& [id, row] : rows) ASSERT_TRUE(table.Restore(id, row).ok());
  }
  void Restart() {
    auto fresh = Fresh(owned_);
    const Saved rows = Save(*table_, 0, UINT64_MAX);
    Restore(Save(*table_, 0, UINT64_MAX), *fresh);
    Restore(rows, *fresh);  // As a delta does.
    table_ = std::move(fresh);
  }
  void Abandon(int64_t partition) {
    for (bool all = false; !all;) {
      const uint64_t most = 1 + rng_.Below(3);
      uint64_t dropped = 0;
      all = table_->Abandon(partition, most, &dropped);
      ASSERT_LE(dropped, most);
    }
  }
  // Some partitions go, come back while pushes go on, perhaps in two attempts, and find a server
  // that is ahead of them or behind.
  void Move() {
    std::map<int64_t, Saved> away;
    IntervalSet moved;
    for (int n = 0; n < 20; ++n) {
      const auto p = static_cast<int64_t>(rng_.Below(512));
      if (!away.emplace(p, Saved()).second) continue;
      const auto [first, last] = table_->KeysOf(p);
      away[p] = Save(*table_, first, last);
      Abandon(p);
      moved.Add(p, p + 1);
    }
    IntervalSet here;
    for (int64_t p = 0; p < 512; ++p) {
      if (!away.contains(p)) here.Add(p, p + 1);
    }
    const bool again = rng_.Below(2) == 0;
    for (int attempt = again ? 0 : 1; attempt < 2; ++attempt) {
      table_->Adopt(moved, 100);
      for (const auto& [p, rows] : away) Restore(rows, *table_);
      Push(++step_, here);
      for (const auto& [p, rows] : away) {
        if (attempt == 0) Abandon(p);
      }
    }
    Push(step_ - static_cast<uint32_t>(rng_.Below(3)), moved);
  }
  std::set<uint64_t> Rows() const {
    std::set<uint64_t> ids;
    table_->Visit(0, UINT64_MAX, [&](uint64_t id, uint32_t) { ids.insert(id); });
    return ids;
  }

  Rng rng_{GetParam()};
  IntervalSet owned_;
  std::unique_ptr<EmbeddingTable> table_;
  std::map<uint64_t, Age> ages_;
  uint32_t step_ = 0;
  int evicted_ = 0;
};

TEST_P(OldestRowsTest, GoFirstWhateverBefellThem) {
  owned_.Add(0, 512);
  table_ = Fresh(owned_);
  for (int round = 0; round < 400; ++round) {
    Push(++step_, owned_);
    if (rng_.Below(8) == 0) Restart();
    if (rng_.Below(8) == 0) Move();
    if (rng_.Below(10) == 0) step_ += 50;
    Evict();
    std::set<uint64_t> expected;
    for (const auto& [id, age] : ages_) expected.insert(id);
    ASSERT_EQ(Rows(), expected) << round;
  }
  EXPECT_GT(evicted_, 1000);
}

INSTANTIATE_TEST_SUITE_P(Seeds, OldestRowsTest, testing::Range<uint64_t>(0, 8));

}  // namespace
}  // namespace rubato
