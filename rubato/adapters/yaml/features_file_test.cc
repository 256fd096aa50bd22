// features.yaml as people write it, what is said when they slip, and that what is written reads
// back as it was.
#include "rubato/adapters/yaml/features_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "rubato/adapters/files/files.h"
#include "rubato/adapters/files/testing.h"
#include "rubato/base/rng.h"
#include "rubato/features/pipeline.h"
#include "rubato/features/times.h"

namespace rubato {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

TEST(FeaturesFileTest, ReadsWhatPeopleWrite) {
  const absl::StatusOr<FeaturesSpec> spec = ParseFeaturesText(R"(
label: {column: income, positive: ">50K", negative: ["<=50K", "less"]}
missing: "?"
features:
  - {column: age, transform: discretize, boundaries: [18, 30.5, 65]}
  - column: city
    name: town
    transform: lookup
    vocabulary: |
      new york
      rome
    oov: 5
  - {name: both, columns: [age, town], transform: cross, buckets: 100}
)",
                                                              "f.yaml");
  ASSERT_TRUE(spec.ok()) << spec.status();
  EXPECT_EQ(spec->label, "income");
  EXPECT_THAT(spec->positive, ElementsAre(">50K"));
  EXPECT_THAT(spec->negative, ElementsAre("<=50K", "less"));
  EXPECT_THAT(spec->missing, ElementsAre("?"));
  ASSERT_EQ(spec->features.size(), 3u);
  EXPECT_EQ(spec->features[0].name, "age");
  EXPECT_THAT(spec->features[0].boundaries, ElementsAre(18, 30.5, 65));
  EXPECT_THAT(spec->features[1].vocabulary, ElementsAre("new york", "rome"));
  EXPECT_EQ(spec->features[1].oov, 5);
  EXPECT_THAT(spec->features[2].columns, ElementsAre("age", "town"));
}

TEST(FeaturesFileTest, EveryErrorSaysWhere) {
  const auto why = [](const std::string& feature) {
    const std::string text = absl::StrCat("label: y\nfeatures:\n  - ", feature, "\n");
    return std::string(ParseFeaturesText(text, "f.yaml").status().message());
  };
  const struct {
    const char* feature;
    const char* words;
  } cases[] = {
      {"{column: a, transform: hash, bukets: 3}",
       "f.yaml:3: unknown key 'bukets' of hash; did you mean 'buckets'?"},
      {"{column: a, transform: hash, mean: 3}", "f.yaml:3: unknown key 'mean' of hash"},
      {"{column: a, transform: hash, buckets: 0}",
       "f.yaml:3: buckets: hash needs 1 or more, not 0"},
      {"{column: a, transform: hash, buckets: many}",
       "f.yaml:3: buckets: expected an integer, found 'many'"},
      {"{column: a, transform: hash, separator: ',', brackets: round}",
       "f.yaml:3: brackets: expected true or false, found 'round'"},
      {"{column: a, transform: hash, brackets: true}",
       "f.yaml:3: feature 'a': brackets: needs a separator of values"},
      {"{column: a, transform: hsh}", "f.yaml:3: feature 'a': transform: 'hsh' is not one of"},
      {"{column: a}", "f.yaml:3: a feature needs a transform"},
      {"{column: a, transfrom: hash}",
       "f.yaml:3: unknown key 'transfrom' of a feature; did you mean 'transform'?"},
      {"{column: a, transform: discretize, boundaries: [3, 2]}",
       "f.yaml:3: feature 'a': boundaries: 2 comes after 3; they must grow"},
      {"{column: a, transform: discretize, boundaries: [3, x]}",
       "f.yaml:3: boundaries: expected a number, found 'x'"},
      {"{column: a, transform: normalize, deviation: 0}",
       "f.yaml:3: feature 'a': deviation: 0 cannot be divided by"},
      {"{column: a, transform: lookup, vocabulary: [x, y, x]}",
       "f.yaml:3: feature 'a': vocabulary: 'x' is word 1 and again word 3"},
      {"{column: a, transform: lookup, vocabulary_file: nowhere.txt}", "nowhere.txt"},
      {"{column: a, transform: number, decimal: ','}",
       "f.yaml:3: decimal: ',' is not point or comma"},
      {"{column: a, transform: number, malformed: drop}",
       "f.yaml:3: malformed: 'drop' is not fail or missing"},
      {"{column: a, column: b, transform: number}", "f.yaml:3: key 'column' was given already"},
      {"text", "f.yaml:3: a feature has keys and values, not 'text'"},
      {"{column: a, transform: [", "f.yaml:4: "},
  };
  for (const auto& c : cases) EXPECT_THAT(why(c.feature), HasSubstr(c.words));
  EXPECT_THAT(ParseFeaturesText("feature: []", "f.yaml").status().message(),
              HasSubstr("f.yaml:1: unknown key 'feature'; did you mean 'features'?"));
  EXPECT_THAT(ParseFeaturesText("label: y", "f.yaml").status().message(),
              HasSubstr("f.yaml: features: name at least one"));
}

