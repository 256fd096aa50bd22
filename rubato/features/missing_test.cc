// Which texts mean that nothing is there.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "rubato/data/ids.h"
#include "rubato/features/pipeline_testing.h"

namespace rubato {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

const std::vector<std::string> kColumns = {"click", "age", "city", "tags"};

Batch Apply(const FeaturesSpec& spec, const std::vector<std::vector<absl::string_view>>& rows) {
  return ApplyTo(kColumns, spec, rows);
}

// -1 may be a code for nothing in one column, and a temperature in another.
TEST(MissingTest, AColumnMayHaveItsOwnTextsForNothing) {
  FeaturesSpec spec;
  spec.missing = {"?"};
  spec.features = {Feature("number", {"age"}), Feature("number", {"city"}),
                   Feature("hash", {"tags"}), Feature("hash", {"age"})};
  spec.features[0].otherwise = 40;
  spec.features[0].missing = {" -1 ", "none"};
  spec.features[2].missing = {"none"};
  spec.features[3].name = "age_id";
  EXPECT_THAT(Pipeline::Create(spec, kColumns, {}).status().message(),
              HasSubstr("feature 'age_id': missing: a feature above has other texts"));
  spec.features[3].missing = {"-1", "none"};
  const Batch batch =
      Apply(spec, {{"1", "-1", "-1", "-1"}, {"0", "none", "?", "none"}, {"0", "?", "-1", ""}});
  EXPECT_THAT(batch.dense, ElementsAre(40, -1, 40, 0, 40, -1));
  EXPECT_NE(batch.ids[0], batch.ids[2]) << "-1 is a tag";
  EXPECT_EQ(batch.ids[2], batch.ids[4]) << "none is none";
  EXPECT_EQ(batch.ids[1], batch.ids[3]);
}

// What means nothing in a cell means nothing among the values of one, with a weight or without, and
// takes no place of those that count.
TEST(MissingTest, TextsForNothingAreLeftOutOfABag) {
  FeaturesSpec spec;
  spec.missing = {"?"};
  spec.features = {Feature("hash", {"tags"}), Feature("merge_rare", {"city"})};
  spec.features[0].separator = spec.features[1].separator = "|";
  spec.features[0].weight_separator = ":";
  spec.features[0].missing = {" NA "};
  spec.features[0].values_max = 2;
  spec.features[1].vocabulary = {"NA", "oslo"};
  const Batch batch =
      Apply(spec, {{"1", "", "NA|?|oslo", "?|NA:0.5|a:3|b|c"}, {"0", "", "?", "?|NA"}});
  EXPECT_THAT(batch.bag_ends, ElementsAre(2, 4, 4, 4));
  EXPECT_THAT(batch.bag_ids, ElementsAre(FieldIdOfText(0, "a"), FieldIdOfText(0, "b"),
                                         FieldIdOfText(1, "NA"), FieldIdOfText(1, "oslo")));
  EXPECT_THAT(batch.bag_weights, ElementsAre(3, 1, 1, 1));
}

// pandas writes -1.0, and so may JSON.
TEST(MissingTest, ANumberForNothingIsOneInAnySpelling) {
  FeaturesSpec spec;
  spec.missing = {"-999", "?"};
  spec.features = {Feature("number", {"age"}), Feature("hash", {"age"}), Feature("hash", {"city"})};
  spec.features[0].otherwise = 40;
  spec.features[1].name = "age_id";
  spec.features[0].missing = spec.features[1].missing = {"-1"};
  const Batch batch = Apply(spec, {{"1", "-1.0", "-1.0", ""},
                                   {"1", "-999.00", "-999.0", ""},
                                   {"0", "-1e0", "", ""},
                                   {"0", "-1.5", "?", ""}});
  EXPECT_THAT(batch.dense, ElementsAre(40, 40, 40, -1.5));
  const uint64_t missing = FieldIdOfText(0, "");
  EXPECT_THAT(batch.ids, ElementsAre(missing, FieldIdOfText(1, "-1.0"), missing,
                                     FieldIdOfText(1, "-999.0"), missing, FieldIdOfText(1, ""),
                                     FieldIdOfText(0, "-1.5"), FieldIdOfText(1, "")))
      << "a name is a text";
  spec.features.pop_back();
  spec.features[0].decimal_comma = true;
  EXPECT_THAT(Apply(spec, {{"1", "-1,0", "", ""}}).dense, ElementsAre(40));
}

}  // namespace
}  // namespace rubato
