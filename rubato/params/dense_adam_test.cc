// Rows of dense_adam, which are in few batches, against a dense Adam that takes every step.
#include <gtest/gtest.h>

#include <cmath>

#include "rubato/base/rng.h"
#include "rubato/params/optimizer.h"

namespace rubato {
namespace {

constexpr double kRate = 1e-3;

OptimizerSpec SpecOf(double decay) {
  return {.name = "dense_adam", .learning_rate = kRate, .epsilon = 1e-8, .weight_decay = decay};
}

// One weight, step by step, in double precision.
struct DenseAdam {
  double weight = 0, mean = 0, square = 0;

  void Step(const OptimizerSpec& spec, double gradient, uint32_t t) {
    const double g = gradient + spec.weight_decay * weight;
    mean = spec.beta1 * mean + (1 - spec.beta1) * g;
    square = spec.beta2 * square + (1 - spec.beta2) * g * g;
    weight -= spec.learning_rate * mean / (1 - std::pow(spec.beta1, t)) /
              (std::sqrt(square / (1 - std::pow(spec.beta2, t))) + spec.epsilon);
  }
};

// A row of one weight beside its reference.
class Pair {
 public:
  Pair(double decay, double weight, uint32_t first_step) : spec_(SpecOf(decay)), step_(first_step) {
    row_.resize(1 + ours_.row_state_floats(1));
    row_[0] = static_cast<float>(weight);
    dense_.weight = row_[0];
    ours_.StartRow(row_.data(), RowPart::Whole(1), first_step);
  }

  // A step whose batch the row is in, and one whose batch it is not in.
  void Touch(float gradient) {
    ours_.UpdateRows({{row_.data(), &gradient}}, RowPart::Whole(1), Now());
    dense_.Step(spec_, gradient, step_++);
  }
  void Miss() { dense_.Step(spec_, 0, step_++); }

  // How far what a reader sees is from where it should be, in learning rates.
  double Off() const { return std::abs(Seen() - dense_.weight) / kRate; }
  double Seen() const {
    float seen = row_[0];
    ours_.Present(row_.data(), &seen, RowPart::Whole(1), Now());
    return seen;
  }

 private:
  OptimizerConstants Now() const {
    return ours_.At({.number = step_, .learning_rate = spec_.learning_rate});
  }

  OptimizerSpec spec_;
  Optimizer ours_ = *Optimizer::Make(spec_);
  uint32_t step_;
  std::vector<float> row_;
  DenseAdam dense_;
};

// Early and late in a job, for gradients from far below the pull of decay to far above it: all
// along 5,000 steps a reader sees a dense Adam's weight, to 0.03 of a learning rate, and to a whole
// one where weights decay, which may be hundreds of rates away by then.
TEST(DenseAdamTest, ARowThatIsAwayGoesWhereADenseOneGoes) {
  Rng rng(8);
  for (const double decay : {0.0, 1e-4, 0.01, 0.1}) {
    const double tolerance = decay == 0 ? 0.03 : 1;
    for (const double size : {1e-6, 1e-4, 1e-2}) {
      for (const uint32_t first_step : {1, 10, 1000, 50000}) {
        for (int touches = 1; touches <= 4; ++touches) {
          Pair pair(decay, rng.Normal() * (touches % 2 == 0 ? 0.3 : 0.03), first_step);
          for (int i = 0; i < touches; ++i) pair.Touch(static_cast<float>(rng.Normal() * size));
          ASSERT_LE(pair.Off(), 0.01) << "nothing was missed";
          for (int missed = 1; missed <= 5000; ++missed) {
            pair.Miss();
            if (missed > 64 && missed % 11 != 0) continue;
            ASSERT_LE(pair.Off(), tolerance) << "decay " << decay << ", gradients " << size
                                             << ", from " << first_step << ", missed " << missed;
          }
        }
      }
    }
  }
}

// An update starts from where the row should be, means and all: over 2,000 steps, of which a row is
// in a few, it stays beside the dense one.
TEST(DenseAdamTest, AHistoryOfRareTouchesIsADenseOnes) {
  for (const double chance : {0.5, 0.05, 0.005}) {
    for (const double decay : {0.0, 1e-3, 0.03}) {
      Rng rng(5);
      Pair pair(decay, 0.01, 1);
      double worst = 0;
      for (int step = 0; step < 2000; ++step) {
        if (rng.Chance(chance)) {
          pair.Touch(static_cast<float>(rng.Normal() * 1e-3 + 5e-4));
        } else {
          pair.Miss();
        }
        worst = std::max(worst, pair.Off());
      }
      EXPECT_LE(worst, decay == 0 ? 0.3 : 3) << "chance " << chance << ", decay " << decay;
    }
  }
}

// The first gradient of an id goes on moving it: by some thirty rates in all, late in a job.
TEST(DenseAdamTest, RareIdsGoFarWithOneGradient) {
  Pair pair(0, 0, 100'000);
  pair.Touch(1e-2f);
  EXPECT_NEAR(pair.Seen(), -3.16 * kRate, 0.02 * kRate);
  for (int i = 0; i < 300; ++i) pair.Miss();
  EXPECT_NEAR(pair.Seen(), -31.8 * kRate, 0.2 * kRate);
}

// However long it is away, with whatever in its state, a row ends at zero, and finite.
TEST(DenseAdamTest, DecayEndsAtZero) {
  const Optimizer ours = *Optimizer::Make(SpecOf(0.05));
  for (const float weight : {1e-30f, 1e-6f, 0.1f, 1e6f}) {
    for (const float square : {0.0f, 1e-30f, 1e-6f, 1e6f}) {
      std::vector<float> row(1 + ours.row_state_floats(1));
      ours.StartRow(row.data(), RowPart::Whole(1), 1);
      row[0] = weight;
      row[1] = std::sqrt(square);
      row[2] = square;
      for (const uint32_t step : {2u, 10u, 1000u, 4'000'000'000u}) {
        float seen = weight;
        ours.Present(row.data(), &seen, RowPart::Whole(1),
                     ours.At({.number = step, .learning_rate = kRate}));
        ASSERT_TRUE(std::isfinite(seen)) << weight << " " << square << " " << step;
        ASSERT_LE(std::abs(seen), std::abs(weight) + 70 * kRate);
        if (step > 1'000'000) {
          ASSERT_NEAR(seen, 0, kRate) << weight << " " << square;
        }
      }
    }
  }
}

}  // namespace
}  // namespace rubato
