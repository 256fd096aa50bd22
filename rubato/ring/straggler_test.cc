// A group on paper: each member needs its time for a step and for each microbatch, and is dealt
// its share by what the others saw of its speed.
#include "rubato/ring/straggler.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "rubato/base/rng.h"
#include "rubato/ring/quota.h"

namespace rubato {
namespace {

class PaperGroup {
 public:
  PaperGroup(int members, int microbatches, double noise, uint64_t seed)
      : microbatches_(microbatches),
        noise_(noise),
        rng_(seed),
        cost_(members, 1.0),
        speeds_(members, 0.0f),
        meters_(members),
        watches_(members) {}

  void Slow(int member, double times) { cost_[member] = times; }
  // One step, and what it took; for member 0 everything takes `stumble` times as long.
  double Step(double stumble = 1) {
    const int members = static_cast<int>(cost_.size());
    const std::vector<Quota> quotas = DealMicrobatches(microbatches_, speeds_, members);
    double longest = 0;
    for (int i = 0; i < members; ++i) {
      const double noise = 1 + noise_ * rng_.Uniform(-1, 1);
      const double time = (i == 0 ? stumble : 1) * cost_[i] * noise * (0.5 + quotas[i].size());
      meters_[i].Record(quotas[i].size(), time);
      longest = std::max(longest, time);
    }
    for (int i = 0; i < members; ++i) speeds_[i] = meters_[i].microbatches_per_second();
    for (int i = 0; i < members; ++i) {
      if (watches_[i].Observe(PaceOf(speeds_, members, i))) ++changes_;
    }
    return longest;
  }
  bool lagging(int member) const { return watches_[member].lagging(); }
  double pace(int member) const { return watches_[member].pace(); }
  int changes() const { return changes_; }

 private:
  const int microbatches_;
  const double noise_;
  Rng rng_;
  std::vector<double> cost_;
  std::vector<float> speeds_;
  std::vector<SpeedMeter> meters_;
  std::vector<StragglerWatch> watches_;
  int changes_ = 0;
};

TEST(StragglerTest, PaceIsBesideTheMedian) {
  EXPECT_DOUBLE_EQ(PaceOf({4, 2}, 2, 1), 0.5) << "of two, the other is the measure";
  EXPECT_DOUBLE_EQ(PaceOf({4, 2}, 2, 0), 1);
  EXPECT_DOUBLE_EQ(PaceOf({4, 1, 4, 100}, 3, 1), 0.25) << "a learner is no measure";
  EXPECT_DOUBLE_EQ(PaceOf({4, 1, 4, 100}, 3, 3), 1) << "nor measured";
  EXPECT_DOUBLE_EQ(PaceOf({0, 1, 4}, 3, 0), 1);
  EXPECT_DOUBLE_EQ(PaceOf({0, 0, 4}, 3, 2), 1) << "alone";
  EXPECT_DOUBLE_EQ(PaceOf({}, 0, 0), 1);
}

// Slowed 2x: named within 20 steps, its share cut so that the group keeps 0.9 of what it has left;
// well again, that is said too; each once.
TEST(StragglerTest, ASlowMemberIsNamedOnceAndItsShareIsCut) {
  for (int members : {2, 3, 4, 8}) {
    for (uint64_t seed = 0; seed < 50; ++seed) {
      const int microbatches = 16 * members;
      PaperGroup group(members, microbatches, 0.03, seed);
      for (int i = 0; i < 30; ++i) group.Step();
      group.Slow(1, 2);
      int named = 0;
      while (!group.lagging(1) && named < 100) group.Step(), ++named;
      ASSERT_LE(named, 20) << members << " members, seed " << seed;
      ASSERT_LT(group.pace(1), 0.6);
      double took = 0;
      for (int i = 0; i < 100; ++i) took += group.Step();
      const double ideal = 100 * (microbatches + 0.5 * members) / (members - 0.5);
      ASSERT_GE(ideal / took, 0.9) << members << " members, seed " << seed;
      group.Slow(1, 1);
      for (int i = 0; i < 40; ++i) group.Step();
      ASSERT_FALSE(group.lagging(1));
      ASSERT_EQ(group.changes(), 2) << members << " members, seed " << seed;
    }
  }
}

// Noise, and a first step that takes one of them twenty times as long, are nobody's fault.
TEST(StragglerTest, AnEvenGroupHasNone) {
  for (int members : {2, 3, 8}) {
    for (uint64_t seed = 0; seed < 20; ++seed) {
      PaperGroup group(members, 16, 0.2, seed);
      group.Step(20);
      for (int i = 0; i < 2000; ++i) group.Step();
      ASSERT_EQ(group.changes(), 0) << members << " members, seed " << seed;
    }
  }
}

}  // namespace
}  // namespace rubato
