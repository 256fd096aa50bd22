// Statistics of small tables that can be checked by hand, and the features that they suggest.
#include "rubato/features/analysis.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>

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

// Pages of one site differ far behind.
TEST(ColumnStatsTest, LongTextsAreToldApartByTheirEnds) {
  const std::string site = "https://example.org/" + std::string(300, 'x');
  ColumnStats stats, other;
  for (int i = 0; i < 40; ++i) (i % 2 == 0 ? stats : other).Add(absl::StrCat(site, i % 8));
  stats.Merge(other);
  EXPECT_EQ(stats.distinct(), 8);
  const std::vector<CommonTexts::Item> pages = stats.common().Items();
  ASSERT_EQ(pages.size(), 8u);
  EXPECT_EQ(pages[0].count, 5);
  EXPECT_EQ(pages[0].text.size(), ColumnStats::kLongest);
  EXPECT_EQ(ColumnStats::BeginningOf(pages[0].text), site.substr(0, 184));
  EXPECT_EQ(ColumnStats::BeginningOf("short"), "short");
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
  EXPECT_THAT(spec->negative, ElementsAre("<=50K"));
  EXPECT_THAT(spec->missing, testing::IsEmpty());
  EXPECT_THAT(spec->features.back().vocabulary, testing::UnorderedElementsAre("no", "yes", "?"));
  std::vector<std::string> made;
  for (const FeatureSpec& f : spec->features) made.push_back(f.name + " " + f.transform);
  EXPECT_THAT(made, ElementsAre("age normalize", "age discretize", "gain log", "gain discretize",
                                "city merge_rare", "zip_code merge_rare", "note merge_rare"));
  EXPECT_THAT(spec->features[4].vocabulary, testing::SizeIs(5)) << "villages are merged";
  EXPECT_EQ(spec->features[3].boundaries[0], 1) << "nothing gained is a bin of its own";
  EXPECT_TRUE(Pipeline::Create(*spec, people.columns, {}).ok());
}

// One row in twenty has, in each column, a film that only one other row has.
TEST(ProposeTest, RareValuesAreMergedWhereARowHasManyOfThem) {
  const auto films = [](size_t columns, int64_t min_count) {
    Analysis analysis;
    analysis.columns = {"click"};
    for (size_t i = 0; i < columns; ++i) analysis.columns.push_back(absl::StrCat("film", i));
    analysis.stats.resize(analysis.columns.size());
    for (int row = 0; row < 6000; ++row) {
      const std::string film = row % 20 == 0 ? absl::StrCat("rare", row / 40) : "known";
      std::vector<absl::string_view> cells(columns, film);
      cells.insert(cells.begin(), row % 3 == 0 ? "1" : "0");
      analysis.Add(cells);
    }
    const absl::StatusOr<FeaturesSpec> spec =
        ProposeFeatures(analysis, "click", {.min_count = min_count});
    EXPECT_TRUE(spec.ok()) << spec.status();
    EXPECT_EQ(spec->features.size(), columns);
    return spec->features[0].vocabulary.size();
  };
  EXPECT_EQ(films(1, 0), 151u);
  EXPECT_EQ(films(6, 0), 151u) << "in few columns each of them tells much";
  EXPECT_EQ(films(15, 0), 1u) << "in many columns they are noise";
  EXPECT_EQ(films(15, 2), 151u) << "unless it is said otherwise";
  EXPECT_EQ(films(1, 3), 1u);
}

// More values than a sketch can hold: those that it kept are merged all the same, and not given up.
TEST(ProposeTest, TooManyValuesToCountAreMergedToo) {
  Analysis analysis = {.columns = {"click", "page"}};
  analysis.stats.resize(2);
  constexpr int kRows = 200'000;
  for (int row = 0; row < kRows; ++row) {
    const std::string page = row % 2 == 0 ? absl::StrCat("p", row % 20) : absl::StrCat("x", row);
    analysis.Add(std::vector<absl::string_view>{row % 3 == 0 ? "1" : "0", page});
  }
  ASSERT_GT(analysis.stats[1].common().error(), 0);
  ProposalNotes notes;
  const absl::StatusOr<FeaturesSpec> spec =
      ProposeFeatures(analysis, "click", {.min_count = 1}, &notes);
  ASSERT_TRUE(spec.ok()) << spec.status();
  EXPECT_EQ(spec->features[0].transform, "merge_rare");
  EXPECT_EQ(notes.min_count, 1);
  ASSERT_EQ(notes.loose.size(), 1u) << "what was not kept to is said";
  EXPECT_EQ(notes.loose[0].column, "page");
  EXPECT_EQ(notes.loose[0].kept, LooseColumn::kCounted);
  EXPECT_EQ(notes.loose[0].error, analysis.stats[1].common().error());
  // So often that the error does not matter much, and so seldom that nothing is known.
  ASSERT_TRUE(ProposeFeatures(analysis, "click", {.min_count = 1000}, &notes).ok());
  EXPECT_EQ(notes.loose.at(0).kept, LooseColumn::kFrequent);
  const Analysis once = analysis;
  for (int i = 0; i < 8; ++i) analysis.Merge(once);  // Errors add up.
  ASSERT_TRUE(ProposeFeatures(analysis, "click", {.min_count = 1}, &notes).ok());
  EXPECT_EQ(notes.loose.at(0).kept, LooseColumn::kAll);
  for (int page = 0; page < 20; page += 2) {
    EXPECT_THAT(spec->features[0].vocabulary, testing::Contains(absl::StrCat("p", page)));
  }
}