TEST(FeaturesFileTest, AVocabularyFileBecomesPartOfTheFeatures) {
  const TestFolder folder;
  ASSERT_TRUE(WriteFileAtomically(folder.File("v.txt"), "a \nb\r\n\nc", Durability::kProcess).ok());
  const std::string text = "features: [{column: x, transform: lookup, vocabulary_file: v.txt}]";
  const std::string path = folder.File("f.yaml");
  ASSERT_TRUE(WriteFileAtomically(path, text, Durability::kProcess).ok());
  const absl::StatusOr<FeaturesSpec> spec = LoadFeaturesFile(path);
  ASSERT_TRUE(spec.ok()) << spec.status();
  EXPECT_THAT(spec->features[0].vocabulary, ElementsAre("a", "b", "", "c"));
  ASSERT_TRUE(WriteFileAtomically(folder.File("v.txt"), "a\nb\na\n", Durability::kProcess).ok());
  EXPECT_THAT(LoadFeaturesFile(path).status().message(),
              HasSubstr("v.txt: vocabulary: 'a' is word 1 and again word 3"));
  ASSERT_TRUE(WriteFileAtomically(folder.File("v.txt"), "a\n\xff\n", Durability::kProcess).ok());
  EXPECT_THAT(LoadFeaturesFile(path).status().message(), HasSubstr("line 2 is not UTF-8"));
}

// Adds a feature of all before it whose ids have a bound, if there are some.
void Concatenate(Rng& rng, FeaturesSpec* spec) {
  FeatureSpec f = {.name = "together", .transform = "concatenate"};
  for (const FeatureSpec& part : spec->features) {
    const bool bound =
        part.buckets > 0 || part.transform == "discretize" || part.transform == "lookup";
    if (bound && !part.is_bag()) f.columns.push_back(part.name);
  }
  if (f.columns.size() < 2) return;
  if (rng.Chance(0.5)) f.combiner = "sum";
  if (rng.Chance(0.5)) {
    for (size_t i = 0; i < f.columns.size(); ++i)
      f.offsets.push_back(static_cast<int64_t>(1000 * i));
  }
  spec->features.push_back(std::move(f));
}

