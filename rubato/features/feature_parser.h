// A format's records through a pipeline: the parser of jobs that have features.
#ifndef RUBATO_FEATURES_FEATURE_PARSER_H_
#define RUBATO_FEATURES_FEATURE_PARSER_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "rubato/data/cell_reader.h"
#include "rubato/data/source.h"
#include "rubato/features/pipeline.h"
#include "rubato/job/job_spec.h"

namespace rubato {

class FeatureParser : public RecordParser {
 public:
  // `schema` as the data's index has it. INVALID_ARGUMENT if features and columns do not fit.
  // Without `has_labels` a row's label is not looked at, and its column need not be there.
  // `group`: as evaluate.group, for which batches say what the cell was.
  static absl::StatusOr<std::unique_ptr<FeatureParser>> Create(const DataSpec& data,
                                                               absl::string_view schema,
                                                               const FeaturesSpec& features,
                                                               bool has_labels = true,
                                                               const std::string& group = "");

  const BatchShape& shape() const override { return pipeline_.shape(); }
  absl::Status Parse(absl::string_view record, Batch* batch) const override;
  // Transforms a few hundred rows at a time, which stay in the cache.
  std::unique_ptr<Block> NewBlock() const override;

 private:
  FeatureParser(CellReader cells, Pipeline pipeline)
      : cells_(std::move(cells)), pipeline_(std::move(pipeline)) {}

  CellReader cells_;
  Pipeline pipeline_;
};

}  // namespace rubato

#endif  // RUBATO_FEATURES_FEATURE_PARSER_H_
