// What tests of the pipeline share.
#ifndef RUBATO_FEATURES_PIPELINE_TESTING_H_
#define RUBATO_FEATURES_PIPELINE_TESTING_H_

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "rubato/features/pipeline.h"

namespace rubato {

inline FeatureSpec Feature(std::string transform, std::vector<std::string> columns) {
  FeatureSpec f;
  f.name = columns[0];
  f.transform = std::move(transform);
  f.columns = std::move(columns);
  return f;
}

// The batch that `rows` of `columns` become.
inline Batch ApplyTo(const std::vector<std::string>& columns, const FeaturesSpec& spec,
                     const std::vector<std::vector<absl::string_view>>& rows) {
  const absl::StatusOr<Pipeline> pipeline = Pipeline::Create(spec, columns, {});
  EXPECT_TRUE(pipeline.ok()) << pipeline.status();
  RawChunk chunk = pipeline->NewChunk();
  for (const auto& row : rows) EXPECT_TRUE(chunk.Add(row).ok());
  Batch batch;
  pipeline->Apply(chunk, &batch);
  return batch;
}

}  // namespace rubato

#endif  // RUBATO_FEATURES_PIPELINE_TESTING_H_