// Any features at all, of odd texts and numbers.
FeaturesSpec AnyFeatures(Rng& rng) {
  const auto word = [&] {
    const std::vector<std::string> pieces = {"a",  "Z",   "é", "\"", "\\", ": ", "#", "\t", "-",
                                             "no", "1e3", "'", "\n", " ",  "[",  "|", "日"};
    std::string text;
    for (uint64_t i = 0, n = 1 + rng.Below(4); i < n; ++i) text += pieces[rng.Below(pieces.size())];
    return text;
  };
  const auto number = [&] { return rng.Normal() * std::exp(10 * rng.Normal()); };
  FeaturesSpec spec;
  spec.label = word();
  if (rng.Chance(0.5)) spec.positive = {word(), word()};
  if (!spec.positive.empty() && rng.Chance(0.5)) spec.negative = {"(" + word(), "("};
  if (spec.positive.empty() && rng.Chance(0.5)) spec.at_least = rng.Uniform() * 10 - 5;
  if (rng.Chance(0.5)) spec.missing = {word(), "?"};
  for (uint64_t i = 0, n = 1 + rng.Below(8); i < n; ++i) {
    FeatureSpec f;
    f.transform = TransformNames()[rng.Below(TransformNames().size() - 1)];
    f.name = absl::StrCat(word(), i);
    f.columns = {word()};
    if (f.transform == "cross") f.columns.push_back(word());
    if (f.transform == "normalize") f.mean = number(), f.deviation = std::abs(number()) + 1e-9;
    if (f.transform == "normalize" && rng.Chance(0.5)) f.min = -std::abs(number());
    if (f.transform == "normalize" && rng.Chance(0.5)) f.max = std::abs(number());
    if (f.transform == "discretize") {
      f.boundaries = {number()};
      for (int b = 0; b < 5; ++b) f.boundaries.push_back(f.boundaries.back() + 1 + rng.Uniform());
    }
    if (f.transform == "log_round") f.base = 1 + rng.Uniform(0.1, 9), f.buckets = 7;
    if (f.transform == "round_identity") f.buckets = 1 + static_cast<int64_t>(rng.Below(99));
    if (f.transform == "log_round") f.outside = static_cast<int64_t>(rng.Below(7));
    if ((f.transform == "hash" || f.transform == "cross") && rng.Chance(0.5)) f.buckets = 1000;
    if (f.transform == "lookup" || f.transform == "merge_rare") {
      for (int w = 0; w < 1 + static_cast<int>(rng.Below(40)); ++w) {
        f.vocabulary.push_back(absl::StrCat(rng.Chance(0.02) ? word() : "w", w));
      }
    }
    if (f.transform == "lookup") f.oov = 1 + static_cast<int64_t>(rng.Below(3));
    // By the column: features that read one read it alike.
    const NumberStyle style = static_cast<NumberStyle>(f.columns[0].size() % kNumberStyles);
    const bool is_plain = style == NumberStyle::kPlain;
    if (f.transform == "time_part" && !IsTime(style) && !is_plain) f.transform = "criteo";
    if (f.transform == "time_part") {
      f.part = TimePartNames()[rng.Below(4)];
      if (is_plain) f.unit = TimeUnitNames()[rng.Below(TimeUnitNames().size())];
      f.set_style(style);
      f.read = "number";
    } else if (ReadsNumber(f.transform)) {
      f.set_style(style);
      if (rng.Chance(0.5)) f.otherwise = number();
    }
    if (ReadsNumber(f.transform)) f.malformed_is_missing = rng.Chance(0.5);
    if (f.transform != "cross" && f.columns[0].size() % 3 == 0) f.missing = {"x", "a: [\"b\"]"};
    if (ReadsText(f.transform) && rng.Chance(0.3)) {
      f.separator = "|";
      f.weight_separator = ":";
      f.brackets = rng.Chance(0.5);
      f.values_max = static_cast<int64_t>(rng.Below(5));
      f.combiner = rng.Chance(0.5) ? "sqrtn" : "sum";
    }
    spec.features.push_back(std::move(f));
  }
  Concatenate(rng, &spec);
  return spec;
}

// All cells of a row; some are no number, for whoever wants one.
std::vector<std::string> AnyRow(Rng& rng, size_t columns) {
  const std::vector<std::string> cells = {
      "",          "?",   "nan", "w1", "w3",         "x",           "w2|w7|zz",         "[w2|'w7']",
      "0",         "-12", "2.5", "7",  "1794978554", "w1:0.5|w2:x", "2026-11-18 05:09", "$1,250",
      "11/18/2026"};
  std::vector<std::string> row = {"1"};
  while (row.size() < columns) row.push_back(cells[rng.Below(cells.size())]);
  return row;
}

// What `spec` makes of rows of `columns`, and how many of them it refuses.
std::pair<Batch, int> Applied(const FeaturesSpec& spec, const std::vector<std::string>& columns,
                              const std::vector<std::vector<std::string>>& rows) {
  std::pair<Batch, int> applied;
  const absl::StatusOr<Pipeline> pipeline = Pipeline::Create(spec, columns, {});
  EXPECT_TRUE(pipeline.ok()) << pipeline.status();
  if (!pipeline.ok()) return applied;
  RawChunk chunk = pipeline->NewChunk();
  for (const std::vector<std::string>& row : rows) {
    const std::vector<absl::string_view> cells(row.begin(), row.end());
    applied.second += !chunk.Add(cells).ok();
  }
  pipeline->Apply(chunk, &applied.first);
  return applied;
}

