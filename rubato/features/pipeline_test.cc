// Rows through whole pipelines: what comes out, what is refused, and that neither the size of a
// chunk nor the way of calling makes a difference.
#include "rubato/features/pipeline.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "rubato/base/rng.h"
#include "rubato/data/criteo_generator.h"
#include "rubato/data/criteo_parser.h"
#include "rubato/data/ids.h"
#include "rubato/features/feature_parser.h"
#include "rubato/features/pipeline_testing.h"
#include "rubato/features/strangers.h"
#include "rubato/features/transforms.h"

namespace rubato {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

const std::vector<std::string> kColumns = {"click", "age", "city", "tags"};

// The batch that `rows` become.
Batch Apply(const FeaturesSpec& spec, const std::vector<std::vector<absl::string_view>>& rows) {
  return ApplyTo(kColumns, spec, rows);
}

std::string WhyNot(const FeaturesSpec& spec) {
  return std::string(Pipeline::Create(spec, kColumns, {}).status().message());
}

TEST(PipelineTest, NumbersAndTheirMissingValues) {
  FeaturesSpec spec;
  spec.missing = {"?"};
  spec.features = {Feature("number", {"age"}), Feature("normalize", {"age"}),
                   Feature("log", {"age"})};
  spec.features[1].name = "age_n";
  spec.features[1].mean = 40;
  spec.features[1].deviation = 10;
  spec.features[2].name = "age_l";
  spec.features[2].otherwise = 7;
  const Batch batch = Apply(spec, {{"1", "60", "", ""}, {"0", "?", "", ""}, {"0", "nan", "", ""}});
  EXPECT_THAT(batch.labels, ElementsAre(1, 0, 0));
  EXPECT_THAT(batch.dense,
              ElementsAre(60, 2, SignedLog(60), 0, 0, SignedLog(7), 0, 0, SignedLog(7)));
}

// Groups are told apart by their cells, in a column that no feature is made of as well.
TEST(PipelineTest, AGroupIsTheCellAsItCame) {
  FeaturesSpec spec;
  spec.missing = {"?"};
  spec.features = {Feature("number", {"age"})};
  const auto pipeline = Pipeline::Create(spec, kColumns, {.group = "city"});
  ASSERT_TRUE(pipeline.ok()) << pipeline.status();
  EXPECT_EQ(pipeline->shape().group, "city");
  RawChunk chunk = pipeline->NewChunk();
  for (const char* city : {"rome", "oslo", "rome", "", "?"}) {
    ASSERT_TRUE(chunk.Add({"1", "60", city, ""}).ok());
  }
  Batch batch;
  pipeline->Apply(chunk, &batch);
  ASSERT_EQ(batch.groups.size(), 5u);
  EXPECT_EQ(batch.groups[0], batch.groups[2]);
  EXPECT_NE(batch.groups[0], batch.groups[1]);
  EXPECT_FALSE(batch.groups[3].has_value()) << "rows of nobody are no group";
  EXPECT_FALSE(batch.groups[4].has_value());
  EXPECT_EQ(Pipeline::Create(spec, kColumns, {.group = "user"})->shape().group, "");
}

TEST(PipelineTest, IdsAndTheirMissingValues) {
  FeaturesSpec spec;
  spec.features = {Feature("discretize", {"age"}), Feature("hash", {"city"}),
                   Feature("lookup", {"tags"}),    Feature("merge_rare", {"city"}),
                   Feature("hash", {"tags"}),      Feature("round_identity", {"age"})};
  spec.features[0].boundaries = {18, 65};
  spec.features[2].vocabulary = {"x", "y"};
  spec.features[3].name = "city_rare";
  spec.features[3].vocabulary = {"rome"};
  spec.features[4].name = "tags_hash";
  spec.features[4].buckets = 10;
  spec.features[5].name = "age_round";
  spec.features[5].buckets = 100;
  spec.features[5].otherwise = 5;
  const Batch batch =
      Apply(spec, {{"1", "18", "rome", "y"}, {"0", "", "", ""}, {"0", "70", "oslo", "z"}});
  const auto missing = [](int field) { return FieldIdOfText(field, ""); };
  EXPECT_THAT(std::vector<uint64_t>(batch.ids.begin(), batch.ids.begin() + 6),
              ElementsAre(FieldIdOfInteger(0, 1), FieldIdOfText(1, "rome"), FieldIdOfInteger(2, 1),
                          FieldIdOfText(3, "rome"), FieldIdOfInteger(4, HashBucket("y", 10)),
                          FieldIdOfInteger(5, 18)));
  EXPECT_THAT(std::vector<uint64_t>(batch.ids.begin() + 6, batch.ids.begin() + 12),
              ElementsAre(missing(0), missing(1), missing(2), missing(3), missing(4),
                          FieldIdOfInteger(5, 5)));
  EXPECT_EQ(batch.ids[12], FieldIdOfInteger(0, 2));
  EXPECT_EQ(batch.ids[14], FieldIdOfInteger(2, 2)) << "a stranger";
  EXPECT_EQ(batch.ids[15], FieldIdOfInteger(3, kRareCode));
}

// A vocabulary kept from when blanks counted, as of a column char(8): the ids are those it trained.
TEST(PipelineTest, AWordOfAnotherSpellingHasTheIdOfTheVocabularys) {
  FeaturesSpec spec;
  spec.features = {Feature("merge_rare", {"city"}), Feature("lookup", {"tags"})};
  spec.features[0].vocabulary = {"rome    ", "oslo"};
  spec.features[1].vocabulary = {"17.0", "4.0"};
  spec.missing = {" ?"};
  const Batch batch =
      Apply(spec, {{"1", "", "rome", "4"}, {"0", "", "bern", "5"}, {"0", "", "?", ""}});
  EXPECT_THAT(batch.ids, ElementsAre(FieldIdOfText(0, "rome    "), FieldIdOfInteger(1, 1),
                                     FieldIdOfInteger(0, kRareCode), FieldIdOfInteger(1, 2),
                                     FieldIdOfText(0, ""), FieldIdOfText(1, "")));
}

// What a vocabulary does not have is counted by column; what is missing is no stranger.
TEST(PipelineTest, StrangersAreCountedByColumn) {
  FeaturesSpec spec;
  spec.features = {Feature("merge_rare", {"city"}), Feature("lookup", {"tags"}),
                   Feature("lookup", {"age"}), Feature("hash", {"city"})};
  spec.features[0].vocabulary = {"rome"};
  spec.features[1].vocabulary = {"x", "y"};
  spec.features[1].separator = std::string("|");
  spec.features[1].oov = 3;
  spec.features[2].vocabulary = {"1"};
  spec.features[3].name = "city_hash";
  const Strangers strangers(spec, Pipeline::Create(spec, kColumns, {})->shape());
  EXPECT_THAT(strangers.columns(), ElementsAre("city", "tags", "age"));
  std::vector<int64_t> counts = {0, 10, 0};
  strangers.Count(
      Apply(spec, {{"1", "1", "oslo", "x|z|w"}, {"0", "", "", ""}, {"0", "1", "rome", "y"}}),
      &counts);
  EXPECT_THAT(counts, ElementsAre(1, 12, 0));
}

// What lies beyond the buckets is one of them; what is missing stays apart from it.
TEST(PipelineTest, OutsideOfTheBuckets) {
  FeaturesSpec spec;
  spec.features = {Feature("round_identity", {"age"}), Feature("log_round", {"age"})};
  spec.features[1].name = "age_log";
  spec.features[1].base = 2;
  for (FeatureSpec& f : spec.features) f.buckets = 10, f.outside = 7;
  const Batch batch = Apply(
      spec, {{"1", "3.5", "", ""}, {"1", "-1", "", ""}, {"1", "2000", "", ""}, {"1", "", "", ""}});
  const auto round = [](int64_t bucket) { return FieldIdOfInteger(0, bucket); };
  const auto log = [](int64_t bucket) { return FieldIdOfInteger(1, bucket); };
  EXPECT_THAT(batch.ids, ElementsAre(round(4), log(2), round(7), log(7), round(7), log(7),
                                     FieldIdOfText(0, ""), FieldIdOfText(1, "")));
}

// A fraction is rounded down before it finds its bin, so that 2.9 is no more than 3 is.
TEST(PipelineTest, CriteoBinsOfAnyNumber) {
  FeaturesSpec spec;
  spec.features = {Feature("criteo", {"age"})};
  const std::pair<const char*, int64_t> cases[] = {
      {"-3", -3}, {"-0.5", -1}, {"0", 0}, {"2", 2}, {"2.9", 2}, {"3", 1}, {"10", 5}, {"1e6", 190}};
  for (const auto& [cell, bin] : cases) {
    EXPECT_THAT(Apply(spec, {{"1", cell, "", ""}}).ids, ElementsAre(FieldIdOfInteger(0, bin)))
        << cell;
  }
  EXPECT_THAT(Apply(spec, {{"1", "", "", ""}}).ids, ElementsAre(FieldIdOfText(0, "")));
  spec.features[0].otherwise = 10;
  EXPECT_THAT(Apply(spec, {{"1", "", "", ""}}).ids, ElementsAre(FieldIdOfInteger(0, 5)));
}

TEST(PipelineTest, BagsHoldAnyNumberOfValues) {
  FeaturesSpec spec;
  spec.features = {Feature("hash", {"tags"}), Feature("hash", {"city"})};
  spec.features[0].separator = "|";
  const absl::StatusOr<Pipeline> pipeline = Pipeline::Create(spec, kColumns, {});
  EXPECT_THAT(pipeline->shape().bags, ElementsAre(BagShape{"tags", "mean"}));
  const Batch batch =
      Apply(spec, {{"1", "", "rome", "a|b"}, {"0", "", "", ""}, {"0", "", "", "b"}});
  EXPECT_THAT(batch.bag_ends, ElementsAre(2, 2, 3));
  // Field 0 is the single one; bags are counted on after those.
  EXPECT_THAT(batch.bag_ids,
              ElementsAre(FieldIdOfText(1, "a"), FieldIdOfText(1, "b"), FieldIdOfText(1, "b")));
  EXPECT_EQ(batch.ids[0], FieldIdOfText(0, "rome"));
}

// A features.yaml from before there was the key means what it meant.
TEST(PipelineTest, BagsTakeBracketsOffOnlyIfTold) {
  FeaturesSpec spec;
  spec.features = {Feature("hash", {"tags"})};
  spec.features[0].separator = ",";
  const auto ids = [&] { return Apply(spec, {{"1", "", "", "['a', 6]"}}).bag_ids; };
  const auto tag = [](const char* text) { return FieldIdOfText(0, text); };
  EXPECT_THAT(ids(), ElementsAre(tag("['a'"), tag("6]")));
  spec.features[0].brackets = true;
  EXPECT_THAT(ids(), ElementsAre(tag("a"), tag("6")));
}

TEST(PipelineTest, ValuesOfABagMayHaveWeights) {
  FeaturesSpec spec;
  spec.features = {Feature("hash", {"tags"}), Feature("hash", {"city"})};
  spec.features[0].separator = "|";
  spec.features[0].weight_separator = ":";
  spec.features[1].separator = " ";
  const Batch batch = Apply(spec, {{"1", "", "new york", "a:0.5|b|c:-2e1"},
                                   {"0", "", "", ""},
                                   {"0", "", "oslo", "http://d|:3|e:x"}});
  const auto tag = [](const char* text) { return FieldIdOfText(0, text); };
  const auto city = [](const char* text) { return FieldIdOfText(1, text); };
  EXPECT_THAT(batch.bag_ids, ElementsAre(tag("a"), tag("b"), tag("c"), city("new"), city("york"),
                                         tag("http://d"), tag(":3"), tag("e:x"), city("oslo")));
  EXPECT_THAT(batch.bag_weights, ElementsAre(0.5f, 1, -20, 1, 1, 1, 1, 1, 1));

  spec.features[0].separator = "";
  EXPECT_THAT(std::string(spec.Validate().message()), testing::HasSubstr("needs a separator"));
}

TEST(PipelineTest, ConcatenateShiftsEveryPart) {
  FeaturesSpec spec;
  spec.features = {Feature("discretize", {"age"}), Feature("lookup", {"city"}),
                   Feature("concatenate", {"age", "city"})};
  spec.features[0].boundaries = {18, 65};
  spec.features[1].vocabulary = {"rome", "oslo"};
  spec.features[2].name = "both";
  Batch batch = Apply(spec, {{"1", "20", "oslo", ""}, {"0", "", "rome", ""}});
  EXPECT_THAT(batch.bag_ends, ElementsAre(2, 3));
  EXPECT_THAT(batch.bag_ids, ElementsAre(FieldIdOfInteger(2, 1), FieldIdOfInteger(2, 3 + 1),
                                         FieldIdOfInteger(2, 3 + 0)));
  spec.features[2].offsets = {0, 100};
  batch = Apply(spec, {{"1", "20", "oslo", ""}});
  EXPECT_THAT(batch.bag_ids, ElementsAre(FieldIdOfInteger(2, 1), FieldIdOfInteger(2, 101)));
}

TEST(PipelineTest, CrossesOfColumnsAndFeatures) {
  FeaturesSpec spec;
  spec.features = {Feature("discretize", {"age"}), Feature("cross", {"age", "city"})};
  spec.features[0].boundaries = {18, 65};
  spec.features[1].name = "age_city";
  const Batch batch = Apply(spec, {{"1", "20", "rome", ""},
                                   {"1", "30", "rome", ""},
                                   {"1", "70", "rome", ""},
                                   {"1", "20", "oslo", ""}});
  const auto id = [&](int row) { return batch.ids[static_cast<size_t>(2 * row + 1)]; };
  EXPECT_EQ(id(0), id(1)) << "the same bin and the same city";
  EXPECT_NE(id(0), id(2));
  EXPECT_NE(id(0), id(3));
  spec.features[1].buckets = 7;
  const Batch few = Apply(spec, {{"1", "20", "rome", ""}});
  bool is_bucket = false;
  for (int b = 0; b < 7; ++b) is_bucket |= few.ids[1] == FieldIdOfInteger(1, b);
  EXPECT_TRUE(is_bucket);
}

TEST(PipelineTest, LabelsAsTextNeedToKnowThePositiveOnes) {
  FeaturesSpec spec;
  spec.label = "city";
  spec.features = {Feature("number", {"age"})};
  RawChunk chunk = Pipeline::Create(spec, kColumns, {})->NewChunk();
  const std::vector<absl::string_view> row = {"", "1", ">50K", ""};
  EXPECT_THAT(chunk.Add(row).message(), HasSubstr("column 'city', '>50K', is not a label"));
  spec.positive = {">50K", ">50K."};
  EXPECT_THAT(Apply(spec, {row, {"", "1", "<=50K", ""}, {"", "1", ">50K.", ""}}).labels,
              ElementsAre(1, 0, 1));
  RawChunk strict = Pipeline::Create(spec, kColumns, {})->NewChunk();
  EXPECT_FALSE(strict.Add({"", "1", "", ""}).ok()) << "no label at all";
}

// A label that is not there, or is spelt otherwise, is no "no".
TEST(PipelineTest, StrangeAndMissingLabelsAreBadRows) {
  FeaturesSpec spec;
  spec.label = "city";
  spec.positive = {"yes"};
  spec.missing = {"NA"};
  spec.features = {Feature("number", {"age"})};
  const auto why = [&](absl::string_view label) {
    RawChunk chunk = Pipeline::Create(spec, kColumns, {})->NewChunk();
    return std::string(chunk.Add({"", "1", label, ""}).message());
  };
  EXPECT_EQ(why("no"), "");
  EXPECT_EQ(why("YES"), "") << "nobody said what a no is";
  EXPECT_EQ(why("NA"), "column 'city', 'NA', is not a label; it is missing");
  EXPECT_EQ(why(""), "column 'city', '', is not a label; it is missing");
  spec.negative = {"no"};
  EXPECT_EQ(why("no"), "");
  for (const char* label : {"YES", "NO", "NA", ""}) {
    EXPECT_THAT(why(label), HasSubstr("neither in `positive` nor in `negative`")) << label;
  }
  EXPECT_THAT(Apply(spec, {{"", "1", "no", ""}, {"", "1", "yes", ""}}).labels, ElementsAre(0, 1));
  spec.negative = {"no", "yes"};
  EXPECT_EQ(spec.Validate().message(), "label: 'yes' is positive and negative");
  spec.positive.clear();
  EXPECT_THAT(spec.Validate().message(), HasSubstr("negative needs positive"));
}

// Where labels are numbers, it is the number that counts, and not how it is written.
TEST(PipelineTest, LabelsOfNumbersMayBeWrittenOtherwise) {
  FeaturesSpec spec;
  spec.label = "city";
  spec.positive = {"+1"};
  spec.negative = {"-1", "0"};
  spec.features = {Feature("number", {"age"})};
  const auto label_of = [&](absl::string_view label) -> float {
    RawChunk chunk = Pipeline::Create(spec, kColumns, {})->NewChunk();
    const absl::Status status = chunk.Add({"", "1", label, ""});
    return status.ok() ? Apply(spec, {{"", "1", label, ""}}).labels[0] : -1;
  };
  for (const char* label : {"+1", "1", "1.0", "1e0"}) EXPECT_EQ(label_of(label), 1) << label;
  for (const char* label : {"-1", "-1.0", "0", "-0", "0.0"}) EXPECT_EQ(label_of(label), 0) << label;
  for (const char* label : {"2", "nan", "one", ""}) EXPECT_EQ(label_of(label), -1) << label;
  spec.negative = {};
  EXPECT_EQ(label_of("1.0"), 1);
  EXPECT_EQ(label_of("none"), 0);
  spec.negative = {"none"};
  EXPECT_EQ(label_of("1.0"), -1) << "beside a word, digits are a word";
}

TEST(PipelineTest, RowsToPredictNeedNoLabel) {
  FeaturesSpec spec;
  spec.features = {Feature("number", {"age"})};
  RawChunk chunk = Pipeline::Create(spec, kColumns, {.has_labels = false})->NewChunk();
  EXPECT_TRUE(chunk.Add({"", "1", "", ""}).ok());
  spec.label = "city";
  spec.positive = {"yes"};
  spec.negative = {"no"};
  RawChunk answers = Pipeline::Create(spec, kColumns, {.has_labels = false})->NewChunk();
  EXPECT_TRUE(answers.Add({"", "1", "maybe", ""}).ok());
}

TEST(PipelineTest, MalformedNumbersMakeABadRowOrAMissingValue) {
  FeaturesSpec spec;
  spec.features = {Feature("hash", {"city"}), Feature("number", {"age"})};
  RawChunk chunk = Pipeline::Create(spec, kColumns, {})->NewChunk();
  EXPECT_THAT(chunk.Add({"1", "old", "rome", ""}).message(),
              HasSubstr("column 'age', 'old', is not a finite number"));
  EXPECT_THAT(chunk.Add({"1", "3"}).message(), HasSubstr("has 2 columns, not 4"));
  EXPECT_EQ(chunk.rows(), 0u);
  ASSERT_TRUE(chunk.Add({"1", "3", "oslo", ""}).ok());
  EXPECT_EQ(chunk.text(0)[0], "oslo") << "nothing stays of a refused row";
  spec.features[1].malformed_is_missing = true;
  EXPECT_THAT(Apply(spec, {{"1", "old", "rome", ""}}).dense, ElementsAre(0));
}

// Models' numbers have 32 bits: what becomes infinite there is malformed, but has a bin and a
// logarithm.
TEST(PipelineTest, ANumberTooLargeForTheModelIsMalformed) {
  for (const char* transform : {"number", "normalize"}) {
    for (const char* large : {"3.5e38", "-1e300"}) {
      FeaturesSpec spec;
      spec.features = {Feature(transform, {"age"}), Feature("discretize", {"age"})};
      spec.features[0].mean = 7;
      spec.features[1].name = "bin";
      spec.features[1].boundaries = {0};
      RawChunk chunk = Pipeline::Create(spec, kColumns, {})->NewChunk();
      EXPECT_THAT(chunk.Add({"1", large, "rome", ""}).message(),
                  HasSubstr(absl::StrCat("column 'age', '", large, "', is larger than")));
      EXPECT_EQ(chunk.rows(), 0u);
      for (FeatureSpec& f : spec.features) f.malformed_is_missing = true;
      const Batch as_missing = Apply(spec, {{"1", large, "", ""}, {"1", "", "", ""}});
      EXPECT_THAT(as_missing.dense, ElementsAre(0, 0));
      EXPECT_EQ(as_missing.ids[0], as_missing.ids[1]);
      EXPECT_GT(Apply(spec, {{"1", "3.4e38", "", ""}}).dense[0], 3e38f);
      spec.features.erase(spec.features.begin());
      const Batch bins = Apply(spec, {{"1", large, "", ""}, {"1", "1", "", ""}, {"1", "", "", ""}});
      EXPECT_EQ(bins.ids[0] == bins.ids[1], *large == '3');
      EXPECT_NE(bins.ids[0], bins.ids[2]);
    }
  }
  FeaturesSpec log;
  log.features = {Feature("log", {"age"})};
  EXPECT_NEAR(Apply(log, {{"1", "1e300", "", ""}}).dense[0], 690.8, 0.1);
  RawChunk chunk = Pipeline::Create(log, kColumns, {})->NewChunk();
  EXPECT_THAT(chunk.Add({"1e39", "1", "", ""}).message(), HasSubstr("is not a label"));
}

TEST(PipelineTest, SaysWhatIsWrongWithAFeature) {
  const auto why = [](auto change) {
    FeaturesSpec spec;
    spec.features = {Feature("number", {"age"})};
    spec.features[0].where = "features.yaml:3";
    change(spec.features[0]);
    return WhyNot(spec);
  };
  using F = FeatureSpec;
  EXPECT_EQ(why([](F& f) { f.columns = {"agee"}; }),
            "features.yaml:3: feature 'age': column: the data has no column 'agee'; did you mean "
            "'age'?");
  EXPECT_THAT(why([](F& f) { f.transform = "normalise"; }), HasSubstr("did you mean 'normalize'?"));
  EXPECT_THAT(why([](F& f) {
                f.transform = "normalize";
                f.deviation = 0;
              }),
              HasSubstr("deviation: 0 cannot be divided by"));
  EXPECT_THAT(why([](F& f) { f.otherwise = 1e39; }), HasSubstr("default: 1e+39 is not finite"));
  EXPECT_THAT(why([](F& f) {
                f.transform = "discretize";
                f.boundaries = {1, 3, 2};
              }),
              HasSubstr("boundaries: 2 comes after 3"));
  EXPECT_THAT(why([](F& f) { f.transform = "discretize"; }), HasSubstr("boundaries"));
  EXPECT_THAT(why([](F& f) {
                f.transform = "lookup";
                f.vocabulary = {"a", "a"};
              }),
              HasSubstr("'a' is word 1 and again word 2"));
  EXPECT_THAT(why([](F& f) { f.transform = "round_identity"; }), HasSubstr("buckets"));
  EXPECT_THAT(why([](F& f) {
                f.transform = "hash";
                f.combiner = "men";
              }),
              HasSubstr("did you mean 'mean'?"));
  EXPECT_THAT(why([](F& f) { f.transform = "cross"; }), HasSubstr("needs at least two"));
  EXPECT_THAT(why([](F& f) {
                f.transform = "concatenate";
                f.columns = {"age", "city"};
              }),
              HasSubstr("no feature above makes ids called 'age'"));
  FeaturesSpec twice;
  twice.features = {Feature("number", {"age"}), Feature("log", {"age"})};
  EXPECT_THAT(WhyNot(twice), HasSubstr("another feature has it already"));
  FeaturesSpec label;
  label.label = "clicks";
  label.features = {Feature("number", {"age"})};
  EXPECT_THAT(WhyNot(label), HasSubstr("did you mean 'click'?"));
  label.label = "click";
  EXPECT_THAT(WhyNot(label), testing::IsEmpty());
}

// Of features that are made of features, and of buckets.
TEST(PipelineTest, SaysWhatIsWrongWithTheParts) {
  const auto why = [](auto change) {
    FeaturesSpec spec;
    spec.features = {Feature("discretize", {"age"}), Feature("lookup", {"city"}),
                     Feature("concatenate", {"age", "city"})};
    spec.features[0].boundaries = {18, 65};
    spec.features[1].vocabulary = {"rome"};
    spec.features[2].name = "both";
    change(spec.features);
    return WhyNot(spec);
  };
  using Fs = std::vector<FeatureSpec>;
  EXPECT_EQ(why([](Fs&) {}), "");
  EXPECT_THAT(why([](Fs& f) { f[2].offsets = {0}; }), HasSubstr("offsets: 1 for 2 columns"));
  EXPECT_THAT(why([](Fs& f) { f[1].transform = "hash"; }),
              HasSubstr("'city' has no bound on its ids, so the next one has no offset"));
  EXPECT_THAT(why([](Fs& f) { f[1].separator = "|"; }),
              HasSubstr("'city' has several values a row; concatenate takes features of one"));
  EXPECT_THAT(why([](Fs& f) { f[1].transform = "hash", f[1].buckets = -1; }),
              HasSubstr("buckets: hash needs 1 or more, not -1"));
  EXPECT_THAT(why([](Fs& f) { f[1].oov = 0; }), HasSubstr("oov: 0 is less than 1"));
  EXPECT_THAT(why([](Fs& f) { f[1].separator = "||"; }), HasSubstr("is not one character"));
  EXPECT_THAT(why([](Fs& f) { f[1].brackets = true; }),
              HasSubstr("'city': brackets: needs a separator of values"));
  EXPECT_THAT(why([](Fs& f) { f[0].transform = "log_round", f[0].buckets = 5, f[0].base = 1; }),
              HasSubstr("base: 1 is not above 1 (0 is e)"));
  EXPECT_THAT(
      why([](Fs& f) { f[0].transform = "round_identity", f[0].buckets = 5, f[0].outside = 5; }),
      HasSubstr("outside: 5 is not one of the 5 buckets, 0 to 4"));
}

// All of Criteo as features: what the built-in parser makes of the same rows, bit for bit.
FeaturesSpec CriteoFeatures() {
  FeaturesSpec spec;
  for (const char* transform : {"log", "criteo"}) {
    for (int i = 1; i <= kCriteoIntegers; ++i) {
      spec.features.push_back(Feature(transform, {absl::StrCat("I", i)}));
    }
  }
  for (int i = 1; i <= kCriteoTexts; ++i) {
    spec.features.push_back(Feature("hash", {absl::StrCat("C", i)}));
  }
  return spec;
}

TEST(FeatureParserTest, CriteoAsFeaturesIsCriteo) {
  const CriteoGenerator generator({.cardinality_max = 1000});
  Rng rng(3);
  const auto parser = FeatureParser::Create(DataSpec{.format = "criteo"}, "", CriteoFeatures());
  ASSERT_TRUE(parser.ok()) << parser.status();
  const CriteoParser plain;
  EXPECT_EQ((*parser)->shape().ids, plain.shape().ids);
  EXPECT_EQ((*parser)->shape().dense, plain.shape().dense);
  Batch expected, batch;
  const auto block = (*parser)->NewBlock();
  for (int i = 0; i < 1000; ++i) {
    std::string row;
    generator.AppendRow(rng, &row);
    row.pop_back();
    ASSERT_TRUE(plain.Parse(row, &expected).ok());
    ASSERT_TRUE(block->Add(row).ok());
  }
  block->Finish(&batch);
  EXPECT_EQ(batch.rows, 1000);
  EXPECT_EQ(batch.labels, expected.labels);
  EXPECT_EQ(batch.dense, expected.dense);
  EXPECT_EQ(batch.ids, expected.ids);
}

// A pipeline with everything in it, and rows with everything wrong that is allowed.
class AnyRowsTest : public testing::TestWithParam<uint64_t> {
 protected:
  static FeaturesSpec Everything() {
    FeaturesSpec spec;
    spec.missing = {"?", "NA"};
    spec.features = {
        Feature("number", {"age"}),        Feature("normalize", {"age"}),
        Feature("log", {"age"}),           Feature("discretize", {"age"}),
        Feature("log_round", {"age"}),     Feature("round_identity", {"age"}),
        Feature("criteo", {"age"}),        Feature("time_part", {"age"}),
        Feature("hash", {"city"}),         Feature("lookup", {"city"}),
        Feature("merge_rare", {"city"}),   Feature("hash", {"tags"}),
        Feature("lookup", {"tags"}),       Feature("merge_rare", {"tags"}),
        Feature("cross", {"age", "city"}), Feature("concatenate", {"f3", "f9"}),
    };
    for (size_t i = 0; i < spec.features.size(); ++i) {
      FeatureSpec& f = spec.features[i];
      f.name = absl::StrCat("f", i);
      f.boundaries = {-5, 0, 10};
      f.vocabulary = {"a", "b", "ab"};
      if (f.transform == "log_round" || f.transform == "round_identity") f.buckets = 20;
      if (f.transform == "time_part") f.part = "hour", f.unit = "seconds";
      if (f.columns[0] == "tags") f.separator = "|";
      if (f.columns[0] == "tags" && f.transform == "hash") f.weight_separator = ":";
      if (f.columns[0] == "tags" && f.transform == "lookup") f.values_max = 2;
      f.malformed_is_missing = true;
    }
    return spec;
  }

