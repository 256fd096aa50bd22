// Which integers are taken for names, and what becomes of the times beside names.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "rubato/base/bytes.h"
#include "rubato/base/rng.h"
#include "rubato/features/propose_testing.h"

namespace rubato {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

// Avazu's C14: hundreds of codes, far apart, each often. Bins would mix dozens of them.
TEST(CodesTest, MayHaveGaps) {
  const auto code = [](int i) { return absl::StrCat(300 + i * 7919 % 800 * 29); };
  EXPECT_THAT(ProposeFor(8000, code).made,
              ElementsAre("x normalize", "x discretize", "x_value merge_rare"));
  const auto or_none = [&](int i) { return i % 9 == 0 ? "-1" : code(i); };
  EXPECT_THAT(ProposeFor(8000, or_none).made, testing::Contains("x_value merge_rare"));
  // Each a few times only: an amount of money, say. It is told, should it be something else.
  const auto amount = [](int i) { return absl::StrCat(300 + i * 7919 % 2003 * 29); };
  const auto once = [](int i) { return absl::StrCat(i * 7919 % 5003); };
  for (const Proposed& amounts : {ProposeFor(8000, amount), ProposeFor(8000, once)}) {
    EXPECT_THAT(amounts.made, ElementsAre("x normalize", "x discretize"));
    EXPECT_THAT(amounts.notes.quantities, ElementsAre("x"));
  }
  // As often, and without gaps: a film, as likely as not.
  const auto film = [](int i) { return absl::StrCat(i * 7919 % 2003); };
  const Proposed films = ProposeFor(8000, film);
  EXPECT_THAT(films.made, ElementsAre("x normalize", "x discretize", "x_value merge_rare"));
  EXPECT_THAT(films.notes.quantities, IsEmpty());
  const auto hour = [](int i) { return absl::StrCat(i % 12); };
  EXPECT_THAT(ProposeFor(8000, hour).notes.quantities, IsEmpty()) << "a bin is as good as an id";
}

// Departments and branches: fewer than a hundred have a bin each, if each is seen often.
TEST(CodesTest, MayBeFew) {
  const auto bins = [](int rows, const std::function<std::string(int)>& make) {
    const Proposed proposed = ProposeFor(rows, make);
    EXPECT_THAT(proposed.made, ElementsAre("x normalize", "x discretize"));
    const size_t bins = proposed.spec.features[1].boundaries.size() + 1;
    EXPECT_EQ(proposed.notes.quantities.empty(), rows != 1000) << "several integers to a bin";
    return bins;
  };
  const auto of = [](int values) {
    return [values](int i) { return absl::StrCat(1 + i * 7 % values); };
  };
  EXPECT_EQ(bins(20'000, of(95)), 95u);
  EXPECT_EQ(bins(3000, of(24)), 24u);
  EXPECT_EQ(bins(8000, [](int i) { return absl::StrCat(17 + i % 73); }), 73u) << "ages";
  EXPECT_EQ(bins(1000, of(73)), 8u) << "each a few times only";
  EXPECT_EQ(bins(4000, [](int i) { return absl::StrCat(i % 73, ".5"); }), 8u) << "no integers";
}

// Who counts or measures writes no zeros in front.
TEST(CodesTest, MayBeginWithZeros) {
  const auto made = [](int rows, const std::function<int(int)>& number, const std::string& name,
                       const std::string& also = "") {
    return absl::StrJoin(ProposeFor(
                             rows,
                             [&](int i) {
                               if (i % 100 == 99 && !also.empty()) return also;
                               return absl::StrCat(absl::Dec(number(i), absl::kZeroPad5));
                             },
                             name)
                             .made,
                         ", ");
  };
  const auto plz = [](int i) { return 1067 + i * 7919 % 3001 * 32; };
  EXPECT_EQ(made(8000, plz, "plz"), "plz merge_rare");
  EXPECT_EQ(made(8000, plz, "plz", "-1"), "plz merge_rare");
  EXPECT_EQ(made(
                100, [](int i) { return i % 7; }, "dept"),
            "dept merge_rare");
  const auto number = "x normalize, x discretize";
  EXPECT_EQ(made(
                8000, [](int i) { return i * 7919 % 80'021; }, "x"),
            number)
      << "never repeats";
  EXPECT_EQ(made(
                8000, [&](int i) { return 10'000 + plz(i); }, "x", "7"),
            number)
      << "no zeros";
  // A time of day, 00530; and a slip of the pen.
  EXPECT_THAT(made(
                  8000, [](int i) { return 100 * (i % 24) + i * 7 % 60; }, "dep_time"),
              testing::StartsWith("dep_time normalize, dep_time discretize"));
  const auto age = [](int i) { return i == 5 ? "07" : absl::StrCat(1 + i * 7 % 90); };
  EXPECT_THAT(ProposeFor(8000, age).made, testing::Contains("x normalize"));
}

// Integers that repeat too seldom for their counts to tell: their names do.
TEST(CodesTest, AreKnownByTheirNames) {
  const auto made = [](const std::string& name) {
    Proposed proposed = ProposeFor(
        8000, [](int i) { return absl::StrCat(i * 7919 % 6007); }, name);
    return absl::StrJoin(proposed.made, ", ");
  };
  for (const std::string name : {"uid", "pid", "MID", "iid", "user_idx", "tagKey", "sku", "item.id",
                                 "movieId", "USER_ID", "zip code", "userid"}) {
    EXPECT_EQ(made(name), name + " merge_rare");
  }
  // May be either.
  for (const std::string name : {"movie_no", "roomNum", "tag_index"}) {
    EXPECT_EQ(made(name),
              absl::StrCat(name, " normalize, ", name, " discretize, ", name, "_value merge_rare"));
  }
  for (const std::string name : {"paid", "bid", "GRID", "turkey", "seconds", "no", "number"}) {
    EXPECT_EQ(made(name), absl::StrCat(name, " normalize, ", name, " discretize"));
  }
}

// MovieLens's u.data, of which no header says what its columns are: each integer from 1 on, some
// far more often than others, and no order among them. Quantities are no less dense, but in order,
// or all as frequent, or rounded.
TEST(CodesTest, AreKnownByTheirCounts) {
  const auto made = [](const std::function<int(int)>& count_of, int values = 500, int from = 1) {
    std::vector<std::string> cells;
    for (int i = 0; i < values; ++i) {
      cells.resize(cells.size() + static_cast<size_t>(count_of(i + from)), absl::StrCat(i + from));
    }
    const int rows = static_cast<int>(cells.size());
    return absl::StrJoin(
        ProposeFor(rows, [&](int i) { return cells[static_cast<size_t>(i)]; }).made, ", ");
  };
  const auto random = [](int i) { return static_cast<int>(HashText(absl::StrCat(i), 1) % 1000); };
  const auto popular = [&](int i) { return 2 + 30'000 / (100 + random(i)) - 27; };
  const std::string both = "x normalize, x discretize, x_value merge_rare";
  EXPECT_EQ(made(popular), "x merge_rare");
  EXPECT_EQ(made(popular, 500, 0), "x merge_rare") << "from 0 on";
  // The first films are the best known, too.
  EXPECT_EQ(made([&](int i) { return popular(i) * (1100 - i) / 600 + 1; }), "x merge_rare");
  EXPECT_EQ(made(popular, 500, 300), both) << "amounts of 300 and more";
  EXPECT_EQ(made([&](int i) { return i % 5 == 0 ? 0 : popular(i); }), both) << "gaps";
  EXPECT_EQ(made([&](int i) { return i % 5 == 0 ? 200 : popular(i); }), both) << "minutes, rounded";
  EXPECT_EQ(made([&](int i) { return 10 + random(i) % 7; }), both) << "all as frequent";
  EXPECT_EQ(made([&](int i) { return 5 + 20'000 / (100 + i) + random(i) % 9; }), both)
      << "in order";
}

// MovieLens's ratings.csv and u.data: when it was rated is left out, where names say all else and
// the moment is that of its row.
TEST(TimesTest, OfRowsOfNamesAreLeftOut) {
  const auto made = [](bool has_header, int moments, const std::string& more = "") {
    Analysis analysis = {.format = "csv", .columns = {"userId", "movieId", "rating", "timestamp"}};
    if (!has_header) analysis.columns = {"1", "2", "3", "4"};
    if (!more.empty()) analysis.columns.push_back(more);
    analysis.stats.resize(analysis.columns.size());
    Rng rng(1);
    for (int i = 0; i < 20'000; ++i) {
      const uint64_t user = rng.Below(300), film = rng.Below(500);
      std::vector<std::string> cells = {
          absl::StrCat(1 + user), absl::StrCat(1 + film), absl::StrCat(1 + rng.Below(5)),
          absl::StrCat(880'000'000 + 17 * rng.Below(static_cast<uint64_t>(moments)))};
      if (!more.empty()) cells.push_back(absl::StrCat(rng.Uniform()));
      analysis.Add(std::vector<absl::string_view>(cells.begin(), cells.end()));
    }
    ProposalNotes notes;
    const auto spec = ProposeFeatures(analysis, analysis.columns[2], {}, &notes);
    EXPECT_TRUE(spec.ok()) << spec.status();
    std::string text;
    for (const FeatureSpec& f : spec->features) absl::StrAppend(&text, f.name, ", ");
    for (const UnusedColumn& unused : notes.unused) absl::StrAppend(&text, "no ", unused.column);
    return text;
  };
  EXPECT_EQ(made(true, 1'000'000), "userId, movieId, no timestamp");
  EXPECT_EQ(made(false, 1'000'000), "1, 2, no 4");
  EXPECT_THAT(made(true, 500), testing::StartsWith("userId, movieId, timestamp, "))
      << "a moment of many rows";
  EXPECT_THAT(made(true, 1'000'000, "price"), testing::HasSubstr("timestamp_hour"))
      << "it is not names alone";
}

// libfm's ids as a table: the columns of MovieLens, user, film and tag, are three.
TEST(CodesTest, OfThreeColumnsAreNumberedThrough) {
  const auto made = [](int users_from, int tags_from) {
    Analysis analysis = {.format = "csv", .columns = {"1", "2", "3", "4"}};
    analysis.stats.resize(4);
    for (int i = 0; i < 2000; ++i) {
      const std::string user = absl::StrCat(users_from + i * 7919 % 900);
      const std::string film = absl::StrCat(users_from + 900 + i * 7907 % 1500);
      const std::string tag = absl::StrCat(tags_from + i * 7901 % 1700);
      analysis.Add(std::vector<absl::string_view>{i % 3 == 0 ? "1" : "-1", user, film, tag});
    }
    const absl::StatusOr<FeaturesSpec> spec = ProposeFeatures(analysis, "1");
    EXPECT_TRUE(spec.ok()) << spec.status();
    return spec.ok() ? spec->features.size() : 0;
  };
  EXPECT_EQ(made(0, 2400), 3u) << "ids alone";
  EXPECT_GT(made(0, 4400), 3u) << "a gap";
  EXPECT_GT(made(0, 2300), 3u) << "overlap";
  EXPECT_GT(made(5000, 7400), 3u) << "not from 0";
}

// What is proposed for a table without names whose columns hold integers, `make` making a row's.
std::string MadeOfIntegers(int rows, size_t columns,
                           const std::function<std::vector<int>(int)>& make, ProposalNotes* notes) {
  Analysis analysis = {.format = "csv", .columns = {"label"}};
  for (size_t i = 1; i <= columns; ++i) analysis.columns.push_back(absl::StrCat("c", i));
  analysis.stats.resize(analysis.columns.size());
  for (int row = 0; row < rows; ++row) {
    std::vector<std::string> cells = {row % 3 == 0 ? "1" : "0"};
    for (const int cell : make(row)) cells.push_back(absl::StrCat(cell));
    analysis.Add(std::vector<absl::string_view>(cells.begin(), cells.end()));
  }
  const absl::StatusOr<FeaturesSpec> spec = ProposeFeatures(analysis, "label", {}, notes);
  EXPECT_TRUE(spec.ok()) << spec.status();
  std::string made;
  for (const FeatureSpec& f : spec->features) absl::StrAppend(&made, f.name, " ", f.transform, " ");
  return made;
}

// Children, age, the year of joining and a salary: the ranges lie apart, and the widest is nearly
// all there is. Neither is one of them an id, nor is the salary left out.
TEST(CodesTest, QuantitiesWithRangesApartAreNotNumberedThrough) {
  Rng rng(1);
  ProposalNotes notes;
  const auto below = [&](uint64_t n) { return static_cast<int>(rng.Below(n)); };
  EXPECT_EQ(MadeOfIntegers(
                3000, 4,
                [&](int) -> std::vector<int> {
                  return {below(6), 18 + below(73), 1990 + below(31), 20'000 + below(70'001)};
                },
                &notes),
            "c1 normalize c1 discretize c2 normalize c2 discretize c3 normalize c3 discretize "
            "c4 normalize c4 discretize ");
  EXPECT_THAT(notes.numbered, IsEmpty());
  EXPECT_THAT(notes.unused, IsEmpty());
}

// A sample of Frappe: of users and items many are not seen, most of all those that come last.
TEST(CodesTest, SampledIdsAreNumberedThroughAllTheSame) {
  Rng rng(1);
  ProposalNotes notes;
  const auto popular = [&](int n) { return static_cast<int>(n * std::pow(rng.Uniform(), 1.5)); };
  const auto made = MadeOfIntegers(
      2500, 10,
      [&](int) {
        std::vector<int> ids;
        int from = 0;
        for (const int size : {957, 4082, 7, 7, 2, 3, 2, 9, 80, 233}) {
          ids.push_back(from + popular(size));
          from += size;
        }
        return ids;
      },
      &notes);
  EXPECT_THAT(made, testing::Not(testing::HasSubstr("normalize")));
  EXPECT_THAT(made, testing::StartsWith("c1 merge_rare c2 merge_rare c3 merge_rare c4 merge_rare"));
  EXPECT_THAT(notes.numbered, testing::SizeIs(10)) << "and it is told";
}

}  // namespace
}  // namespace rubato
