#include "rubato/metrics/evaluation.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "rubato/base/rng.h"

namespace rubato {
namespace {

struct Scored {
  float score;
  bool positive;
  uint64_t group = 0;
};

// By definition: every positive against every negative.
double BruteForceAuc(const std::vector<Scored>& records) {
  double won = 0, pairs = 0;
  for (const Scored& p : records) {
    if (!p.positive) continue;
    for (const Scored& n : records) {
      if (n.positive) continue;
      won += p.score > n.score ? 1 : p.score == n.score ? 0.5 : 0;
      ++pairs;
    }
  }
  return won / pairs;
}

// `distinct` different scores at most, so that many tie; 0: as many as there are floats.
std::vector<Scored> Draw(uint64_t seed, int records, int distinct) {
  Rng rng(seed);
  std::vector<Scored> drawn;
  for (int i = 0; i < records; ++i) {
    const double logit = -2 + 1.5 * rng.Normal();
    double score = 1 / (1 + std::exp(-logit));
    const bool positive = rng.Chance(score);
    if (distinct > 0) score = std::floor(score * distinct) / distinct;
    drawn.push_back({static_cast<float>(score), positive, rng.Below(20)});
  }
  return drawn;
}

EvaluationSums SumsOf(const std::vector<Scored>& records) {
  EvaluationSums sums;
  for (const Scored& r : records) sums.AddBinary(r.score, r.positive, r.group);
  return sums;
}

TEST(AucTest, IsExactWithAndWithoutTies) {
  for (const int distinct : {0, 1000, 10, 2, 1}) {
    for (uint64_t seed = 0; seed < 3; ++seed) {
      const std::vector<Scored> records = Draw(seed, 2000, distinct);
      EXPECT_NEAR(SumsOf(records).scores.Auc(), BruteForceAuc(records), 1e-12) << distinct;
    }
  }
}

// Neighbouring floats are no ties, whether they lie near 0, near 1 or below 0.
TEST(AucTest, TellsNeighboursApart) {
  for (const float score : {1e-30f, 0.3f, 0.99999994f, -5.0f, 0.0f}) {
    ScoreCounts counts;
    counts.Add(score, false);
    counts.Add(std::nextafter(score, 2.0f), true);
    EXPECT_EQ(counts.Auc(), 1.0) << score;
  }
  ScoreCounts zeros;
  zeros.Add(-0.0f, true);
  zeros.Add(0.0f, false);
  EXPECT_EQ(zeros.Auc(), 0.5);
}

TEST(AucTest, EdgesAreCalm) {
  EvaluationSums sums;
  EXPECT_EQ(sums.scores.Auc(), 0.5);
  EXPECT_TRUE(Metrics(sums).empty());
  sums.AddBinary(0.0f, false);
  EXPECT_EQ(sums.scores.Auc(), 0.5);                    // No positives,
  EXPECT_FALSE(Metrics(sums).contains("calibration"));  // so nothing to be calibrated to.
  sums.AddBinary(1.0f, true);
  EXPECT_EQ(sums.scores.Auc(), 1.0);
  ScoreCounts counts = sums.scores;
  counts.Add(std::numeric_limits<float>::quiet_NaN(), true);
  EXPECT_EQ(counts.Auc(), 0.5);  // The lowest of all: below the negative.
}

// One half would look like a result.
TEST(AucTest, OneClassHasNone) {
  EvaluationSums sums;
  sums.AddBinary(0.25f, false);
  EXPECT_FALSE(Metrics(sums).contains("auc"));
  EXPECT_TRUE(Metrics(sums).contains("logloss"));
  sums.AddBinary(0.75f, true);
  EXPECT_EQ(Metrics(sums)["auc"], 1);
}

// More different scores than are kept: their last bits go, and almost nothing with them.
TEST(AucTest, BeyondItsBoundItIsNearlyExact) {
  const std::vector<Scored> records = Draw(5, 4000, 0);
  ScoreCounts bounded(500), parts[2] = {ScoreCounts(500), ScoreCounts(500)};
  for (size_t i = 0; i < records.size(); ++i) {
    bounded.Add(records[i].score, records[i].positive);
    parts[i < 300].Add(records[i].score, records[i].positive);
  }
  EXPECT_FALSE(bounded.exact());
  EXPECT_TRUE(parts[1].exact());
  EXPECT_NEAR(bounded.Auc(), BruteForceAuc(records), 1e-3);
  EXPECT_EQ(bounded.records(), 4000);
  ScoreCounts sum = parts[1];
  sum.Add(parts[0]);  // The finer takes on the coarser's grain.
  EXPECT_EQ(sum, bounded);
}

// Millions of scores, most of them different, in parts that come in any order: as if sorted.
TEST(AucTest, IsExactForMillionsOfScores) {
  constexpr int kRecords = 3'000'000;
  const std::vector<Scored> records = Draw(11, kRecords, 0);
  ScoreCounts parts[7], sum;
  std::vector<Scored> sorted = records;
  for (size_t i = 0; i < records.size(); ++i) {
    parts[i * i % 7].Add(records[i].score, records[i].positive);
  }
  for (const ScoreCounts& part : parts) sum.Add(part);
  std::sort(sorted.begin(), sorted.end(),
            [](const Scored& a, const Scored& b) { return a.score < b.score; });
  int64_t twice_won = 0, negatives = 0, positives = 0, different = 0;
  for (size_t i = 0; i < sorted.size(); ++different) {
    int64_t n = 0, p = 0;
    const float score = sorted[i].score;
    for (; i < sorted.size() && sorted[i].score == score; ++i) ++(sorted[i].positive ? p : n);
    twice_won += p * (2 * negatives + n);
    negatives += n;
    positives += p;
  }
  ASSERT_GT(different, 2'000'000);
  EXPECT_TRUE(sum.exact());
  EXPECT_EQ(sum.records(), kRecords);
  EXPECT_DOUBLE_EQ(sum.Auc(),
                   static_cast<double>(twice_won) / 2 /
                       (static_cast<double>(negatives) * static_cast<double>(positives)));
}

// A score that billions share is counted on.
TEST(AucTest, CountsPast32Bits) {
  ScoreCounts counts;
  counts.Add(0.25f, false);
  counts.Add(0.75f, true);
  counts.Add(0.75f, false);
  for (int doublings = 0; doublings < 34; ++doublings) {
    const ScoreCounts half = counts;
    counts.Add(half);
  }
  EXPECT_EQ(counts.records(), int64_t{3} << 34);
  EXPECT_EQ(counts.Auc(), 0.75);
  std::string bytes;
  ByteWriter out(bytes);
  counts.Encode(out);
  ByteReader in(bytes);
  EXPECT_EQ(ScoreCounts::Decode(in), counts);
}

// How far it is off then is bounded by what was counted, and said.
TEST(AucTest, BeyondItsBoundItSaysHowFarItMayBeOff) {
  for (const uint64_t seed : {1, 2, 3, 4}) {
    for (const size_t kept : {20, 100, 1000}) {
      const std::vector<Scored> records = Draw(seed, 3000, 0);
      EvaluationSums sums;
      sums.scores = ScoreCounts(kept);
      for (const Scored& r : records) sums.AddBinary(r.score, r.positive);
      ASSERT_FALSE(sums.scores.exact());
      const double error = Metrics(sums).at("auc_error");
      EXPECT_LE(std::abs(sums.scores.Auc() - BruteForceAuc(records)), error) << kept;
      EXPECT_LE(error, 2.0 / static_cast<double>(kept)) << "a bound of little use";
    }
  }
  EvaluationSums few;
  few.AddBinary(0.5f, true);
  few.AddBinary(0.5f, false);
  EXPECT_FALSE(Metrics(few).contains("auc_error"));
}

TEST(GroupAucTest, IsTheMeanOfTheGroupsOwn) {
  const std::vector<Scored> records = Draw(9, 1500, 50);
  double weighted = 0, counted = 0;
  for (uint64_t group = 0; group < 20; ++group) {
    std::vector<Scored> own;
    int positives = 0;
    for (const Scored& r : records) {
      if (r.group != group) continue;
      own.push_back(r);
      positives += r.positive;
    }
    if (positives == 0 || positives == static_cast<int>(own.size())) continue;
    weighted += static_cast<double>(own.size()) * BruteForceAuc(own);
    counted += static_cast<double>(own.size());
  }
  EXPECT_NEAR(*GroupAuc(SumsOf(records)), weighted / counted, 1e-12);

  // A group of one kind has no order to be right about.
  EvaluationSums sums;
  sums.AddBinary(0.9f, false, 1);
  EXPECT_FALSE(GroupAuc(sums).has_value());
  sums.AddBinary(0.2f, true, 2);
  sums.AddBinary(0.1f, false, 2);
  EXPECT_EQ(*GroupAuc(sums), 1.0);
}

TEST(MetricsTest, FollowTheirDefinitions) {
  const std::vector<Scored> records = Draw(4, 1000, 0);
  double loss = 0, right = 0, scores = 0, positives = 0, squares = 0;
  for (const auto& [score, positive, group] : records) {
    const double y = positive ? 1 : 0, p = score;
    loss -= y * std::log(p) + (1 - y) * std::log(1 - p);
    right += (p >= 0.5) == positive;
    scores += p;
    positives += y;
    squares += (p - y) * (p - y);
  }
  const std::map<std::string, double> metrics = Metrics(SumsOf(records));
  EXPECT_NEAR(metrics.at("logloss"), loss / 1000, 1e-9);
  EXPECT_NEAR(metrics.at("accuracy"), right / 1000, 1e-12);
  EXPECT_NEAR(metrics.at("calibration"), scores / positives, 1e-9);
  EXPECT_NEAR(metrics.at("rmse"), std::sqrt(squares / 1000), 1e-9);
  EXPECT_TRUE(MoreIsBetter("auc"));
  EXPECT_FALSE(MoreIsBetter("logloss"));
}

// The yardstick is the logloss of the records' own rate, given to all of them.
TEST(MetricsTest, TheBaseIsWhatTheRateAloneReaches) {
  EvaluationSums constant, knows, misleads;
  for (int i = 0; i < 100; ++i) {
    constant.AddBinary(0.2f, i < 20);
    knows.AddBinary(i < 20 ? 0.3f : 0.1f, i < 20);
    misleads.AddBinary(i < 20 ? 0.999f : 0.99f, i < 20);  // All in order, and all but sure.
  }
  EXPECT_NEAR(Metrics(constant)["base_logloss"], Metrics(constant)["logloss"], 1e-6);
  EXPECT_FALSE(IsWorseThanConstant(Metrics(knows)));
  EXPECT_TRUE(IsWorseThanConstant(Metrics(misleads)));
  EXPECT_EQ(Metrics(misleads)["base_logloss"], Metrics(knows)["base_logloss"]);
  EXPECT_FALSE(MoreIsBetter("base_logloss"));
  // Of one class the rate alone would be perfect, and a yardstick of 0 none.
  EvaluationSums one;
  one.AddBinary(0.01f, false);
  EXPECT_FALSE(Metrics(one).contains("base_logloss"));
  EXPECT_FALSE(IsWorseThanConstant(Metrics(one)));
}

TEST(EvaluationTest, PartsAddUpToTheWholeAndTravel) {
  const std::vector<Scored> records = Draw(3, 999, 0);
  EvaluationSums whole = SumsOf(records), parts[3], sum;
  for (size_t i = 0; i < records.size(); ++i) {
    parts[i % 3].AddBinary(records[i].score, records[i].positive, records[i].group);
  }
  for (EvaluationSums& part : parts) {
    part.user_sums["clicks"] = 111;
    const absl::StatusOr<EvaluationSums> arrived = DecodeSums(EncodeSums(part));
    ASSERT_TRUE(arrived.ok()) << arrived.status();
    EXPECT_EQ(*arrived, part);
    sum.Add(*arrived);
  }
  EXPECT_EQ(sum.scores, whole.scores);
  EXPECT_EQ(sum.groups, whole.groups);
  EXPECT_EQ(sum.positives, whole.positives);
  EXPECT_NEAR(Metrics(sum).at("logloss"), Metrics(whole).at("logloss"), 1e-12);
  EXPECT_NEAR(Metrics(sum).at("clicks"), 333.0 / 999, 1e-12);
}

TEST(EvaluationTest, DamagedBytesAreRefused) {
  const std::string bytes = EncodeSums(SumsOf(Draw(1, 50, 0)));
  for (size_t size = 0; size < bytes.size(); ++size) {
    EXPECT_FALSE(DecodeSums(absl::string_view(bytes).substr(0, size)).ok()) << size;
  }
  EXPECT_FALSE(DecodeSums(bytes + "x").ok());
}

}  // namespace
}  // namespace rubato
