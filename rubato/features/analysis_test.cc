// Statistics of small tables that can be checked by hand, and the features that they suggest.
#include "rubato/features/analysis.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "absl/strings/str_cat.h"
#include "rubato/base/rng.h"
#include "rubato/features/pipeline.h"

namespace rubato {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

TEST(ColumnStatsTest, OfNumbers) {
  ColumnStats stats;
  for (const char* cell : {"2", "4", "", "4", "?", "4", "5", "NaN", "5", "7", "9"}) stats.Add(cell);
  EXPECT_EQ(stats.cells(), 11);
  EXPECT_EQ(stats.missing(), 3);
  EXPECT_TRUE(stats.is_number());
  EXPECT_EQ(stats.integers(), 8);
  EXPECT_DOUBLE_EQ(stats.mean(), 5);
  EXPECT_DOUBLE_EQ(stats.deviation(), 2);
  EXPECT_EQ(stats.min(), 2);
  EXPECT_EQ(stats.max(), 9);
  EXPECT_EQ(stats.distinct(), 5);
  EXPECT_THAT(stats.missing_texts(), ElementsAre(std::pair("?", 1), std::pair("NaN", 1)));
}

TEST(ColumnStatsTest, MergingIsAddingAll) {
  Rng rng(1);
  ColumnStats whole, parts[3], merged;
  for (int i = 0; i < 5000; ++i) {
    const std::string cell = rng.Chance(0.1) ? "" : absl::StrCat(1e9 + 100 * rng.Normal());
    whole.Add(cell);
    parts[i % 3].Add(cell);
  }
  for (const ColumnStats& part : parts) merged.Merge(part);
  EXPECT_EQ(merged.cells(), whole.cells());
  EXPECT_EQ(merged.missing(), whole.missing());
  EXPECT_EQ(merged.distinct(), whole.distinct());
  EXPECT_NEAR(merged.mean(), whole.mean(), 1e-3);
  EXPECT_NEAR(merged.deviation(), whole.deviation(), 1e-3);
  EXPECT_EQ(merged.min(), whole.min());
  EXPECT_EQ(merged.common().Items(), whole.common().Items());
}

// A table of people: what a feature is worth can be told from its columns.
Analysis People(int rows) {
  Analysis analysis;
  analysis.format = "csv";
  analysis.columns = {"id", "age", "gain", "city", "planet", "zip_code", "note", "rich"};
  analysis.stats.resize(analysis.columns.size());
  Rng rng(5);
  for (int i = 0; i < rows; ++i) {
    const std::string cells[] = {
        absl::StrCat("p", i),
        absl::StrCat(18 + rng.Below(60)),
        rng.Chance(0.9) ? "0" : absl::StrCat(rng.Below(99999)),
        rng.Chance(0.01) ? absl::StrCat("village ", i) : absl::StrCat("city ", rng.Below(5)),
        "earth",
        absl::StrCat(10000 + rng.Below(30)),
        rng.Chance(0.1)   ? "?"
        : rng.Chance(0.5) ? "no"
                          : "yes",
        rng.Chance(0.2) ? ">50K" : "<=50K",
    };
    const std::vector<absl::string_view> views(std::begin(cells), std::end(cells));
    analysis.Add(views);
  }
  return analysis;
}

TEST(ProposeTest, MakesSenseOfATable) {
  const Analysis people = People(6000);
  const absl::StatusOr<FeaturesSpec> spec = ProposeFeatures(people, "rich");
  ASSERT_TRUE(spec.ok()) << spec.status();
  EXPECT_EQ(spec->label, "rich");
  EXPECT_THAT(spec->positive, ElementsAre(">50K"));
  EXPECT_THAT(spec->missing, ElementsAre("?"));
  std::vector<std::string> made;
  for (const FeatureSpec& f : spec->features) made.push_back(f.name + " " + f.transform);
  EXPECT_THAT(made, ElementsAre("age normalize", "age discretize", "gain log", "gain discretize",
                                "city merge_rare", "zip_code merge_rare", "note merge_rare"));
  EXPECT_THAT(spec->features[4].vocabulary, testing::SizeIs(5)) << "villages are merged";
  EXPECT_EQ(spec->features[3].boundaries[0], 1) << "nothing gained is a bin of its own";
  EXPECT_TRUE(Pipeline::Create(*spec, people.columns, {}).ok());
}

// One row in ten has a film that only one other row has.
TEST(ProposeTest, RareValuesAreMergedWhereARowHasManyOfThem) {
  for (const size_t columns : {1, 3}) {
    Analysis analysis;
    analysis.columns = {"click"};
    for (size_t i = 0; i < columns; ++i) analysis.columns.push_back(absl::StrCat("film", i));
    analysis.stats.resize(analysis.columns.size());
    for (int row = 0; row < 6000; ++row) {
      const std::string film = row % 10 == 0 ? absl::StrCat("rare", row / 20) : "known";
      std::vector<absl::string_view> cells(columns, film);
      cells.insert(cells.begin(), row % 3 == 0 ? "1" : "0");
      analysis.Add(cells);
    }
    const absl::StatusOr<FeaturesSpec> spec = ProposeFeatures(analysis, "click");
    ASSERT_TRUE(spec.ok()) << spec.status();
    ASSERT_EQ(spec->features.size(), columns);
    EXPECT_THAT(spec->features[0].vocabulary, testing::SizeIs(columns == 1 ? 301 : 1));
  }
}

// Rows of entries hardly ever repeat; what repeats is the entries.
TEST(ProposeTest, EntriesAreValuesWithWeights) {
  Analysis svm;
  svm.format = "libsvm";
  svm.columns = {"label", "entries"};
  Analysis ffm;
  ffm.format = "libffm";
  ffm.columns = {"label", "0", "1"};
  svm.stats.resize(2);
  ffm.stats.resize(3);
  for (int i = 0; i < 500; ++i) {
    const absl::string_view label = i % 3 == 0 ? "1" : "0";
    const std::string plain = absl::StrCat(i % 7), odd = absl::StrCat("9 ", i % 5, ":0.", i);
    svm.Add(std::vector<absl::string_view>{label, odd});
    ffm.Add(std::vector<absl::string_view>{label, plain, odd});
  }
  FeatureSpec bag;
  bag.transform = "hash";
  bag.separator = " ";
  bag.weight_separator = ":";
  bag.combiner = "sum";
  bag.name = "entries";
  bag.columns = {"entries"};
  const absl::StatusOr<FeaturesSpec> of_svm = ProposeFeatures(svm, "label");
  ASSERT_TRUE(of_svm.ok()) << of_svm.status();
  EXPECT_THAT(of_svm->features, ElementsAre(bag));
  EXPECT_TRUE(Pipeline::Create(*of_svm, svm.columns, {}).ok());
  const absl::StatusOr<FeaturesSpec> of_ffm = ProposeFeatures(ffm, "label");
  ASSERT_TRUE(of_ffm.ok()) << of_ffm.status();
  ASSERT_EQ(of_ffm->features.size(), 2u);
  EXPECT_EQ(of_ffm->features[0].transform, "merge_rare");
  bag.name = "1";
  bag.columns = {"1"};
  EXPECT_EQ(of_ffm->features[1], bag);
}

TEST(ProposeTest, LabelsOfTwoNumbersTakeTheLarger) {
  Analysis analysis;
  analysis.columns = {"y", "x"};
  analysis.stats.resize(2);
  for (int i = 0; i < 100; ++i) {
    const std::string x = absl::StrCat(i % 7);
    analysis.Add(std::vector<absl::string_view>{i % 3 == 0 ? "-1" : "1", x});
  }
  EXPECT_THAT(ProposeFeatures(analysis, "y")->positive, ElementsAre("1"));
  EXPECT_THAT(ProposeFeatures(analysis, "z").status().message(), HasSubstr("no column 'z'"));
  EXPECT_THAT(ProposeFeatures(analysis, "x").status().message(),
              HasSubstr("label 'x': has 7 different values"));
}

}  // namespace
}  // namespace rubato
