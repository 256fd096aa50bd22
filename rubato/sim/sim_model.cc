#include "rubato/sim/sim_model.h"

#include <set>

#include "absl/strings/str_cat.h"
#include "rubato/base/rng.h"
#include "rubato/base/status.h"
#include "rubato/params/plain_model.h"
#include "rubato/params/wire.h"

namespace rubato {
namespace {

constexpr int64_t kDim = 2;
constexpr uint64_t kIds = 300;
constexpr int64_t kDense = kDenseSliceFloats + 8;  // Two slices, of partitions far apart.

}  // namespace

Declaration SimModel() { return PlainModel(kDense, kDim, /*start=*/1); }

SimGradients::SimGradients(const BatchKey& batch) : batch_(batch) {
  Rng rng(Mix(static_cast<uint64_t>(batch.epoch), static_cast<uint64_t>(batch.begin)));
  std::set<uint64_t> ids;
  for (int i = 0; i < 8; ++i) ids.insert(rng.Below(kIds));
  ids_.assign(ids.begin(), ids.end());
  for (size_t i = 0; i < ids_.size() * kDim; ++i) {
    rows_.push_back(static_cast<float>(rng.Below(7)) - 3);
  }
  const auto first = static_cast<int64_t>(rng.Below(5));
  for (int64_t i = 0; i < kDense; ++i) dense_.push_back(static_cast<float>((i + first) % 5 - 2));
}

std::vector<std::shared_ptr<const std::string>> SimGradients::Split(WorkerId worker, int64_t view,
                                                                    const PartitionMap& map) const {
  PushRequest request = {.key = batch_, .worker = worker, .view = view};
  request.records = batch_.end - batch_.begin;
  request.tables = {{ids_, rows_}};
  request.dense = dense_;
  PushSplit split;
  split.Encode(request, map);
  std::vector<std::shared_ptr<const std::string>> bodies;
  for (int64_t s = 0; s < map.servers(); ++s) {
    const absl::string_view body = map.Owns(s) ? split.body(s).view() : absl::string_view();
    bodies.push_back(std::make_shared<const std::string>(body));
  }
  return bodies;
}

void AddState(const Shard& shard, SimState* state) {
  shard.VisitState([&](const std::string& name, absl::string_view bytes) {
    if (!state->emplace(name, bytes).second) state->emplace(name + " (twice)", "");
  });
}

SimState SerialReplay(const std::vector<BatchKey>& pushes) {
  SystemMemory memory(/*huge_pages=*/false);
  Shard shard(memory, {.rows_max = 1 << 14});
  const PartitionMap map = PartitionMap::Even(1);
  RUBATO_CHECK_OK(shard.Declare(EncodeDeclaration(SimModel(), {{0, kDense}}), nullptr));
  const WorkerId worker(1);
  shard.SetView(1, {worker});
  for (const BatchKey& batch : pushes) {
    const auto bodies = SimGradients(batch).Split(worker, 1, map);
    RUBATO_CHECK_OK(shard.Push(*bodies[0], nullptr).status());
  }
  SimState state;
  AddState(shard, &state);
  return state;
}

std::string Difference(const SimState& wanted, const SimState& found) {
  for (const auto& [name, bytes] : wanted) {
    const auto it = found.find(name);
    if (it == found.end()) return absl::StrCat(name, " is missing");
    if (it->second != bytes) return absl::StrCat(name, " is not what the pushes add up to");
  }
  for (const auto& [name, bytes] : found) {
    if (!wanted.contains(name)) return absl::StrCat(name, " should not be there");
  }
  return "";
}

}  // namespace rubato
