// When the rate falls and when training stops, by what evaluations bring.
#include "rubato/master/evaluations.h"

#include <gtest/gtest.h>

namespace rubato {
namespace {

class EvaluationsTest : public testing::Test {
 protected:
  // One evaluation of a yes beside a no. The AUC is 1 if `yes` is the greater, else 0.
  void Evaluate(float yes, float no = 0.5f) {
    EvaluationSums sums;
    sums.AddBinary(yes, true);
    sums.AddBinary(no, false);
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

// A loss that falls tells that there is something to learn, though no two rows change places.
TEST_F(EvaluationsTest, TheLowestLossIsAGainAndNotTheBest) {
  Start({.every_steps = 10, .stop_after_stalls = 1, .lower_rate = 0.1});
  Evaluate(0.6f);
  Evaluate(0.7f);
  Evaluate(0.8f);
  EXPECT_EQ(evaluations_.rate(), 1);
  EXPECT_EQ(evaluations_.best(), 1);  // The AUC, which no later one has passed, tells the best.
  Evaluate(0.7f);                     // Lower than the first, and not the lowest.
  EXPECT_TRUE(evaluations_.Stalled());
}

// And the other way round: what is best by its metric is a gain at whatever loss.
TEST_F(EvaluationsTest, TheBestIsAGainThoughItsLossIsHigher) {
  Start({.every_steps = 10, .stop_after_stalls = 1});
  Evaluate(0.49f, 0.5f);
  Evaluate(0.06f, 0.05f);
  EXPECT_FALSE(evaluations_.Stalled());
  EXPECT_EQ(evaluations_.best(), 2);
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
TEST_F(EvaluationsTest, WhoForgivesNothingStopsAtTheFirst) {
  Start({.every_steps = 10, .stop_after_stalls = 1});
  Evaluate(0.8f);
  Evaluate(0.8f);
  EXPECT_TRUE(evaluations_.Stalled());
}

}  // namespace
}  // namespace rubato
