// What is proposed for values that are rare, and for one that is alone.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

#include "absl/strings/str_cat.h"
#include "rubato/features/propose_testing.h"

namespace rubato {
namespace {

// A coupon that half of the buyers have: whether it is there says it all.
TEST(LoneValuesTest, AreFeaturesWhereTheyComeAndGo) {
  for (const std::string word : {"X", "1", "2026-11-18"}) {
    const auto lone = [&](int missing, const std::string& nothing = "") {
      Analysis analysis = {.format = "csv", .columns = {"label", "x", "y"}};
      analysis.stats.resize(3);
      for (int i = 0; i < 1000; ++i) {
        analysis.Add(std::vector<absl::string_view>{
            i % 3 == 0 ? "1" : "0", i < missing ? nothing : word, i % 2 == 0 ? "a" : "b"});
      }
      analysis.ChooseStyles("label");
      ProposalNotes notes;
      const auto spec = ProposeFeatures(analysis, "label", {}, &notes);
      EXPECT_TRUE(spec.ok()) << spec.status();
      if (!notes.unused.empty()) return notes.unused[0].why;
      EXPECT_EQ(spec->features[0].transform, "merge_rare");
      EXPECT_EQ(spec->features[0].vocabulary[0], word);
      return absl::StrCat(spec->features[0].vocabulary.size(), " words");
    };
    EXPECT_EQ(lone(500), "1 words") << word;
    EXPECT_EQ(lone(50), "1 words") << word;
    EXPECT_EQ(lone(985), "1 words") << word;
    EXPECT_EQ(lone(500, "NA"), "2 words") << word;
    EXPECT_EQ(lone(0), "never changes") << word;
    EXPECT_EQ(lone(3), "hardly ever changes") << word;
    EXPECT_EQ(lone(997), "hardly ever changes") << word;
  }
}

// What is never seen again is no feature: not by --min-count, nor by default, nor in a tiny table.
TEST(RareTest, ValuesThatAreAllRareAreLeftOut) {
  const auto why = [](int rows, int64_t min_count, const std::function<std::string(int)>& make) {
    Analysis analysis = {.format = "csv", .columns = {"label", "x", "y"}};
    analysis.stats.resize(3);
    for (int i = 0; i < rows; ++i) {
      const std::string x = make(i);
      analysis.Add(
          std::vector<absl::string_view>{i % 3 == 0 ? "1" : "0", x, i % 2 == 0 ? "a" : "b"});
    }
    ProposalNotes notes;
    const auto spec = ProposeFeatures(analysis, "label", {.min_count = min_count}, &notes);
    EXPECT_TRUE(spec.ok()) << spec.status();
    if (!notes.unused.empty()) return notes.unused[0].why;
    const FeatureSpec& f = spec->features[0];
    return absl::StrCat(f.name, " ", f.transform, " ", f.buckets, " ", f.vocabulary.size());
  };
  const auto site = [](int i) { return absl::StrCat("s", i % 400); };
  EXPECT_EQ(why(2000, 10, site), "no value occurs 10 times");
  EXPECT_EQ(why(2000, 5, site), "x merge_rare 0 400");
  EXPECT_EQ(why(2000, 10, [&](int i) { return i % 2 == 0 ? "" : site(i); }), "x hash 1 0")
      << "whether it is there may say something";
  const auto tags = [](int i) {
    return absl::StrCat("t", i % 30, i % 4 == 0 ? "" : absl::StrCat("|t", i * 7 % 31));
  };
  EXPECT_EQ(why(2000, 20, tags), "x merge_rare 0 31");
  EXPECT_EQ(why(2000, 200, tags), "no value occurs 200 times");
  // Each once, in a table of few rows. A number is a measurement, and a long text is not known.
  EXPECT_EQ(why(80, 0, [](int i) { return absl::StrCat("n", i); }), "hardly ever repeats");
  EXPECT_EQ(why(80, 0, [](int i) { return absl::StrCat(i * 37 % 80); }), "x normalize 0 0");
  EXPECT_EQ(why(80, 0, [](int i) { return absl::StrCat(i * 0.37); }), "x normalize 0 0");
  EXPECT_EQ(why(80, 0, [](int i) { return absl::StrCat("n", i % 79); }), "x merge_rare 0 1");
  EXPECT_EQ(why(80, 0, [](int i) { return std::string(300, static_cast<char>('a' + i % 8)); }),
            "x hash 0 0");
}

// A "?" of a column of numbers means nothing within a list, either.
TEST(BagsTest, HaveNoTextsForNothing) {
  Analysis analysis = {.format = "csv", .columns = {"label", "age", "tags"}};
  analysis.stats.resize(3);
  for (int i = 0; i < 1000; ++i) {
    const std::string tags = absl::StrCat("t", i % 7, i % 4 == 0 ? "" : "|?", "|t", i % 5);
    analysis.Add(std::vector<absl::string_view>{i % 3 == 0 ? "1" : "0",
                                                i % 10 == 0  ? "?"
                                                : i % 2 == 0 ? "20.5"
                                                             : "31",
                                                tags});
  }
  const auto spec = ProposeFeatures(analysis, "label");
  ASSERT_TRUE(spec.ok()) << spec.status();
  EXPECT_THAT(spec->missing, testing::ElementsAre("?"));
  EXPECT_EQ(spec->features.back().separator, "|");
  EXPECT_THAT(spec->features.back().vocabulary,
              testing::ElementsAre("t0", "t1", "t2", "t3", "t4", "t5", "t6"));
}

// How much a value counts is no part of its name, where it can be nothing else.
TEST(BagsTest, MayHaveWeights) {
  const auto propose = [](const std::function<std::string(int, int)>& value) {
    return ProposeFor(2000, [&](int i) {
      const std::string first = value(i, i % 100);
      return i % 4 == 0 ? first : absl::StrCat(first, "|", value(i / 7, i * 7 % 50));
    });
  };
  const Proposed tags =
      propose([](int i, int weight) { return absl::StrCat("t", i % 9, ":0.", 10 + weight); });
  ASSERT_THAT(tags.made, testing::ElementsAre("x merge_rare"));
  EXPECT_EQ(tags.spec.features[0].weight_separator, ":");
  EXPECT_THAT(tags.spec.features[0].vocabulary, testing::SizeIs(9));
  ASSERT_THAT(tags.notes.weights, testing::SizeIs(1));
  EXPECT_TRUE(tags.notes.weights[0].is_read);
  // A verse may be no weight, and is told; a clock is no word, and -1 would weigh against others.
  const Proposed verses =
      propose([](int i, int verse) { return absl::StrCat("John ", i % 9, ":", 1 + verse % 9); });
  ASSERT_THAT(verses.made, testing::ElementsAre("x merge_rare"));
  EXPECT_EQ(verses.spec.features[0].weight_separator, "");
  ASSERT_THAT(verses.notes.weights, testing::SizeIs(1));
  EXPECT_FALSE(verses.notes.weights[0].is_read);
  const Proposed clocks =
      propose([](int i, int minute) { return absl::StrCat(10 + i % 9, ":", 10 + minute % 9); });
  EXPECT_EQ(clocks.spec.features[0].separator, "|");
  EXPECT_THAT(clocks.notes.weights, testing::IsEmpty());
  const Proposed signs = propose([](int i, int weight) {
    return absl::StrCat("t", i % 9, ":", weight % 2 == 0 ? "-0.5" : "0.5");
  });
  EXPECT_EQ(signs.spec.features[0].weight_separator, "");
}

// The best three of many, each time as many; numbers of things; lists longer than what is kept of
// them.
TEST(BagsTest, WithWeightsHaveAnyShape) {
  const auto propose = [](int values, const std::string& name) {
    return ProposeFor(3000, [&](int i) {
      std::string cell;
      for (int k = 0; k < values; ++k) {
        const int weight = (i * 31 + k * 57) % 89;
        absl::StrAppend(&cell, cell.empty() ? "" : "|", name, 10 + (i + k * 7) % 40, ":",
                        weight == 0 ? "1" : absl::StrCat("0.", 10 + weight));
      }
      return cell;
    });
  };
  for (const auto& [values, name] : std::vector<std::pair<int, std::string>>{
           {3, "t"}, {3, "1"}, {20, "interest_number_"}, {20, "some interest"}}) {
    const Proposed bag = propose(values, name);
    ASSERT_THAT(bag.made, testing::SizeIs(1)) << name;
    EXPECT_EQ(bag.spec.features[0].separator, "|");
    EXPECT_EQ(bag.spec.features[0].weight_separator, ":");
    EXPECT_THAT(bag.spec.features[0].vocabulary, testing::SizeIs(values == 3 ? 40 : 0));
    EXPECT_THAT(bag.notes.weights, testing::SizeIs(1));
  }
}

// The mean of a lone value is the value, however little it weighs; the sum of seconds is no size to
// begin with.
TEST(BagsTest, AreSumsOfModerateWeights) {
  const auto propose = [](const std::string& weight, int values) {
    return ProposeFor(2000, [&](int i) {
      std::string cell;
      for (int k = 0; k <= i % values; ++k) {
        absl::StrAppend(&cell, cell.empty() ? "" : "|", "t", (i + k * 5) % 9, ":",
                        i % 7 == 0 ? weight : absl::StrCat("0.", 10 + i % 90));
      }
      return cell;
    });
  };
  const Proposed tags = propose("1.5", 3);
  EXPECT_EQ(tags.spec.features[0].combiner, "sum");
  EXPECT_TRUE(tags.notes.weights[0].is_summed);
  const Proposed seconds = propose("3600.5", 3);
  EXPECT_EQ(seconds.spec.features[0].weight_separator, ":");
  EXPECT_EQ(seconds.spec.features[0].combiner, "mean");
  EXPECT_FALSE(seconds.notes.weights[0].is_summed);
  EXPECT_EQ(propose("40.5", 3).spec.features[0].combiner, "mean") << "three of them";
  // Of a list of 200 bytes or more only the beginning is known: its weights may be cut, too.
  EXPECT_EQ(propose("1.5", 60).spec.features[0].combiner, "sum");
}

// Thirteen columns of values that come twice: noise among others, but here they are all there is.
TEST(RareTest, ThatIsAllThereIsIsKept) {
  Analysis analysis = {.columns = {"label"}};
  for (int i = 0; i < 13; ++i) analysis.columns.push_back(absl::StrCat("c", i));
  const auto propose = [&](bool has_more) {
    if (has_more) analysis.columns.push_back("city");
    analysis.stats.assign(analysis.columns.size(), ColumnStats());
    for (int row = 0; row < 6000; ++row) {
      std::vector<std::string> cells = {row % 3 == 0 ? "1" : "0"};
      for (int i = 0; i < 13; ++i) cells.push_back(absl::StrCat("v", (row * 7 + i) % 3000));
      if (has_more) cells.push_back(row % 2 == 0 ? "Rome" : "Oslo");
      analysis.Add(std::vector<absl::string_view>(cells.begin(), cells.end()));
    }
    ProposalNotes notes;
    const auto spec = ProposeFeatures(analysis, "label", {}, &notes);
    EXPECT_TRUE(spec.ok()) << spec.status();
    return absl::StrCat(spec->features.size(), " from ", notes.min_count, " on, ",
                        spec->features[0].vocabulary.size(), " words");
  };
  EXPECT_EQ(propose(false), "13 from 2 on, 3000 words");
  EXPECT_EQ(propose(true), "1 from 3 on, 2 words");
}

}  // namespace
}  // namespace rubato
