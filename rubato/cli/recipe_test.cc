#include "rubato/cli/recipe.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>

namespace rubato {
namespace {

using testing::Pair;
using testing::UnorderedElementsAre;

JobSpec RecipeFor(int64_t rows, const std::string& model, bool validation = true) {
  JobSpec spec;
  spec.model = model;
  if (validation) spec.data.validation = {"valid.csv"};
  ChooseRecipe({.rows = rows}, &spec);
  return spec;
}

JobSpec FewNamesRecipeFor(int64_t rows, const std::string& model) {
  JobSpec spec;
  spec.model = model;
  spec.data.validation = {"valid.csv"};
  ChooseRecipe({.rows = rows, .few_names = true}, &spec);
  return spec;
}

// Some hundred steps a pass: who computes their batches must not show.
TEST(RecipeTest, StepsOfAShortJobAreRounds) {
  for (const int64_t rows : {100'000, 240'000, 999'999}) {
    JobSpec spec = FewNamesRecipeFor(rows, "deepfm");
    spec.name = "films";
    spec.data.train = {"train.csv"};
    EXPECT_EQ(spec.mode, "sync") << rows;
    EXPECT_EQ(spec.rounds.gradients, 4) << rows;
    EXPECT_EQ(spec.batch_size, 512) << rows;
    EXPECT_EQ(spec.evaluate.every_steps % 4, 0) << "between two rounds";
    EXPECT_TRUE(spec.Validate().ok()) << spec.Validate();
  }
  for (const int64_t rows : {99'999, 1'000'000}) {
    EXPECT_EQ(FewNamesRecipeFor(rows, "deepfm").mode, "async") << rows;
  }
  EXPECT_EQ(FewNamesRecipeFor(240'000, "logistic").mode, "async");
  EXPECT_EQ(RecipeFor(240'000, "deepfm").mode, "async");
}

// User and item, and many rows: strong decay in every step, large batches, a look a pass.
TEST(RecipeTest, RowsOfFewNamesAreNotLearnedByHeart) {
  const JobSpec frappe = FewNamesRecipeFor(202'027, "deepfm");
  EXPECT_EQ(frappe.optimizer.name, "dense_adam");
  EXPECT_EQ(frappe.batch_size * frappe.rounds.gradients, 2048);
  EXPECT_EQ(frappe.evaluate.every_steps, 4 * 99) << "in batches";
  EXPECT_THAT(
      frappe.model_options,
      UnorderedElementsAre(Pair("batch_norm", "true"), Pair("dim", "16"), Pair("dropout", "0.2"),
                           Pair("l2", "0.03"), Pair("use_dense", "false")));
  EXPECT_EQ(FewNamesRecipeFor(20'000'000, "deepfm").batch_size, 4096);
  for (const char* model : {"logistic", "fm"}) {
    EXPECT_EQ(FewNamesRecipeFor(202'027, model).optimizer.name, "adam") << model;
  }
  EXPECT_EQ(FewNamesRecipeFor(19'999, "deepfm").batch_size, 128);
  EXPECT_EQ(FewNamesRecipeFor(20'000, "deepfm").batch_size, 512);
  EXPECT_EQ(FewNamesRecipeFor(60'000, "deepfm").batch_size, 1024);
  EXPECT_EQ(FewNamesRecipeFor(60'000, "deepfm").optimizer.name, "dense_adam");
  EXPECT_EQ(FewNamesRecipeFor(60'000, "deepfm").evaluate.every_steps, 59) << "one look a pass";
  EXPECT_EQ(FewNamesRecipeFor(60'000, "deepfm").model_options["use_dense"], "false");
  EXPECT_EQ(FewNamesRecipeFor(99'999, "deepfm").model_options["l2"], "0.1");
  EXPECT_EQ(FewNamesRecipeFor(100'000, "deepfm").model_options["l2"], "0.03");
  EXPECT_EQ(RecipeFor(202'027, "deepfm").optimizer.name, "adam");
}

TEST(RecipeTest, WhatIsFewNames) {
  const auto few_names = [](size_t names, size_t numbers) {
    FeaturesSpec features;
    features.features.resize(names, {.transform = "merge_rare"});
    features.features.resize(names + numbers, {.transform = "discretize"});
    return RecipeInputOf(1000, features).few_names;
  };
  EXPECT_TRUE(few_names(10, 0));
  EXPECT_TRUE(few_names(3, 0));
  EXPECT_FALSE(few_names(12, 0)) << "many columns say the same";
  EXPECT_FALSE(few_names(3, 1)) << "a number";
}

// A number comes with its bins; where each bin is one integer it is a name, and the number says no
// more than that.
TEST(RecipeTest, TheDaysOfAWeekAreNames) {
  const auto few_names = [](std::vector<double> boundaries, bool has_user, int64_t rows = 1000) {
    FeaturesSpec features;
    if (has_user) features.features.push_back({.transform = "merge_rare", .columns = {"user"}});
    features.features.push_back({.transform = "normalize", .columns = {"day"}});
    features.features.push_back(
        {.transform = "discretize", .columns = {"day"}, .boundaries = std::move(boundaries)});
    return RecipeInputOf(rows, features).few_names;
  };
  EXPECT_TRUE(few_names({1, 2, 3, 4, 5, 6}, true));
  EXPECT_FALSE(few_names({1, 2, 4, 7, 12}, true)) << "a quantity, in bins";
  EXPECT_FALSE(few_names({1.5, 2, 3}, true));
  std::vector<double> ages(50);
  std::iota(ages.begin(), ages.end(), 19);
  EXPECT_FALSE(few_names(ages, true, 20'000)) << "a quantity, in as many bins as there are years";
  EXPECT_TRUE(few_names(ages, true, 50'000));
  EXPECT_FALSE(few_names({}, true));
  EXPECT_FALSE(few_names({1, 2, 3}, false)) << "nobody is named";
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

// Rare ids need a pull to zero, and those that are seen often are only held back by it.
TEST(RecipeTest, AFactorizationMachineIsPulledByHowOftenIdsAreSeen) {
  const auto l2 = [](int64_t rows, int64_t ids, const char* model = "fm") {
    JobSpec spec;
    spec.model = model;
    ChooseRecipe({.rows = rows, .ids = ids}, &spec);
    return spec.model_options["l2"];
  };
  EXPECT_EQ(l2(32'561, 400), "0.0001");
  EXPECT_EQ(l2(202'027, 5'400), "0.0001");
  EXPECT_EQ(l2(100'000, 11'000), "0.001");
  EXPECT_EQ(l2(32'561, 400, "deepfm"), "0.001");
}

TEST(RecipeTest, IdsAreCounted) {
  FeaturesSpec features;
  features.features = {{.transform = "merge_rare", .vocabulary = {"a", "b"}},
                       {.transform = "discretize", .boundaries = {1, 2, 3}},
                       {.transform = "normalize"}};
  EXPECT_EQ(RecipeInputOf(1000, features).ids, 5);
  features.features.push_back({.transform = "hash"});
  EXPECT_EQ(RecipeInputOf(1000, features).ids, 1005) << "as many as there may be";
  features.features.back().buckets = 1;
  EXPECT_EQ(RecipeInputOf(1000, features).ids, 6);
}

TEST(RecipeTest, LooksOnceAPassAtSmallDataAndMoreOftenAtLarge) {
  EXPECT_EQ(RecipeFor(32'561, "deepfm").evaluate.every_steps, 128);
  EXPECT_EQ(RecipeFor(100, "deepfm").evaluate.every_steps, 1);
  EXPECT_EQ(RecipeFor(100, "logistic").evaluate.every_steps, 12) << "but not at every step";
  EXPECT_EQ(RecipeFor(3000, "logistic").evaluate.every_steps, 24);
  EXPECT_EQ(RecipeFor(1'000'000, "deepfm").batch_size, 512);
  EXPECT_EQ(RecipeFor(100'000, "deepfm").evaluate.every_steps, 98);
  EXPECT_EQ(RecipeFor(1'000'000, "deepfm").evaluate.every_steps, 977);
  EXPECT_EQ(RecipeFor(1'000'000, "deepfm").evaluate.stop_after_stalls, 2);
  EXPECT_EQ(RecipeFor(1'000'000, "deepfm").evaluate.forgive_stalls, 2);
}

TEST(RecipeTest, ShortJobsTakeNoOldGradients) {
  EXPECT_EQ(RecipeFor(202'027, "deepfm").max_inflight, 0);
  EXPECT_EQ(RecipeFor(1'000'000, "deepfm").max_inflight, JobSpec().max_inflight);
}

// A bag of entries, as of libsvm, is one field.
TEST(RecipeTest, ModelsOfManyFieldsAreNotSilentAboutOne) {
  FeatureSpec bag;
  bag.name = "entries";
  bag.transform = "hash";
  bag.separator = " ";
  bag.combiner = "sum";
  FeaturesSpec features;
  features.features = {bag};
  EXPECT_THAT(OneFieldText("autoint", features), testing::HasSubstr("'entries' is the only one: "));
  EXPECT_NE(OneFieldText("xdeepfm", features), "");
  EXPECT_EQ(OneFieldText("fm", features), "");
  EXPECT_EQ(OneFieldText("wide_deep", features), "");
  features.features[0].combiner = "mean";
  EXPECT_NE(OneFieldText("fm", features), "");
  features.features.push_back(bag);
  EXPECT_EQ(OneFieldText("autoint", features), "");
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
  // Of few rows more, so that there are steps enough.
  EXPECT_EQ(RecipeFor(30, "deepfm", false).epochs, 24);
  EXPECT_EQ(RecipeFor(128, "deepfm", false).epochs, 24);
  EXPECT_EQ(RecipeFor(300, "deepfm", false).epochs, 13);
  EXPECT_EQ(RecipeFor(1000, "deepfm", false).epochs, 8);
  EXPECT_EQ(RecipeFor(99'999, "deepfm", false).epochs, 4);
  EXPECT_EQ(RecipeFor(999'999, "deepfm", false).epochs, 2);
}

// A number without bins is read as it is, however many rows there are.
TEST(RecipeTest, NoNumberGoesUnread) {
  FeatureSpec number, bins;
  number.transform = "normalize";
  bins.transform = "discretize";
  number.columns = bins.columns = {"age"};
  for (const bool bare : {false, true}) {
    FeaturesSpec features;
    features.features.push_back(number);
    if (!bare) features.features.push_back(bins);
    const RecipeInput input = RecipeInputOf(300'000, features);
    EXPECT_EQ(input.bare_numbers, bare);
    JobSpec spec;
    spec.model = "deepfm";
    ChooseRecipe(input, &spec);
    EXPECT_EQ(spec.model_options["use_dense"], bare ? "true" : "false");
  }
}

// Options that a model does not know would be refused.
TEST(RecipeTest, OtherModelsHaveTheirOwnOptions) {
  EXPECT_THAT(RecipeFor(300'000, "transformer").model_options,
              UnorderedElementsAre(Pair("dropout", "0.1")));
  EXPECT_TRUE(RecipeFor(300'000, "./mine.so").model_options.empty());
}

}  // namespace
}  // namespace rubato
