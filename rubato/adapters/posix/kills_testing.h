// What tests that kill servers have in common: pushes with numbers of their own, and what servers
// hold that saw exactly those.
#ifndef RUBATO_ADAPTERS_POSIX_KILLS_TESTING_H_
#define RUBATO_ADAPTERS_POSIX_KILLS_TESTING_H_

#include <gtest/gtest.h>

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "rubato/adapters/posix/params_server_store.h"
#include "rubato/adapters/posix/params_testing.h"
#include "rubato/base/rng.h"
#include "rubato/params/wire.h"

namespace rubato {

inline constexpr int64_t kKillsDense = 3 * kDenseSliceFloats + 17;
inline constexpr int64_t kKillsDim = 4;

inline Declaration KillsModel() { return TestModel(kKillsDense, kKillsDim, "adagrad"); }

// Push number `n`, with its numbers.
struct Gradients {
  explicit Gradients(int64_t n) {
    Rng rng(static_cast<uint64_t>(n));
    std::set<uint64_t> some;  // Many are met again and again, and some are new.
    for (int i = 0; i < 150; ++i) some.insert(Mix(rng.Below(300 + static_cast<uint64_t>(n))));
    ids.assign(some.begin(), some.end());
    rows.resize(ids.size() * static_cast<size_t>(kKillsDim));
    dense.resize(static_cast<size_t>(kKillsDense));
    for (auto* values : {&rows, &dense}) {
      for (float& g : *values) g = static_cast<float>(rng.Uniform() - 0.5);
    }
    request.key = {.epoch = n / 1000, .task = n / 10 % 100, .begin = n * 8, .end = n * 8 + 8};
    request.worker = WorkerId(1);
    request.view = 1;
    request.tables = {{ids, rows}};
    request.dense = dense;
  }
  std::vector<uint64_t> ids;
  std::vector<float> rows, dense;
  PushRequest request;
};

// By name of row or slice (Shard::VisitState).
using ShardState = std::map<std::string, std::string>;

inline void AddState(const Shard& shard, ShardState* all) {
  shard.VisitState([&](const std::string& name, absl::string_view state) {
    EXPECT_TRUE(all->emplace(name, std::string(state)).second) << name << " is there twice";
  });
}

// What is on the disks of `servers` servers below `root`, as their next lives would find it.
inline ShardState StateOnDisk(const std::string& root, int64_t servers) {
  SystemMemory memory(/*huge_pages=*/false);
  ShardState all;
  for (int64_t s = 0; s < servers; ++s) {
    const auto store = ParamsStore::Open(TestServerOptions(root, s, servers));
    RUBATO_CHECK_OK(store.status());
    const auto shard = (*store)->Recover(memory);
    RUBATO_CHECK_OK(shard.status());
    while ((*shard)->Tidy()) {
    }
    AddState(**shard, &all);
  }
  return all;
}

// What one server holds that saw these pushes, in this order.
inline ShardState StateAfter(const std::vector<int64_t>& pushes) {
  SystemMemory memory(/*huge_pages=*/false);
  Shard shard(memory, {.rows_max = 1 << 16});
  const PartitionMap one = PartitionMap::Even(1);
  RUBATO_CHECK_OK(
      shard.Declare(EncodeDeclaration(KillsModel(), DenseSlices(kKillsDense, one, 0)), nullptr));
  shard.SetView(1, {WorkerId(1)});
  PushSplit split;
  for (const int64_t n : pushes) {
    const Gradients gradients(n);
    split.Encode(gradients.request, one);
    const auto outcome = shard.Push(split.body(0).view(), nullptr);
    RUBATO_CHECK(outcome.ok() && *outcome == PushOutcome::kApplied);
  }
  ShardState all;
  AddState(shard, &all);
  return all;
}

inline void ExpectSameState(const ShardState& found, const ShardState& expected) {
  ASSERT_GT(expected.size(), 300u);
  EXPECT_EQ(found.size(), expected.size());
  for (const auto& [name, state] : expected) {
    const auto it = found.find(name);
    ASSERT_TRUE(it != found.end()) << name << " is gone";
    ASSERT_TRUE(it->second == state) << name << " differs";
  }
}

}  // namespace rubato

#endif  // RUBATO_ADAPTERS_POSIX_KILLS_TESTING_H_
