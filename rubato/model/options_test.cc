#include "rubato/model/options.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace rubato {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using Values = std::map<std::string, std::string>;

TEST(ModelOptionsTest, GivesValuesAndDefaults) {
  ModelOptions options(
      Values{{"dim", "8"}, {"hidden", "64, 32"}, {"dropout", "0.5"}, {"wide", "true"}});
  EXPECT_EQ(options.Int("dim", 16), 8);
  EXPECT_THAT(options.Ints("hidden", {256, 128}), ElementsAre(64, 32));
  EXPECT_DOUBLE_EQ(options.Number("dropout", 0), 0.5);
  EXPECT_TRUE(options.Bool("wide", false));
  EXPECT_EQ(options.Text("activation", "relu"), "relu");
  EXPECT_TRUE(options.Check().ok());
}

TEST(ModelOptionsTest, AnEmptyListIsAList) {
  ModelOptions options(Values{{"hidden", ""}});
  EXPECT_THAT(options.Ints("hidden", {256}), IsEmpty());
}

// The option a model never asked for is the mistake, and what it asked for is what was meant.
TEST(ModelOptionsTest, UnknownOptionsAreRefusedWithASuggestion) {
  ModelOptions options(Values{{"hiden", "64"}});
  options.Int("dim", 16);
  options.Ints("hidden", {});
  EXPECT_EQ(options.Check().message(),
            "model_options.hiden: this model knows dim, hidden; did you mean 'hidden'?");
  ModelOptions far(Values{{"colour", "red"}});
  far.Int("dim", 16);
  EXPECT_EQ(far.Check().message(), "model_options.colour: this model knows dim");
}

TEST(ModelOptionsTest, TheFirstBadValueIsNamed) {
  ModelOptions options(Values{{"dim", "-3"}, {"rate", "fast"}});
  EXPECT_EQ(options.Int("dim", 16, 1), 16);
  EXPECT_DOUBLE_EQ(options.Number("rate", 0.1), 0.1);
  EXPECT_EQ(options.Check().message(), "model_options.dim: '-3' is not a whole number from 1");
}

}  // namespace
}  // namespace rubato
