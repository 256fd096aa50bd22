// What `rubato init` proposes beside the features: batch size, rate, regularisation, and when to
// evaluate. docs/models.md says why, docs/results.md what comes of it.
#ifndef RUBATO_CLI_RECIPE_H_
#define RUBATO_CLI_RECIPE_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "rubato/features/features_spec.h"
#include "rubato/job/job_spec.h"

namespace rubato {

// INVALID_ARGUMENT, with the nearest, if `model` is neither a model of the zoo that reads tables
// nor a plug-in.
absl::Status CheckModel(const std::string& model);

// What to say where `model` lives from what fields do together, and the features make one field;
// else nothing.
std::string OneFieldText(const std::string& model, const FeaturesSpec& features);

// What a recipe goes by.
struct RecipeInput {
  int64_t rows = 0;
  // Whether the features are ids of names alone, and of a few columns: user, item and where they
  // met. Rows are then what their names are together, and there are few of any two.
  bool few_names = false;
  int64_t ids = 0;  // Rows of the embedding table that the features can ask for; 0: unknown.
  bool bare_numbers = false;  // Some have no bins: what is not read as a number is not read.
};
RecipeInput RecipeInputOf(int64_t rows, const FeaturesSpec& features);

// Fills in how `spec`, whose model and data are set, is trained. With validation data the rate
// falls and training stops when there is no gain; without, it makes a few passes.
void ChooseRecipe(const RecipeInput& input, JobSpec* spec);

}  // namespace rubato

#endif  // RUBATO_CLI_RECIPE_H_
