#include "rubato/params/staged_rounds.h"

#include <algorithm>

#include "absl/container/flat_hash_map.h"
#include "rubato/base/status.h"

namespace rubato {
namespace {

// sum += weight x values
void AddScaled(absl::Span<const float> values, float weight, float* sum) {
  for (size_t i = 0; i < values.size(); ++i) sum[i] += weight * values[i];
}

}  // namespace

PushRequest StagedRounds::Batch::View() const {
  PushRequest view = head;
  view.dense = dense;
  for (const Table& table : tables) {
    view.tables.push_back({.ids = table.ids, .gradients = table.gradients});
  }
  return view;
}

int64_t StagedRounds::Batch::bytes() const {
  size_t bytes = sizeof(Batch) + dense.size() * sizeof(float);
  for (const Table& table : tables) {
    bytes += table.ids.size() * sizeof(uint64_t) + table.gradients.size() * sizeof(float);
  }
  return static_cast<int64_t>(bytes);
}

int64_t StagedRounds::Batch::ids() const {
  size_t ids = 0;
  for (const Table& table : tables) ids += table.ids.size();
  return static_cast<int64_t>(ids);
}

bool StagedRounds::Holds(const PushRequest& request) const {
  const auto round = rounds_.find(request.round);
  return round != rounds_.end() && round->second.contains({request.key.epoch, request.key.begin});
}

void StagedRounds::Stage(int64_t round, const PushRequest& request) {
  RUBATO_CHECK(round >= merged_);
  Batch batch;
  batch.head = request;
  batch.head.tables.clear();
  batch.head.dense = {};
  batch.dense.assign(request.dense.begin(), request.dense.end());
  for (const TablePush& table : request.tables) {
    Table& copy = batch.tables.emplace_back();
    copy.ids.assign(table.ids.begin(), table.ids.end());
    copy.gradients.assign(table.gradients.begin(), table.gradients.end());
  }
  bytes_ += batch.bytes();
  ids_ += batch.ids();
  const bool fresh =
      rounds_[round]
          .emplace(std::make_pair(request.key.epoch, request.key.begin), std::move(batch))
          .second;
  RUBATO_CHECK(fresh);
}

const StagedRounds::Merged& StagedRounds::Merge() {
  last_.clear();
  if (const auto found = rounds_.find(merged_); found != rounds_.end()) {
    last_ = std::move(found->second);
    rounds_.erase(found);
  }
  ++merged_;
  merge_ = {};
  double records = 0;
  std::vector<const Batch*> batches;  // Those with a gradient, here or on another server.
  for (const auto& [place, batch] : last_) {
    bytes_ -= batch.bytes();
    ids_ -= batch.ids();
    merge_.samples += batch.head.key.end - batch.head.key.begin;
    if (batch.head.records == 0) continue;
    records += static_cast<double>(batch.head.records);
    batches.push_back(&batch);
  }
  if (batches.size() == 1) {
    merge_.request = batches.front()->View();
  } else if (batches.size() > 1) {
    Add(batches, records);
    merge_.request = sum_.View();
  }
  // The rate falls with an evaluation, which may come between two batches of a round.
  merge_.request.rate = 1;
  for (const auto& [place, batch] : last_) {
    merge_.request.rate = std::min(merge_.request.rate, batch.head.rate);
  }
  return merge_;
}

void StagedRounds::Add(const std::vector<const Batch*>& batches, double records) {
  sum_ = {};
  sum_.dense.resize(batches.front()->dense.size());
  sum_.tables.resize(batches.front()->tables.size());
  for (const Batch* batch : batches) {
    RUBATO_CHECK(batch->dense.size() == sum_.dense.size());
    const auto weight = static_cast<float>(static_cast<double>(batch->head.records) / records);
    AddScaled(batch->dense, weight, sum_.dense.data());
  }
  for (size_t t = 0; t < sum_.tables.size(); ++t) {
    Table& sum = sum_.tables[t];
    absl::flat_hash_map<uint64_t, size_t> places;  // Looked up only: its order reaches nothing.
    for (const Batch* batch : batches) {
      const auto weight = static_cast<float>(static_cast<double>(batch->head.records) / records);
      const Table& table = batch->tables[t];
      const size_t dim = table.ids.empty() ? 0 : table.gradients.size() / table.ids.size();
      for (size_t i = 0; i < table.ids.size(); ++i) {
        const auto [it, news] = places.emplace(table.ids[i], sum.ids.size());
        if (news) {
          sum.ids.push_back(table.ids[i]);
          sum.gradients.resize(sum.gradients.size() + dim);
        }
        AddScaled({table.gradients.data() + i * dim, dim}, weight,
                  sum.gradients.data() + it->second * dim);
      }
    }
  }
}

}  // namespace rubato
