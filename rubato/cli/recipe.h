// What `rubato init` proposes beside the features: batch size, rate, regularisation, and when to
// evaluate. docs/models.md says why, docs/results.md what comes of it.
#ifndef RUBATO_CLI_RECIPE_H_
#define RUBATO_CLI_RECIPE_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "rubato/job/job_spec.h"

namespace rubato {

// INVALID_ARGUMENT, with the nearest, if `model` is neither a model of the zoo that reads tables
// nor a plug-in.
absl::Status CheckModel(const std::string& model);

// Fills in how `spec`, whose model and data are set, is trained on `rows` rows. With validation
// data the rate falls and training stops when there is no gain; without, it makes a few passes.
void ChooseRecipe(int64_t rows, JobSpec* spec);

}  // namespace rubato

#endif  // RUBATO_CLI_RECIPE_H_