// Their mean and deviation are beyond a double: bins tell them apart all the same.
TEST(ProposeTest, HugeNumbersHaveBinsOnly) {
  Analysis analysis = {.columns = {"click", "amount"}};
  analysis.stats.resize(2);
  const std::vector<absl::string_view> amounts = {"1e308", "-1e308", "3", "-5", "1e300"};
  for (size_t row = 0; row < 500; ++row) {
    const absl::string_view click = row % 3 == 0 ? "1" : "0";
    analysis.Add(std::vector<absl::string_view>{click, amounts[row % 5]});
  }
  const absl::StatusOr<FeaturesSpec> spec = ProposeFeatures(analysis, "click");
  ASSERT_TRUE(spec.ok()) << spec.status();
  ASSERT_EQ(spec->features.size(), 1u);
  EXPECT_EQ(spec->features[0].transform, "discretize");
  EXPECT_EQ(spec->features[0].boundaries.size(), 4u);
  EXPECT_TRUE(spec->Validate().ok()) << spec->Validate();
}

// Nor is there a deviation to divide by where a float of it is 0.
TEST(ProposeTest, TinyNumbersHaveBinsOnly) {
  Analysis analysis = {.columns = {"click", "amount"}};
  analysis.stats.resize(2);
  for (size_t row = 0; row < 500; ++row) {
    analysis.Add(std::vector<absl::string_view>{row % 3 == 0 ? "1" : "0",
                                                row % 2 == 0 ? "1.5e-60" : "2.5e-60"});
  }
  const absl::StatusOr<FeaturesSpec> spec = ProposeFeatures(analysis, "click");
  ASSERT_TRUE(spec.ok()) << spec.status();
  EXPECT_TRUE(spec->Validate().ok()) << spec->Validate();
}

TEST(ProposeTest, SaysWhichColumnsAreLeftOut) {
  Analysis analysis = {.columns = {"click", "id", "same", "none", "city", "Nr", "age"}};
  analysis.stats.resize(7);
  for (int row = 0; row < 500; ++row) {
    const std::string id = absl::StrCat("x", row), number = absl::StrCat(1000 + row * 7 % 500),
                      age = absl::StrCat(3 * row);
    analysis.Add(std::vector<absl::string_view>{row % 3 == 0 ? "1" : "0", id, "7", "",
                                                row % 2 == 0 ? "rome" : "oslo", number, age});
  }
  ProposalNotes notes;
  ASSERT_TRUE(ProposeFeatures(analysis, "click", {}, &notes).ok());
  std::vector<std::string> said;
  for (const UnusedColumn& unused : notes.unused) {
    said.push_back(absl::StrCat(unused.column, " ", unused.why));
  }
  EXPECT_THAT(said, testing::ElementsAre("id hardly ever repeats", "same never changes",
                                         "none is always empty", "Nr numbers the rows"));
}

// `rubato init` and `rubato analyze` ask the same function.
TEST(LabelTest, IsTheColumnCalledSoOrTheFirst) {
  const auto label = [](std::vector<std::string> columns) {
    return LabelOf({.columns = std::move(columns)});
  };
  EXPECT_EQ(label({"user", "Click", "label"}), "label");
  EXPECT_EQ(label({"user", "Clicked", "CLICK"}), "CLICK");
  EXPECT_EQ(label({"user", "age", "target"}), "target");
  EXPECT_EQ(label({"user", "clicks"}), "user");
}

