// When the rate falls and when training stops, by what evaluations bring.
#include "rubato/master/evaluations.h"

#include <gtest/gtest.h>

#include <limits>

#include "rubato/metrics/evaluation.h"

namespace rubato {
namespace {

class EvaluationsTest : public testing::Test {
 protected:
  // One evaluation of a yes beside a no. The AUC is 1 if `yes` is the greater, else 0.
  void Evaluate(float yes, float no = 0.5f) {
    EvaluationSums sums;
    sums.AddBinary(yes, true);
    sums.AddBinary(no, false);
    Add(sums);
  }
  // The same, and a yes and a no that tie at one half: the AUC is 0.875 where it was 1 before.
  void Ties(float yes, float no) {
    EvaluationSums sums;
    sums.AddBinary(yes, true);
    sums.AddBinary(no, false);
    sums.AddBinary(0.5f, true);
    sums.AddBinary(0.5f, false);
    Add(sums);
  }
  void Add(const EvaluationSums& sums) {
    const int64_t number = evaluations_.next_number();
    evaluations_.Begin(number, 10 * number, /*final=*/false, absl::UnixEpoch());
    evaluations_.Add(TaskId(number), sums);
    evaluations_.End();
  }
  void Start(EvaluateSpec spec) {
    evaluations_ = Evaluations(spec, /*validation=*/true, absl::UnixEpoch());
  }

