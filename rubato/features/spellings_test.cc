// Words in other spellings than the vocabulary's.
#include "rubato/features/spellings.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "rubato/features/transforms.h"

namespace rubato {
namespace {

using Words = std::vector<std::string>;
using testing::Optional;

TEST(SpellingsTest, BlanksDoNotCount) {
  const Spellings spellings(Words{"Rome      ", "Oslo", " a"});
  EXPECT_EQ(spellings.Respell("Rome"), "Rome      ");
  EXPECT_EQ(spellings.Respell("a"), " a");
  EXPECT_EQ(spellings.Respell("Bern"), "Bern");
}

TEST(SpellingsTest, IntegersAreTheSameAsFloats) {
  const Spellings floats(Words{"17.0", "-4.0", "0.0"});
  EXPECT_EQ(floats.Respell("17"), "17.0");
  EXPECT_EQ(floats.Respell("-4.00"), "-4.0");
  EXPECT_EQ(floats.Respell("0"), "0.0");
  EXPECT_EQ(floats.Respell("17.5"), "17.5");
  EXPECT_EQ(floats.Respell("x"), "x");
  const Spellings integers(Words{"17", "4"});
  EXPECT_EQ(integers.Respell("17.0"), "17");
  // With other words among them a 0 may mean something.
  EXPECT_EQ(Spellings(Words{"17.0", "1.5"}).Respell("17"), "17");
  EXPECT_EQ(Spellings(Words{"01020", "17.0"}).Respell("17"), "17");
  EXPECT_EQ(Spellings(Words{"v.0"}).Respell("v"), "v");
}

// Positions are the model's: other spellings do not move them.
TEST(SpellingsTest, AVocabularyFindsAllOfThem) {
  const absl::StatusOr<Vocabulary> words = Vocabulary::Make(Words{"b ", "a", " a", "c"});
  ASSERT_TRUE(words.ok()) << words.status();
  EXPECT_EQ(words->Find("b", 1), 0);
  EXPECT_EQ(words->Find("a", 1), 1) << "the word itself goes first";
  EXPECT_EQ(words->Find("c", 1), 3);
  EXPECT_EQ(words->Find("d", 1), 4);
}

TEST(SpellingsTest, YesAndNoAreSpeltAsTheVocabularyDoes) {
  for (const auto& [words, yes, no] :
       {std::tuple(Words{"FALSE", "TRUE", "?"}, "TRUE", "FALSE"),
        std::tuple(Words{"f", "t"}, "t", "f"), std::tuple(Words{"Yes"}, "Yes", "No"),
        std::tuple(Words{"N", "Y", "unknown"}, "Y", "N"), std::tuple(Words{" 1", "0"}, "1", "0"),
        std::tuple(Words{"OFF", "x"}, "ON", "OFF")}) {
    EXPECT_THAT(SpellBoolean(words, true), Optional(std::string(yes)));
    EXPECT_THAT(SpellBoolean(words, false), Optional(std::string(no)));
  }
  EXPECT_EQ(SpellBoolean({"rome", "oslo"}, true), std::nullopt);
  EXPECT_EQ(SpellBoolean({"s", "t", "u"}, true), std::nullopt) << "letters, one of which is a t";
  EXPECT_EQ(SpellBoolean({}, false), std::nullopt);
}

}  // namespace
}  // namespace rubato
