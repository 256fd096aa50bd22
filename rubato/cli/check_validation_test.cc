#include "rubato/cli/check_validation.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace rubato {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

Analysis TableOf(std::vector<std::string> columns,
                 const std::vector<std::vector<absl::string_view>>& rows) {
  Analysis analysis = {.format = "csv", .columns = std::move(columns)};
  analysis.stats.resize(analysis.columns.size());
  for (const std::vector<absl::string_view>& row : rows) analysis.Add(row);
  return analysis;
}

FeaturesSpec People() {
  FeatureSpec age;
  age.name = "age";
  age.transform = "number";
  age.columns = {"age"};
  FeaturesSpec spec;
  spec.label = "income";
  spec.positive = {">50K"};
  spec.negative = {"<=50K"};
  spec.features = {age};
  return spec;
}

const Analysis kTrain = TableOf({"age", "income"}, {{"30", ">50K"}, {"40", "<=50K"}});

// Adult's test file ends its labels with a full stop.
TEST(CheckValidationTest, LabelsThatTrainingDoesNotHaveAreTold) {
  FeaturesSpec features = People();
  std::vector<std::string> said;
  const Analysis same = TableOf({"age", "income"}, {{"30", ">50K"}, {"", "<=50K"}});
  EXPECT_TRUE(CheckValidation(kTrain, same, &features, &said).ok());
  EXPECT_THAT(said, IsEmpty());
  const Analysis dotted = TableOf({"age", "income"}, {{"30", "<=50K."}, {"41", "<=50K."}});
  EXPECT_THAT(CheckValidation(kTrain, dotted, &features, &said).message(),
              HasSubstr("--validation: the label 'income' is '<=50K.' in 2 rows, which it never is "
                        "in --data; did you mean '<=50K'?"));
  // Missing ones are left to data.bad_rows.
  const Analysis missing = TableOf({"age", "income"}, {{"30", ""}, {"41", ">50K"}});
  EXPECT_TRUE(CheckValidation(kTrain, missing, &features, &said).ok());
}

// A model that knows its rows by heart would look good on them.
TEST(CheckValidationTest, TheSameRowsAreTold) {
  FeaturesSpec features = People();
  std::vector<std::string> said;
  ASSERT_TRUE(CheckValidation(kTrain, kTrain, &features, &said).ok());
  EXPECT_THAT(said, ElementsAre(HasSubstr("--validation: seems to be the very rows of --data")));
  const Analysis other = TableOf({"age", "income"}, {{"30", ">50K"}, {"41", "<=50K"}});
  said.clear();
  ASSERT_TRUE(CheckValidation(kTrain, other, &features, &said).ok());
  EXPECT_THAT(said, IsEmpty());
}

// Rows of libffm name their fields; one that is new says nothing to the model.
TEST(CheckValidationTest, FieldsThatTrainingDoesNotHaveAreTold) {
  Analysis train = TableOf({"label", "0", "1"}, {{"1", "5", "7"}, {"0", "6", ""}});
  Analysis other = TableOf({"label", "2", "0"}, {{"1", "5", "7"}});
  train.format = other.format = "libffm";
  FeaturesSpec features;
  features.label = "label";
  std::vector<std::string> said;
  Analysis fewer = TableOf({"label", "0", "1"}, {{"1", "5", "7"}});
  fewer.format = "libffm";
  ASSERT_TRUE(CheckValidation(train, fewer, &features, &said).ok());
  EXPECT_THAT(said, IsEmpty());
  ASSERT_TRUE(CheckValidation(train, other, &features, &said).ok());
  EXPECT_THAT(said, ElementsAre("field 2: in --validation alone, so nothing is learned of it and "
                                "it is left out"));
}

TEST(CheckValidationTest, NumbersAreLabelsHoweverTheyAreWritten) {
  FeaturesSpec features = People();
  features.positive = features.negative = {};
  std::vector<std::string> said;
  const Analysis good = TableOf({"age", "income"}, {{"30", "1.0"}, {"41", "0"}});
  EXPECT_TRUE(CheckValidation(kTrain, good, &features, &said).ok());
  const Analysis bad = TableOf({"age", "income"}, {{"30", "1"}, {"41", "2"}});
  EXPECT_THAT(CheckValidation(kTrain, bad, &features, &said).message(),
              HasSubstr("is '2' in 1 row"));
  // A slip in less than one row of a hundred is a bad row, there as in training.
  std::vector<std::vector<absl::string_view>> rows(150, {"30", "1"});
  rows[1][1] = "0";
  rows[2][1] = "x0";
  EXPECT_TRUE(CheckValidation(kTrain, TableOf({"age", "income"}, rows), &features, &said).ok());
  rows[3][1] = "x1";
  EXPECT_THAT(CheckValidation(kTrain, TableOf({"age", "income"}, rows), &features, &said).message(),
              HasSubstr("is 'x0' in 1 row"));
  features.positive = {"+1"};
  features.negative = {"-1"};
  const Analysis signs = TableOf({"age", "income"}, {{"30", "1"}, {"41", "-1.0"}, {"42", "+1"}});
  EXPECT_TRUE(CheckValidation(kTrain, signs, &features, &said).ok());
  EXPECT_THAT(CheckValidation(kTrain, bad, &features, &said).message(),
              HasSubstr("is '2' in 1 row, which it never is in --data"));
  // Beside a word, digits are a word.
  features.negative = {"none"};
  EXPECT_THAT(CheckValidation(kTrain, good, &features, &said).message(), HasSubstr("is '"));
}

TEST(CheckValidationTest, ColumnsThatAreReadAreThereInAnyOrder) {
  FeaturesSpec features = People();
  std::vector<std::string> said;
  const auto message = [&](std::vector<std::string> columns) {
    std::vector<absl::string_view> row(columns.size(), "30");
    row.back() = ">50K";
    const Analysis other = TableOf(std::move(columns), {row});
    return std::string(CheckValidation(kTrain, other, &features, &said).message());
  };
  EXPECT_THAT(message({"aage", "income"}),
              HasSubstr("has no column 'age', which --data has; did you mean 'aage'?"));
  const Analysis moved = TableOf({"more", "income", "age"}, {{"x", ">50K", "30"}});
  EXPECT_TRUE(CheckValidation(kTrain, moved, &features, &said).ok());
  // Nothing is made of `serial`.
  const Analysis wider = TableOf({"serial", "age", "income"}, {{"1", "30", ">50K"}});
  EXPECT_TRUE(CheckValidation(wider, moved, &features, &said).ok());
  // Without names a column's place is all there is.
  const Analysis by_place = TableOf({"1", "2"}, {{"30", ">50K"}});
  const Analysis longer = TableOf({"1", "2", "3"}, {{"30", ">50K", "x"}});
  EXPECT_THAT(CheckValidation(by_place, longer, &features, &said).message(),
              HasSubstr("its first row has 3 columns, that of --data 2"));
}

TEST(CheckValidationTest, NumbersThatAreNoneBecomeMissing) {
  FeaturesSpec features = People();
  std::vector<std::string> said;
  const Analysis odd = TableOf({"age", "income"}, {{"n.a.", ">50K"}, {"41", "<=50K"}});
  EXPECT_TRUE(CheckValidation(kTrain, odd, &features, &said).ok());
  EXPECT_TRUE(features.features[0].malformed_is_missing);
  EXPECT_THAT(said, ElementsAre(HasSubstr("age: of the numbers in --validation 1 is none, as "
                                          "'n.a.'")));
}

}  // namespace
}  // namespace rubato