class AnyFeaturesTest : public testing::TestWithParam<uint64_t> {};

TEST_P(AnyFeaturesTest, WrittenAndReadIsTheSame) {
  Rng rng(GetParam());
  const FeaturesSpec spec = AnyFeatures(rng);
  ASSERT_TRUE(spec.Validate().ok()) << spec.Validate();
  const std::string text = FormatFeaturesText(spec);
  const absl::StatusOr<FeaturesSpec> again = ParseFeaturesText(text, "f.yaml");
  ASSERT_TRUE(again.ok()) << again.status() << "\n" << text;
  EXPECT_EQ(*again, spec) << text;
  EXPECT_EQ(FormatFeaturesText(*again), text);
}

// Written, loaded and applied: the same batch, of the same rows.
TEST_P(AnyFeaturesTest, TheLoadedPipelineMakesTheSameBatch) {
  Rng rng(GetParam());
  const FeaturesSpec spec = AnyFeatures(rng);
  const absl::StatusOr<FeaturesSpec> loaded = ParseFeaturesText(FormatFeaturesText(spec), "f.yaml");
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  std::vector<std::string> columns = {spec.label};  // And all that is read, each once.
  for (const FeatureSpec& f : spec.features) {
    if (f.transform == "concatenate") continue;
    for (const std::string& column : f.columns) {
      const bool known = std::find(columns.begin(), columns.end(), column) != columns.end();
      if (!known) columns.push_back(column);
    }
  }
  std::vector<std::vector<std::string>> rows;
  for (int i = 0; i < 50; ++i) rows.push_back(AnyRow(rng, columns.size()));
  const auto [expected, refused] = Applied(spec, columns, rows);
  const auto [batch, refused_too] = Applied(*loaded, columns, rows);
  EXPECT_EQ(refused_too, refused);
  EXPECT_EQ(batch.rows, expected.rows);
  EXPECT_EQ(batch.labels, expected.labels);
  EXPECT_EQ(batch.dense, expected.dense);
  EXPECT_EQ(batch.ids, expected.ids);
  EXPECT_EQ(batch.bag_ends, expected.bag_ends);
  EXPECT_EQ(batch.bag_ids, expected.bag_ids);
  EXPECT_EQ(batch.bag_weights, expected.bag_weights);
}

INSTANTIATE_TEST_SUITE_P(Seeds, AnyFeaturesTest, testing::Range<uint64_t>(0, 200));

// Numbers that have no short way of writing them, at the edges of bins.
TEST(FeaturesFileTest, LoadedNumbersAreTheSameToTheLastBit) {
  FeaturesSpec spec;
  spec.features.resize(2);
  spec.features[0] = {.name = "n", .transform = "normalize", .columns = {"x"}, .mean = 0.1};
  spec.features[0].deviation = 1.0 / 3;
  spec.features[1] = {.name = "c", .transform = "discretize", .columns = {"x"}};
  spec.features[1].boundaries = {0.1, 0.2, 0.30000000000000004};
  const absl::StatusOr<FeaturesSpec> loaded = ParseFeaturesText(FormatFeaturesText(spec), "f");
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  Batch batches[2];
  const FeaturesSpec* specs[2] = {&spec, &*loaded};
  for (int i = 0; i < 2; ++i) {
    const absl::StatusOr<Pipeline> pipeline = Pipeline::Create(*specs[i], {"y", "x"}, {});
    RawChunk chunk = pipeline->NewChunk();
    for (const char* x : {"0.1", "0.3", "0.30000000000000004", "", "7e22"}) {
      ASSERT_TRUE(chunk.Add({"1", x}).ok());
    }
    pipeline->Apply(chunk, &batches[i]);
  }
  EXPECT_EQ(batches[0].dense, batches[1].dense);
  EXPECT_EQ(batches[0].ids, batches[1].ids);
}

}  // namespace
}  // namespace rubato
