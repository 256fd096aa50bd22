#include "rubato/cli/recipe.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace rubato {
namespace {

using testing::Pair;
using testing::UnorderedElementsAre;

JobSpec RecipeFor(int64_t rows, const std::string& model, bool validation = true) {
  JobSpec spec;
  spec.model = model;
  if (validation) spec.data.validation = {"valid.csv"};
  ChooseRecipe(rows, &spec);
  return spec;
}

TEST(RecipeTest, DeepModelsOfFewRowsReadNumbersAndOfManyRowsAreNormalized) {
  EXPECT_THAT(RecipeFor(199'999, "wide_deep").model_options,
              UnorderedElementsAre(Pair("dim", "16"), Pair("dropout", "0.1"), Pair("l2", "0.001"),
                                   Pair("use_dense", "true")));
  EXPECT_THAT(
      RecipeFor(200'000, "wide_deep").model_options,
      UnorderedElementsAre(Pair("batch_norm", "true"), Pair("dim", "16"), Pair("dropout", "0.1"),
                           Pair("l2", "0.001"), Pair("use_dense", "false")));
}

// An option that a model does not know would be refused.
TEST(RecipeTest, ModelsWithoutAPerceptronAreToldNothingAboutIt) {
  EXPECT_THAT(RecipeFor(1'000'000, "logistic").model_options,
              UnorderedElementsAre(Pair("use_dense", "true")));
  EXPECT_THAT(
      RecipeFor(1'000'000, "fm").model_options,
      UnorderedElementsAre(Pair("dim", "16"), Pair("l2", "0.001"), Pair("use_dense", "true")));
}

TEST(RecipeTest, LooksOnceAPassAtSmallDataAndMoreOftenAtLarge) {
  EXPECT_EQ(RecipeFor(32'561, "deepfm").evaluate.every_steps, 128);
  EXPECT_EQ(RecipeFor(1'000'000, "deepfm").batch_size, 512);
  EXPECT_EQ(RecipeFor(100'000, "deepfm").evaluate.every_steps, 98);
  EXPECT_EQ(RecipeFor(1'000'000, "deepfm").evaluate.every_steps, 977);
  EXPECT_EQ(RecipeFor(1'000'000, "deepfm").evaluate.stop_after_stalls, 2);
}

TEST(RecipeTest, ShortJobsTakeNoOldGradients) {
  EXPECT_EQ(RecipeFor(202'027, "deepfm").max_inflight, 0);
  EXPECT_EQ(RecipeFor(1'000'000, "deepfm").max_inflight, JobSpec().max_inflight);
}

TEST(RecipeTest, ModelsAreKnownByName) {
  EXPECT_TRUE(CheckModel("dcnv2").ok());
  EXPECT_TRUE(CheckModel("./mine.so").ok());
  EXPECT_THAT(CheckModel("deepfmm").message(), testing::HasSubstr("did you mean 'deepfm'?"));
}

TEST(RecipeTest, WithoutValidationItMakesAFewPasses) {
  EXPECT_EQ(RecipeFor(12'000, "deepfm", false).epochs, 8);
  EXPECT_EQ(RecipeFor(40'000'000, "deepfm", false).epochs, 1);
  EXPECT_EQ(RecipeFor(12'000, "deepfm", false).evaluate.every_steps, 0);
}

}  // namespace
}  // namespace rubato
