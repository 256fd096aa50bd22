// Raw rows in, a batch out: the one place where a model's inputs are made, whoever asks for them.
// Training, evaluation, prediction and serving run the same pipeline from the same text, which is
// kept with the job and with every checkpoint, so that they cannot differ.
//
//     RawChunk chunk = pipeline.NewChunk();
//     chunk.Add(cells) ...            // may refuse a row
//     pipeline.Apply(chunk, &batch);  // column by column; cannot fail
//
// Immutable; one serves all threads, a chunk each.
#ifndef RUBATO_FEATURES_PIPELINE_H_
#define RUBATO_FEATURES_PIPELINE_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "rubato/data/batch.h"
#include "rubato/features/features_spec.h"
#include "rubato/features/raw_chunk.h"
#include "rubato/features/step.h"

namespace rubato {

class Pipeline {
 public:
  struct Options {
    std::string label;       // Of the job, if the features name none; empty: the first column.
    bool has_labels = true;  // False: rows to predict, whose labels need not be there.
    std::string group;       // The column that batches say the groups of, if there is one.
  };

  // For rows of `columns`. INVALID_ARGUMENT, with the nearest name, if a column is not there.
  static absl::StatusOr<Pipeline> Create(const FeaturesSpec& spec,
                                         const std::vector<std::string>& columns,
                                         const Options& options);

  const BatchShape& shape() const { return shape_; }
  RawChunk NewChunk() const { return RawChunk(plan_); }
  // Appends the chunk's rows to `batch`.
  void Apply(const RawChunk& chunk, Batch* batch) const;

 private:
  // A step and where its output goes in the batch.
  struct Feature {
    std::shared_ptr<const Step> step;
    bool makes_number = false;
    bool is_bag = false;
    int slot = 0;   // Among the batch's numbers, ids or bags.
    int field = 0;  // In the top byte of its ids.
  };

  void AppendIds(const Feature& feature, const FeatureColumn& from, uint64_t* ids) const;
  void AppendBags(const std::vector<FeatureColumn>& from, size_t rows, Batch* batch) const;

  BatchShape shape_;
  int group_text_ = -1;       // The chunk's text that is the group.
  bool has_weights_ = false;  // In some bag.
  std::shared_ptr<const ChunkPlan> plan_;
  std::vector<Feature> features_;
};

}  // namespace rubato

#endif  // RUBATO_FEATURES_PIPELINE_H_