  Evaluations evaluations_{
      {.every_steps = 10, .stop_after_stalls = 2, .forgive_stalls = 2, .lower_rate = 0.1},
      /*validation=*/true,
      absl::UnixEpoch()};
};

// A plateau: two in a row are forgiven, and two again once there was a gain; then the rate falls.
TEST_F(EvaluationsTest, AModelThatStaysAsGoodAsItIsHasTime) {
  for (int i = 0; i < 3; ++i) Evaluate(0.2f);  // AUC 0.
  EXPECT_EQ(evaluations_.rate(), 1);
  for (int i = 0; i < 3; ++i) Evaluate(0.8f);  // AUC 1, and again nothing more:
  EXPECT_EQ(evaluations_.best(), 4);
  EXPECT_EQ(evaluations_.rate(), 1);
  EXPECT_FALSE(evaluations_.Stalled());
  Evaluate(0.8f);
  EXPECT_EQ(evaluations_.rate(), 0.1);
  EXPECT_FALSE(evaluations_.Stalled());
  Evaluate(0.8f);
  EXPECT_TRUE(evaluations_.Stalled());
  EXPECT_EQ(evaluations_.best(), 4);
}

// Once the rate is lower every one without gain counts.
TEST_F(EvaluationsTest, NothingIsForgivenTwice) {
  for (int i = 0; i < 4; ++i) Evaluate(0.2f);
  EXPECT_EQ(evaluations_.lowered(), 1);
  Evaluate(0.8f);
  EXPECT_FALSE(evaluations_.Stalled());
  Evaluate(0.8f);
  EXPECT_EQ(evaluations_.lowered(), 2);
}

TEST_F(EvaluationsTest, AModelThatGetsWorseHasNone) {
  Evaluate(0.8f);
  Evaluate(0.7f);  // As good by its AUC, and not by its loss.
  EXPECT_EQ(evaluations_.rate(), 0.1);
  Evaluate(0.7f);
  EXPECT_TRUE(evaluations_.Stalled());
}

// A loss that falls tells that there is something to learn, though no two rows change places; and
// of versions that rank alike the one that says it best is the model.
TEST_F(EvaluationsTest, OfEqualRanksTheLowestLossIsTheBest) {
  Start({.every_steps = 10, .stop_after_stalls = 1, .lower_rate = 0.1});
  Evaluate(0.6f);
  Evaluate(0.7f);
  Evaluate(0.8f);
  EXPECT_EQ(evaluations_.rate(), 1);
  EXPECT_EQ(evaluations_.best(), 3);
  Evaluate(0.7f);  // Lower than the first, and not the lowest.
  EXPECT_EQ(evaluations_.best(), 3);
  EXPECT_TRUE(evaluations_.Stalled());
  Ties(0.99f, 0.01f);  // A lower loss, and worse ranks.
  EXPECT_EQ(evaluations_.best(), 3);
}

// And the other way round: what is best by its metric is a gain at whatever loss.
TEST_F(EvaluationsTest, TheBestIsAGainThoughItsLossIsHigher) {
  Start({.every_steps = 10, .stop_after_stalls = 1});
  Evaluate(0.49f, 0.5f);
  Evaluate(0.06f, 0.05f);
  EXPECT_FALSE(evaluations_.Stalled());
  EXPECT_EQ(evaluations_.best(), 2);
}

// The rate of two records, one of each class, is 0.5: its logloss is 0.69. Ranks alone would choose
// a version whose probabilities are worth less than that.
TEST_F(EvaluationsTest, AVersionWorseThanTheConstantIsNotPreferred) {
  Start({.every_steps = 10, .stop_after_stalls = 1});
  Evaluate(0.06f, 0.05f);             // AUC 1, logloss 1.4.
  EXPECT_EQ(evaluations_.best(), 1);  // There is no other yet.
  Evaluate(0.5f, 0.5f);               // AUC a half, logloss that of the constant: no better.
  EXPECT_EQ(evaluations_.best(), 1);
  Ties(0.6f, 0.4f);  // AUC 0.875, logloss below it.
  EXPECT_EQ(evaluations_.best(), 3);
  Evaluate(0.06f, 0.05f);
  EXPECT_EQ(evaluations_.best(), 3);
}

// A metric of the user's own is the user's to judge by.
TEST_F(EvaluationsTest, OnlyMetricsOfRanksAreGuarded) {
  for (const bool own : {false, true}) {
    Start({.every_steps = 10, .metric = own ? "cost" : "auc"});
    for (const float sure : {0.5f, 0.001f}) {
      EvaluationSums sums;
      sums.AddBinary(sure, true);
      sums.AddBinary(0.9f * sure, false);
      sums.user_sums["cost"] = sure;
      Add(sums);
    }
    EXPECT_EQ(evaluations_.best(), own ? 2 : 1);
  }
}

// Which version is the best is one question, whether there was a gain another: ranks that are the
// best so far are one at any loss.
TEST_F(EvaluationsTest, RanksOfAVersionThatMisleadsAreAGain) {
  Start({.every_steps = 10, .stop_after_stalls = 1});
  Ties(0.6f, 0.4f);        // AUC 0.875.
  Evaluate(0.06f, 0.05f);  // AUC 1.
  EXPECT_EQ(evaluations_.best(), 1);
  EXPECT_FALSE(evaluations_.Stalled());
  Evaluate(0.06f, 0.05f);
  EXPECT_TRUE(evaluations_.Stalled());
}

// What is taken back was never reached: its loss is not the one to pass.
TEST_F(EvaluationsTest, ALostBestTakesItsLossWithIt) {
  Start({.every_steps = 10, .stop_after_stalls = 1, .keep_best = true});
  Evaluate(0.2f);
  evaluations_.SavedBest();
  Evaluate(0.9f);
  evaluations_.LoseUnsavedBest();
  EXPECT_EQ(evaluations_.best(), 1);
  Evaluate(0.3f);  // AUC 0 again.
  EXPECT_FALSE(evaluations_.Stalled());
}

// By default nothing is forgiven.
// A loss that is no number is worse than any that is one, also as the first there is.
TEST_F(EvaluationsTest, WhatIsNoNumberIsNotTheBest) {
  Start({.every_steps = 10, .stop_after_stalls = 2, .metric = "loss"});
  Evaluate(std::numeric_limits<float>::quiet_NaN());
  Evaluate(0.2f);
  EXPECT_EQ(evaluations_.best(), 2);
  Evaluate(std::numeric_limits<float>::quiet_NaN());
  EXPECT_EQ(evaluations_.best(), 2);
}

TEST_F(EvaluationsTest, WhoForgivesNothingStopsAtTheFirst) {
  Start({.every_steps = 10, .stop_after_stalls = 1});
  Evaluate(0.8f);
  Evaluate(0.8f);
  EXPECT_TRUE(evaluations_.Stalled());
}

}  // namespace
}  // namespace rubato
