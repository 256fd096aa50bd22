// What is proposed for one column, for tests.
#ifndef RUBATO_FEATURES_PROPOSE_TESTING_H_
#define RUBATO_FEATURES_PROPOSE_TESTING_H_

#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

#include "rubato/features/analysis.h"
#include "rubato/features/pipeline.h"

namespace rubato {

struct Proposed {
  FeaturesSpec spec;
  ProposalNotes notes;
  std::vector<std::string> made;  // "name transform"
};

// Of one column beside a label, whose cells `make` makes.
inline Proposed ProposeFor(int rows, const std::function<std::string(int)>& make,
                           const std::string& name = "x") {
  Analysis analysis = {.format = "csv", .columns = {"label", name}};
  analysis.stats.resize(2);
  for (int row = 0; row < rows; ++row) {
    const std::string cell = make(row);
    analysis.Add(std::vector<absl::string_view>{row % 3 == 0 ? "1" : "0", cell});
  }
  analysis.ChooseStyles("label");
  Proposed proposed;
  const absl::StatusOr<FeaturesSpec> spec = ProposeFeatures(analysis, "label", {}, &proposed.notes);
  EXPECT_TRUE(spec.ok()) << spec.status();
  if (!spec.ok()) return proposed;
  EXPECT_TRUE(Pipeline::Create(*spec, analysis.columns, {}).ok());
  proposed.spec = *spec;
  for (const FeatureSpec& f : spec->features) proposed.made.push_back(f.name + " " + f.transform);
  return proposed;
}

}  // namespace rubato

#endif  // RUBATO_FEATURES_PROPOSE_TESTING_H_
