// What simulated workers train when servers hold real shards: a table and some dense weights, moved
// by whole numbers, so that sums are exact and come to the same in any order.
#ifndef RUBATO_SIM_SIM_MODEL_H_
#define RUBATO_SIM_SIM_MODEL_H_

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "rubato/params/declaration.h"
#include "rubato/params/partition.h"
#include "rubato/params/shard.h"

namespace rubato {

Declaration SimModel();

// A batch's gradients are a function of its positions: computed again they are the same.
class SimGradients {
 public:
  explicit SimGradients(const BatchKey& batch);
  // Its part for each server by `map`, as bytes. Good for as long as somebody holds it.
  std::vector<std::shared_ptr<const std::string>> Split(WorkerId worker, int64_t view,
                                                        const PartitionMap& map) const;

 private:
  BatchKey batch_;
  std::vector<uint64_t> ids_;
  std::vector<float> rows_;
  std::vector<float> dense_;
};

// Rows and slices by name, with their bytes, of one or several shards.
using SimState = std::map<std::string, std::string>;
void AddState(const Shard& shard, SimState* state);
// What one server holds that took these pushes, one after the other.
SimState SerialReplay(const std::vector<BatchKey>& pushes);
// The first thing that is not the same, or nothing.
std::string Difference(const SimState& wanted, const SimState& found);

}  // namespace rubato

#endif  // RUBATO_SIM_SIM_MODEL_H_
