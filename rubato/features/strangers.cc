#include "rubato/features/strangers.h"

#include <algorithm>

#include "rubato/data/ids.h"
#include "rubato/features/step.h"

namespace rubato {
namespace {

// The field of a feature's ids: those with one value a row first, then bags.
int FieldOf(const FeatureSpec& f, const BatchShape& shape) {
  if (!f.is_bag()) {
    return static_cast<int>(std::find(shape.ids.begin(), shape.ids.end(), f.name) -
                            shape.ids.begin());
  }
  const auto bag = std::find_if(shape.bags.begin(), shape.bags.end(),
                                [&](const auto& bag) { return bag.name == f.name; });
  return static_cast<int>(shape.ids.size()) + static_cast<int>(bag - shape.bags.begin());
}

}  // namespace

Strangers::Strangers(const FeaturesSpec& features, const BatchShape& shape) {
  for (const FeatureSpec& f : features.features) {
    const bool is_lookup = f.transform == "lookup";
    if (!is_lookup && f.transform != "merge_rare") continue;
    // Two features of one column have the same strangers.
    const std::string& column = f.columns[0];
    if (std::find(columns_.begin(), columns_.end(), column) != columns_.end()) continue;
    const int field = FieldOf(f, shape);
    const int64_t known = static_cast<int64_t>(f.vocabulary.size());
    for (int64_t i = 0; i < (is_lookup ? f.oov : 1); ++i) {
      column_of_[FieldIdOfInteger(field, is_lookup ? known + i : kRareCode)] = columns_.size();
    }
    columns_.push_back(column);
  }
}

void Strangers::Count(const Batch& batch, std::vector<int64_t>* counts) const {
  if (columns_.empty()) return;
  for (const std::vector<uint64_t>* ids : {&batch.ids, &batch.bag_ids}) {
    for (const uint64_t id : *ids) {
      const auto found = column_of_.find(id);
      if (found != column_of_.end()) ++(*counts)[found->second];
    }
  }
}

}  // namespace rubato