  static std::string Row(Rng& rng) {
    const std::vector<std::string> ages = {"", "?", "nan", "x", "3", "-7", "12.5", "1e99", "-0"};
    const std::vector<std::string> texts = {"", "NA", "a", "b", "ab", "zz", "\"a,b\"", "q\"q"};
    const std::vector<std::string> tags = {"", "a", "a|b|zz", "||", "?", "ab|ab", "a:2|b:-0.5|c:x"};
    return absl::StrCat(rng.Below(2), ",", ages[rng.Below(ages.size())], ",",
                        texts[rng.Below(texts.size())], ",", tags[rng.Below(tags.size())]);
  }
};

TEST_P(AnyRowsTest, AChunkIsItsRows) {
  Rng rng(GetParam());
  const DataSpec data = {.format = "csv"};
  const auto parser = FeatureParser::Create(data, "click,age,city,tags", Everything());
  ASSERT_TRUE(parser.ok()) << parser.status();
  Batch one_by_one, together;
  const auto block = (*parser)->NewBlock();
  const uint64_t rows = 1 + rng.Below(700);
  for (uint64_t i = 0; i < rows; ++i) {
    const std::string row = Row(rng);
    ASSERT_TRUE((*parser)->Parse(row, &one_by_one).ok()) << row;
    ASSERT_TRUE(block->Add(row).ok()) << row;
    ASSERT_FALSE(block->Add(row + ",").ok());
  }
  block->Finish(&together);
  EXPECT_EQ(together.rows, static_cast<int64_t>(rows));
  EXPECT_EQ(together.labels, one_by_one.labels);
  EXPECT_EQ(together.dense, one_by_one.dense);
  EXPECT_EQ(together.ids, one_by_one.ids);
  EXPECT_EQ(together.bag_ends, one_by_one.bag_ends);
  EXPECT_EQ(together.bag_ids, one_by_one.bag_ids);
  EXPECT_EQ(together.bag_weights, one_by_one.bag_weights);
  EXPECT_EQ(together.bag_weights.size(), together.bag_ids.size());
}

INSTANTIATE_TEST_SUITE_P(Seeds, AnyRowsTest, testing::Range<uint64_t>(0, 20));

}  // namespace
}  // namespace rubato
