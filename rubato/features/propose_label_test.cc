// Which of a label's values is the yes: as the words say, not as often as they are there.
#include "rubato/features/propose_label.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"

namespace rubato {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

// Of a label with `often` in two rows of three and `seldom` in the third.
FeaturesSpec Propose(const std::string& often, const std::string& seldom) {
  ColumnStats stats;
  for (int i = 0; i < 30; ++i) stats.Add(i % 3 == 0 ? seldom : often);
  FeaturesSpec spec;
  const absl::Status status = ProposeLabel(stats, "y", {}, &spec);
  EXPECT_TRUE(status.ok()) << status;
  return spec;
}

struct Words {
  std::string yes, no;
};

class WordsTest : public testing::TestWithParam<Words> {};

TEST_P(WordsTest, SayWhichIsTheYesHoweverCommonItIs) {
  const auto& [yes, no] = GetParam();
  EXPECT_THAT(Propose(yes, no).positive, ElementsAre(yes));
  EXPECT_THAT(Propose(yes, no).negative, ElementsAre(no));
  EXPECT_THAT(Propose(no, yes).positive, ElementsAre(yes));
}

INSTANTIATE_TEST_SUITE_P(
    Pairs, WordsTest,
    testing::Values(Words{"yes", "no"}, Words{"Yes", "No"}, Words{"YES", "NO"}, Words{"Y", "N"},
                    Words{"true", "false"}, Words{"True", "False"}, Words{"T", "F"},
                    Words{"on", "off"}, Words{"clicked", "not clicked"}, Words{"click", "noclick"},
                    Words{"bought", "not bought"}, Words{"spam", "no spam"}, Words{"pos", "neg"},
                    Words{"Positive", "Negative"}, Words{">50K", "<=50K"}, Words{">50K.", "<=50K."},
                    Words{"subscribed", "unsubscribed"}, Words{"clicked", "skipped"},
                    Words{"returned", "no"}, Words{"good", "bad"}, Words{"ja", "nein"},
                    Words{"Oui", "Non"}, Words{"Да", "Нет"}));

// Where words say nothing, what is looked for is the rarer one. A lone F is no no.
TEST(LabelWordsTest, ElseTheRarerOneIs) {
  EXPECT_THAT(Propose("ham", "spam").positive, ElementsAre("spam"));
  EXPECT_THAT(Propose("spam", "ham").positive, ElementsAre("ham"));
  EXPECT_THAT(Propose("M", "F").positive, ElementsAre("F"));
  EXPECT_THAT(Propose("F", "M").positive, ElementsAre("M"));
}

// Elsewhere None is what is missing; beside another text it is a no. What stands for nothing
// beside numbers, or is no word for no, is still missing.
TEST(LabelWordsTest, NoneIsANo) {
  const auto none = [](const char* other, int share, const char* nothing,
                       const std::vector<std::string>& positive = {}) {
    ColumnStats stats;
    for (int i = 0; i < 300; ++i) stats.Add(i % share == 0 ? other : nothing);
    FeaturesSpec spec;
    const absl::Status status = ProposeLabel(stats, "y", positive, &spec);
    return status.ok() ? LabelText(spec) : std::string(status.message());
  };
  EXPECT_EQ(none("Fraud", 50, "None"), "label 'y': 'Fraud' counts as 1, 'None' as 0");
  EXPECT_EQ(none("Fraud", 1, "None"), none("Fraud", 1, "NA")) << "there is no None";
  EXPECT_THAT(none("Fraud", 50, "NA"), HasSubstr("label 'y': is always 'Fraud', or missing; of"));
  EXPECT_THAT(none("1", 50, "None"), HasSubstr("label 'y': is always '1', or missing; of two"));
  EXPECT_EQ(none("Fraud", 50, "NA", {"Fraud"}), "label 'y': all of its values are a yes");
  EXPECT_EQ(none("Fraud", 50, "NA", {"NA"}), "label 'y': 'NA' counts as 1, 'Fraud' as 0");
  ColumnStats three;
  for (int i = 0; i < 300; ++i) three.Add(i % 3 == 0 ? "None" : i % 3 == 1 ? "a" : "b");
  FeaturesSpec spec;
  EXPECT_THAT(ProposeLabel(three, "y", {}, &spec).message(),
              HasSubstr("has 3 different values, 'a', 'b', 'None'; a label"));
  ASSERT_TRUE(ProposeLabel(three, "y", {"a", "b"}, &spec).ok());
  EXPECT_EQ(LabelText(spec), "label 'y': 'a', 'b' count as 1, 'None' as 0");
}

// However they are spelt, two words are two classes.
TEST(LabelWordsTest, SpellingsOfAWordAreOne) {
  const auto label = [](const std::vector<std::string>& cells) {
    ColumnStats stats;
    for (int i = 0; i < 300; ++i) stats.Add(cells[static_cast<size_t>(i) % cells.size()]);
    FeaturesSpec spec;
    const absl::Status status = ProposeLabel(stats, "y", {}, &spec);
    return status.ok() ? LabelText(spec) : std::string(status.message());
  };
  EXPECT_EQ(label({"Yes", "no", "yes", "YES", "No"}),
            "label 'y': 'YES', 'Yes', 'yes' count as 1, 'No', 'no' as 0");
  EXPECT_EQ(label({"Ham", "spam", "ham", "Ham", "Spam"}),
            "label 'y': 'Spam', 'spam' count as 1, 'Ham', 'ham' as 0");
  EXPECT_THAT(label({"Yes", "no", "maybe"}), HasSubstr("has 3 different values"));
  EXPECT_THAT(label({"Yes", "yes"}), HasSubstr("has 2 different values, 'Yes', 'yes'; a label of"));
}

TEST(LabelWordsTest, AreSaid) {
  EXPECT_EQ(LabelText(Propose("yes", "no")), "label 'y': 'yes' counts as 1, 'no' as 0");
  EXPECT_EQ(LabelText(Propose("0", "1")), "label 'y': '1' counts as 1, '0' as 0");
  EXPECT_EQ(LabelText({.label = "y", .positive = {"4", "5"}}),
            "label 'y': '4', '5' count as 1, all others as 0");
}

// One number is one class, in however many spellings.
TEST(LabelNumbersTest, TwoSpellingsAreNoClasses) {
  ColumnStats stats;
  for (int i = 0; i < 30; ++i) stats.Add(i % 3 == 0 ? "1" : "1.0");
  FeaturesSpec spec;
  EXPECT_THAT(ProposeLabel(stats, "y", {}, &spec).message(),
              HasSubstr("has 2 different values, '1.0', '1'; a label of two classes"));
}

// Training would stop at the first row that is neither 0 nor 1.
TEST(LabelNumbersTest, FractionsAreNoClasses) {
  ColumnStats soft, spelled;
  for (int i = 0; i < 60; ++i) {
    soft.Add(absl::StrCat(i % 6 / 5.0));
    spelled.Add(i % 2 == 0 ? "1.0" : i % 3 == 0 ? "0.0" : "0");
  }
  FeaturesSpec spec;
  EXPECT_THAT(ProposeLabel(soft, "y", {}, &spec).message(),
              HasSubstr("label 'y': has numbers between 0 and 1; soft labels"));
  EXPECT_TRUE(ProposeLabel(soft, "y", {"0.8", "1"}, &spec).ok());
  ColumnStats two;
  for (int i = 0; i < 30; ++i) two.Add(i % 3 == 0 ? "0.3" : "0.8");
  EXPECT_THAT(ProposeLabel(two, "y", {}, &spec).message(), HasSubstr("soft labels"));
  spec = {};
  EXPECT_TRUE(ProposeLabel(spelled, "y", {}, &spec).ok());
  EXPECT_THAT(spec.positive, testing::IsEmpty()) << "numbers that are 0 and 1, as they are";
}

// Ratings of 1.00 to 5.00 have four hundred values, which nobody wants to name.
TEST(LabelNumbersTest, AThresholdMakesThemClasses) {
  ColumnStats stats;
  for (int i = 0; i < 4010; ++i) stats.Add(absl::StrCat(1 + i % 401 / 100.0));
  FeaturesSpec spec;
  EXPECT_THAT(ProposeLabel(stats, "y", {}, &spec).message(),
              AllOf(HasSubstr("has 401 different values"), HasSubstr("--positive '>=NUMBER'"),
                    HasSubstr("label: {column: y, at_least: NUMBER}; the median is 3")));
  ASSERT_TRUE(ProposeLabel(stats, "y", {">=3.5"}, &spec).ok());
  EXPECT_EQ(spec.at_least, 3.5);
  EXPECT_THAT(spec.positive, testing::IsEmpty());
  EXPECT_EQ(LabelText(spec), "label 'y': 3.5 and more count as 1, less as 0");
  EXPECT_THAT(ProposeLabel(stats, "y", {">=6"}, &spec).message(), HasSubstr("none of its numbers"));
  EXPECT_THAT(ProposeLabel(stats, "y", {">=1"}, &spec).message(), HasSubstr("all of its numbers"));
  EXPECT_THAT(ProposeLabel(stats, "y", {">=x"}, &spec).message(), HasSubstr("never is '>=x'"));
  // Where it is a label itself, it is one.
  EXPECT_EQ(Propose(">=50", "<50").at_least, std::nullopt);
}

// A slip of the pen there is a bad row, which whoever reads it counts, and tells. Of what is more,
// or stands beside other numbers, the user says what it is.
TEST(LabelNumbersTest, AFewStrangersBesideZeroAndOneAreBadRows) {
  const auto label = [](int strangers, const char* yes) {
    ColumnStats stats;
    for (int i = 0; i < 300; ++i) stats.Add(i < strangers ? "oops" : i % 2 == 0 ? yes : "0");
    return stats;
  };
  FeaturesSpec spec;
  EXPECT_TRUE(ProposeLabel(label(2, "1"), "y", {}, &spec).ok());
  EXPECT_THAT(spec.positive, testing::IsEmpty()) << "0 and 1 as they are";
  EXPECT_THAT(spec.negative, testing::IsEmpty());
  EXPECT_EQ(LabelSlips(label(2, "1")), 2);
  EXPECT_EQ(LabelSlips(label(0, "1")), 0);
  for (const auto& stats : {label(3, "1"), label(2, "2")}) {
    EXPECT_EQ(LabelSlips(stats), 0);
    EXPECT_THAT(
        ProposeLabel(stats, "y", {}, &spec).message(),
        AllOf(HasSubstr("has 3 different values, '"), HasSubstr("'oops'; a label of two classes")));
  }
}

// Without names for columns there is a word on why.
TEST(NoSuchLabelTest, SaysWhatThereIs) {
  const auto why = [](const std::string& label, const std::vector<std::string>& columns) {
    return std::string(NoSuchLabel(label, columns).message());
  };
  EXPECT_EQ(why("bougth", {"age", "bought"}),
            "label: the data has no column 'bougth'; did you mean 'bought'?");
  EXPECT_EQ(why("y", {"age", "bought"}),
            "label: the data has no column 'y'; it has 'age', 'bought'");
  EXPECT_EQ(why("3", {"1", "2"}), "label: the data has no column '3'; it has '1', '2'");
  EXPECT_EQ(why("bought", {"1", "2"}),
            "label: the data has no column 'bought'; it has '1', '2', by their places: line 1 was "
            "not taken for a header, as it is if a cell of it is the label's name");
}

}  // namespace
}  // namespace rubato
