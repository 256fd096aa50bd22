#include "rubato/data/criteo_generator.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_split.h"

namespace rubato {
namespace {

struct Generated {
  std::string text;
  std::vector<GeneratedLabel> labels;
  Batch batch;
};

Generated Generate(const CriteoGenerator& generator, uint64_t seed, int64_t rows) {
  Generated result;
  const CriteoParser parser;
  Rng rng(seed);
  for (int64_t i = 0; i < rows; ++i) {
    const size_t begin = result.text.size();
    result.labels.push_back(generator.AppendRow(rng, &result.text));
    const absl::string_view row = absl::string_view(result.text).substr(begin);
    EXPECT_EQ(row.back(), '\n');
    const absl::Status status = parser.Parse(row.substr(0, row.size() - 1), &result.batch);
    EXPECT_TRUE(status.ok()) << status << ": " << row;
  }
  return result;
}

TEST(CriteoGeneratorTest, ASeedIsARow) {
  const CriteoGenerator a({.seed = 1}), again({.seed = 1}), b({.seed = 2});
  EXPECT_EQ(Generate(a, 5, 100).text, Generate(again, 5, 100).text);
  EXPECT_NE(Generate(a, 5, 100).text, Generate(a, 6, 100).text);
  EXPECT_NE(Generate(a, 5, 100).text, Generate(b, 5, 100).text);
}

TEST(CriteoGeneratorTest, RowsLookLikeTheRealLog) {
  const CriteoGenerator generator({});
  const int64_t rows = 20000;
  const Generated data = Generate(generator, 3, rows);
  std::vector<double> missing(kCriteoIds + 1);
  std::vector<std::set<std::string>> values(kCriteoIds + 1);
  for (const absl::string_view row : absl::StrSplit(data.text, '\n', absl::SkipEmpty())) {
    const std::vector<std::string> fields = absl::StrSplit(row, '\t');
    ASSERT_EQ(fields.size(), kCriteoIds + 1u);
    for (int i = 0; i <= kCriteoIds; ++i) {
      missing[i] += fields[i].empty() ? 1.0 / rows : 0;
      values[i].insert(fields[i]);
    }
  }
  EXPECT_NEAR(missing[1], 0.45, 0.02);  // I1
  EXPECT_EQ(missing[2], 0);             // I2, which starts at -1.
  EXPECT_TRUE(values[2].contains("-1"));
  EXPECT_NEAR(missing[12], 0.765, 0.02);  // I12
  EXPECT_NEAR(missing[35], 0.76, 0.02);   // C22
  EXPECT_EQ(values[22].size(), 3u);       // C9 has three values.
  EXPECT_GT(values[16].size(), 4000u);    // C3 has millions.
  EXPECT_EQ(generator.cardinalities()[2], 1'000'000);
  EXPECT_EQ(generator.cardinalities()[0], 1460);
}

TEST(CriteoGeneratorTest, TheBestAucAndTheClickRateAreAsAsked) {
  for (const uint64_t seed : {1, 2, 3}) {
    const CriteoGenerator generator({.seed = seed});
    const BestScores best = ScoreTruth(Generate(generator, seed, 40000).labels);
    EXPECT_NEAR(best.auc, 0.80, 0.012) << seed;
    EXPECT_NEAR(best.click_rate, 0.25, 0.012) << seed;
    EXPECT_NEAR(best.logloss, 0.447, 0.015) << seed;
  }
  const CriteoGenerator easy({.best_auc = 0.9, .click_rate = 0.5});
  const BestScores best = ScoreTruth(Generate(easy, 1, 40000).labels);
  EXPECT_NEAR(best.auc, 0.90, 0.012);
  EXPECT_NEAR(best.click_rate, 0.5, 0.012);
}

// One pass of the simplest learner over 100,000 rows already finds most of what was planted.
TEST(CriteoGeneratorTest, ALogisticRegressionLearnsIt) {
  const CriteoGenerator generator({});
  const Generated train = Generate(generator, 1, 100000), valid = Generate(generator, 2, 20000);
  struct Weight {
    float value = 0, squares = 0;
  };
  absl::flat_hash_map<uint64_t, Weight> weights;
  const auto predict = [&](const Batch& batch, int64_t row) {
    float logit = 0;
    for (int i = 0; i < kCriteoIds; ++i) logit += weights[batch.ids[row * kCriteoIds + i]].value;
    return 1 / (1 + std::exp(-logit));
  };
  for (int64_t row = 0; row < train.batch.rows; ++row) {
    const float gradient = predict(train.batch, row) - train.batch.labels[row];
    for (int i = 0; i < kCriteoIds; ++i) {
      Weight& weight = weights[train.batch.ids[row * kCriteoIds + i]];
      weight.squares += gradient * gradient;
      weight.value -= 0.05f * gradient / std::sqrt(weight.squares + 1e-10f);
    }
  }
  std::vector<GeneratedLabel> scores = valid.labels;
  for (int64_t row = 0; row < valid.batch.rows; ++row) {
    scores[row].probability = predict(valid.batch, row);
  }
  const double best = ScoreTruth(valid.labels).auc, reached = ScoreTruth(scores).auc;
  EXPECT_GT(reached, best - 0.035);
  EXPECT_LT(reached, best);
}

TEST(ScoreTruthTest, KnownCases) {
  EXPECT_EQ(ScoreTruth({}).auc, 0.5);
  EXPECT_EQ(ScoreTruth({{0.1f, false}, {0.9f, true}}).auc, 1);
  EXPECT_EQ(ScoreTruth({{0.9f, false}, {0.1f, true}}).auc, 0);
  EXPECT_EQ(ScoreTruth({{0.5f, false}, {0.5f, true}}).auc, 0.5);
  EXPECT_NEAR(ScoreTruth({{0.5f, false}, {0.5f, true}}).logloss, std::log(2.0), 1e-6);
}

}  // namespace
}  // namespace rubato