// Three answers are no label, unless the user says which of them are a yes.
TEST(LabelTest, MayBeSaid) {
  Analysis analysis = {.columns = {"answer", "age"}};
  analysis.stats.resize(2);
  const std::vector<absl::string_view> answers = {"yes", "no", "maybe"};
  for (int row = 0; row < 300; ++row) {
    const std::string age = absl::StrCat(row % 7);
    analysis.Add(std::vector<absl::string_view>{answers[static_cast<size_t>(row % 3)], age});
  }
  EXPECT_THAT(ProposeFeatures(analysis, "answer").status().message(), HasSubstr("--positive"));
  EXPECT_THAT(ProposeFeatures(analysis, "answer", {.positive = {"yes", "maybe"}})->positive,
              ElementsAre("maybe", "yes"));
  EXPECT_THAT(ProposeFeatures(analysis, "answer", {.positive = {"yes"}})->negative,
              ElementsAre("maybe", "no"));
  EXPECT_THAT(ProposeFeatures(analysis, "answer", {.positive = {"yse"}}).status().message(),
              HasSubstr("never is 'yse'; did you mean 'yes'?"));
  EXPECT_THAT(
      ProposeFeatures(analysis, "answer", {.positive = {"yes", "no", "maybe"}}).status().message(),
      HasSubstr("all of its values are a yes"));
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

// A table whose rows `make` makes, and what is proposed for it as "name transform".
struct Proposed {
  absl::StatusOr<FeaturesSpec> spec;
  std::vector<std::string> made;
};
Proposed ProposeFor(const std::vector<std::string>& columns, int rows,
                    const std::function<std::vector<std::string>(int)>& make) {
  Analysis analysis = {.format = "csv", .columns = columns};
  analysis.stats.resize(columns.size());
  for (int row = 0; row < rows; ++row) {
    const std::vector<std::string> cells = make(row);
    analysis.Add(std::vector<absl::string_view>(cells.begin(), cells.end()));
  }
  Proposed proposed = {.spec = ProposeFeatures(analysis, "label")};
  if (!proposed.spec.ok()) return proposed;
  for (const FeatureSpec& f : proposed.spec->features) {
    proposed.made.push_back(absl::StrCat(f.name, " ", f.transform));
  }
  EXPECT_TRUE(Pipeline::Create(*proposed.spec, columns, {}).ok());
  return proposed;
}

// Frappe as a table: every column's ids begin where the last one's end. Names alone would not do.
TEST(ProposeTest, ColumnsNumberedThroughAreIds) {
  const auto row = [](int i) -> std::vector<std::string> {
    return {absl::StrCat(i % 2), absl::StrCat(i % 900), absl::StrCat(900 + i * 7 % 3000),
            absl::StrCat(3900 + i % 7), absl::StrCat(3907 + i % 3)};
  };
  const std::vector<std::string> columns = {"label", "a", "b", "c", "d"};
  const Proposed frappe = ProposeFor(columns, 9000, row);
  EXPECT_THAT(frappe.made,
              ElementsAre("a merge_rare", "b merge_rare", "c merge_rare", "d merge_rare"));
  EXPECT_THAT(frappe.spec->features[1].vocabulary, testing::SizeIs(3000));
  // If two overlap they may be quantities; of those that name more than bins can hold the name is
  // kept too, and few values are never mixed, though they differ by less than 0.2 %.
  const Proposed others = ProposeFor(columns, 9000, [&](int i) {
    std::vector<std::string> cells = row(i);
    cells[4] = absl::StrCat(i % 3);
    return cells;
  });
  EXPECT_THAT(others.made, ElementsAre("a normalize", "a discretize", "a_value merge_rare",  //
                                       "b normalize", "b discretize", "b_value merge_rare",  //
                                       "c normalize", "c discretize",                        //
                                       "d normalize", "d discretize"));
  EXPECT_THAT(others.spec->features[7].boundaries, ElementsAre(3901, 3902, 3903, 3904, 3905, 3906));
}

TEST(ProposeTest, NumbersNamedLikeThingsAreNames) {
  const Proposed films =
      ProposeFor({"label", "userId", "movie", "tag_id", "paid"}, 2000, [](int i) {
        return std::vector<std::string>{absl::StrCat(i % 2), absl::StrCat(i % 50),
                                        absl::StrCat(i % 70), absl::StrCat(i % 30),
                                        absl::StrCat(i % 40)};
      });
  EXPECT_THAT(films.made, ElementsAre("userId merge_rare", "movie merge_rare", "tag_id merge_rare",
                                      "paid normalize", "paid discretize"));
}

// Lists are found by their separator. Dates, names and places, which have one too, are not lists.
TEST(ProposeTest, ListsAreBags) {
  const std::vector<std::string> genres = {"Action", "Crime", "Drama", "Sci-Fi", "War", "Western"};
  const Proposed films = ProposeFor({"label", "genres", "day", "star", "place"}, 3000, [&](int i) {
    std::string list = genres[static_cast<size_t>(i % 6)];
    if (i % 5 > 0) list += "|" + genres[static_cast<size_t>(i / 6 % 6)];
    if (i % 5 > 2) list += "|" + genres[static_cast<size_t>(i / 36 % 6)];
    return std::vector<std::string>{absl::StrCat(i % 2), list,
                                    absl::StrCat("2020 ", i % 12, " ", i % 28),
                                    absl::StrCat("First", i % 40, " Last", i % 40),
                                    i % 4 == 0 ? "Rome, Italy" : absl::StrCat("Oslo ", i % 20)};
  });
  EXPECT_THAT(films.made, ElementsAre("genres merge_rare", "day merge_rare", "star merge_rare",
                                      "place merge_rare"));
  EXPECT_EQ(films.spec->features[0].separator, "|");
  EXPECT_THAT(films.spec->features[0].vocabulary, testing::ElementsAreArray(genres));
  for (size_t i = 1; i < 4; ++i) EXPECT_EQ(films.spec->features[i].separator, "") << i;
}

// Of a list that is too long only its beginning was kept: its values all have ids, by their hash.
TEST(ProposeTest, LongListsHaveNoVocabulary) {
  const Proposed clicks = ProposeFor({"label", "history"}, 500, [](int i) {
    std::string list = absl::StrCat("item", i % 7);
    for (int n = 0; n < i % 60; ++n) absl::StrAppend(&list, "|item", n);
    return std::vector<std::string>{absl::StrCat(i % 2), list};
  });
  EXPECT_THAT(clicks.made, ElementsAre("history hash"));
  EXPECT_EQ(clicks.spec->features[0].separator, "|");
}

// A text cut short is no word: it would never be met again.
TEST(ProposeTest, LongTextsAreNoWords) {
  const std::string prose(300, 'x');
  const Proposed proposed = ProposeFor({"label", "t"}, 500, [&](int i) {
    return std::vector<std::string>{absl::StrCat(i % 2),
                                    i % 5 == 0 ? prose : absl::StrCat("t", i % 7)};
  });
  ASSERT_TRUE(proposed.spec.ok()) << proposed.spec.status();
  ASSERT_THAT(proposed.made, ElementsAre("t merge_rare"));
  EXPECT_THAT(proposed.spec->features[0].vocabulary,
              testing::UnorderedElementsAre("t0", "t1", "t2", "t3", "t4", "t5", "t6"));
}

// Stars: what is better than usual is a yes.
TEST(ProposeTest, MarksAreALabelToo) {
  const auto marks = [](int from, int count) {
    return ProposeFor({"label", "x"}, 500, [=](int i) {
      return std::vector<std::string>{absl::StrCat(from + i % count), absl::StrCat("x", i % 7)};
    });
  };
  EXPECT_THAT(marks(1, 5).spec->positive, ElementsAre("4", "5"));
  EXPECT_THAT(marks(1, 5).spec->negative, ElementsAre("1", "2", "3"));
  EXPECT_THAT(marks(0, 12).spec.status().message(),
              HasSubstr("label 'label': has 12 different values"));
  const std::vector<std::string> spellings = {"1", "1.0", "1.00"};
  const Proposed one = ProposeFor({"label", "x"}, 500, [&](int i) {
    return std::vector<std::string>{spellings[static_cast<size_t>(i % 3)], absl::StrCat(i % 7)};
  });
  EXPECT_THAT(one.spec.status().message(), HasSubstr("label 'label': has 3 different values"));
}

// A name that cannot be typed is no name to suggest.
TEST(ProposeTest, ALabelThatIsNotThereIsHelpedWith) {
  const auto why = [](const std::string& label, std::vector<std::string> columns) {
    Analysis analysis = {.columns = std::move(columns)};
    analysis.stats.resize(analysis.columns.size());
    return std::string(ProposeFeatures(analysis, label).status().message());
  };
  EXPECT_THAT(why("clik", {"x", "click"}), HasSubstr("'clik'; did you mean 'click'?"));
  EXPECT_THAT(why("etat", {"x", "\xe9tat"}),
              HasSubstr("'etat'; '\\xe9tat' is no UTF-8: iconv -f latin1 -t utf-8"));
  const std::vector<std::string> many(12, "état");
  EXPECT_THAT(why("click", many), testing::EndsWith("'état', 'état' and 2 more"));
}

TEST(ProposeTest, LabelsOfTwoNumbersTakeTheLarger) {
  Analysis analysis;
  analysis.columns = {"y", "x"};
  analysis.stats.resize(2);
  for (int i = 0; i < 100; ++i) {
    const std::string x = absl::StrCat(i % 13);
    analysis.Add(std::vector<absl::string_view>{i % 3 == 0 ? "-1" : "1", x});
  }
  EXPECT_THAT(ProposeFeatures(analysis, "y")->positive, ElementsAre("1"));
  EXPECT_THAT(ProposeFeatures(analysis, "y")->negative, ElementsAre("-1"));
  EXPECT_THAT(ProposeFeatures(analysis, "z").status().message(),
              HasSubstr("the data has no column 'z'; it has 'y', 'x'"));
  EXPECT_THAT(ProposeFeatures(analysis, "x").status().message(),
              HasSubstr("label 'x': has 13 different values"));
}

}  // namespace
}  // namespace rubato
