#include "rubato/worker/replica.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "rubato/base/bytes.h"

namespace rubato {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using Phase = Replica::Phase;

// 10 records in steps of 4, 4 and 2; two weights.
TaskPlan SmallPlan() {
  return TaskPlan({.records = 10,
                   .batch_size = 4,
                   .batches_per_task = 3,
                   .shuffle_tasks = false,
                   .together = true});
}

Replica Small(int64_t pause_every = 0) {
  Replica::Options options = {.batch_size = 4, .pause_every = pause_every, .lower_rate = 0.5};
  options.optimizer.name = "sgd";
  options.optimizer.learning_rate = 1;
  const std::vector<float> weights = {1, 2};
  return *Replica::Make(options, SmallPlan(), weights);
}

// Positions [begin, end) of the next step, counted from its first.
PlanRange Part(Replica& replica, int64_t begin, int64_t end) {
  const PlanRange step = replica.NextStep();
  return {step.task, step.begin + begin, step.begin + end};
}

// One member alone: what it adds is the sum.
void Train(Replica& replica, float gradient) {
  const PlanRange step = replica.NextStep();
  replica.BeginStep();
  replica.Add(std::vector<float>{gradient, 0}, step.size(), step, 0.5);
  replica.Apply();
}

TEST(ReplicaTest, AveragesBySamplesAndWalksThroughThePlan) {
  Replica replica = Small();
  EXPECT_EQ(replica.NextStep().size(), 4);
  replica.BeginStep();
  replica.Add(std::vector<float>{1, 0}, 3, Part(replica, 0, 3), 1.0);  // One member's three rows,
  replica.Add(std::vector<float>{5, 4}, 1, Part(replica, 3, 4), 2.0);  // another's one.
  replica.Apply();
  EXPECT_THAT(replica.weights(), ElementsAre(1 - 2, 2 - 1));
  EXPECT_EQ(replica.loss(), 1.25);
  EXPECT_EQ(replica.records(), 4);
  Train(replica, 0);
  EXPECT_EQ(replica.phase(), Phase::kTraining);
  EXPECT_EQ(replica.NextStep().size(), 2);
  Train(replica, 0);
  EXPECT_EQ(replica.phase(), Phase::kEnded);
  EXPECT_EQ(replica.steps(), 3);
  EXPECT_EQ(replica.records_wrong(), 0);
}

TEST(ReplicaTest, PausesUntilSomeoneVotesToGoOn) {
  Replica replica = Small(/*pause_every=*/1);
  Train(replica, 1);
  EXPECT_EQ(replica.phase(), Phase::kPaused);
  replica.BeginStep();
  replica.Apply();
  EXPECT_EQ(replica.phase(), Phase::kPaused);
  EXPECT_EQ(replica.steps(), 1);
  replica.BeginStep();
  replica.Vote(Replica::kResume);
  replica.Apply();
  EXPECT_EQ(replica.phase(), Phase::kTraining);
  replica.BeginStep();
  replica.Vote(Replica::kRest);
  replica.Apply();
  EXPECT_EQ(replica.phase(), Phase::kEnded);
}

// However many vote to go on, the rate is lowered as often as each of them says; a copy of the
// bytes goes on with the same rate.
TEST(ReplicaTest, GoesOnWithALowerRate) {
  Replica replica = Small(/*pause_every=*/1);
  Train(replica, 1);
  EXPECT_THAT(replica.weights(), ElementsAre(0, 2));
  replica.BeginStep();
  replica.VoteResume(2);
  for (float& vote : replica.Votes()) vote *= 3;  // As three members' sum.
  replica.Apply();
  EXPECT_EQ(replica.phase(), Phase::kTraining);
  Replica copy = Small();
  ASSERT_TRUE(copy.Decode(replica.Encode()).ok());
  Train(replica, 1);
  EXPECT_THAT(replica.weights(), ElementsAre(-0.25, 2));
  Train(copy, 1);
  EXPECT_THAT(copy.weights(), ElementsAre(-0.25, 2));
}

TEST(ReplicaTest, AFailedStepChangesNothing) {
  Replica replica = Small();
  const uint64_t before = replica.Checksum();
  replica.BeginStep();
  replica.Add(std::vector<float>{1, 1}, 3, Part(replica, 0, 3), 1);
  replica.Vote(Replica::kFailed);
  replica.Apply();
  EXPECT_EQ(replica.steps(), 0);
  EXPECT_EQ(replica.Checksum(), before);
}

// 16 bits on the wire overflow where every part was sound.
TEST(ReplicaTest, AnInfiniteSumChangesNothing) {
  Replica replica = Small();
  const uint64_t before = replica.Checksum();
  replica.BeginStep();
  replica.Add(std::vector<float>{1, 1}, 4, Part(replica, 0, 4), 1);
  replica.Gradient()[1] = std::numeric_limits<float>::infinity();
  replica.Apply();
  EXPECT_TRUE(replica.overflowed());
  EXPECT_EQ(replica.steps(), 0);
  EXPECT_EQ(replica.Checksum(), before);
  Train(replica, 1);
  EXPECT_FALSE(replica.overflowed());
  EXPECT_EQ(replica.steps(), 1);
}

TEST(ReplicaTest, NoticesRecordsMissingOrDoubled) {
  Replica replica = Small();
  replica.BeginStep();
  replica.Add(std::vector<float>{1, 1}, 3, Part(replica, 0, 3), 1);  // The fourth is missing.
  replica.Apply();
  EXPECT_EQ(replica.records_wrong(), 1);
}

// A part taken twice beside one left out is as many records as there should be.
TEST(ReplicaTest, NoticesTheWrongRecordsInTheRightNumber) {
  Replica replica = Small();
  const auto take = [&](const std::vector<PlanRange>& parts) {
    const int64_t before = replica.records_wrong();
    replica.BeginStep();
    for (const PlanRange& part : parts) {
      replica.Add(std::vector<float>{0, 0}, part.size(), part, 1);
    }
    replica.Apply();
    return replica.records_wrong() - before;
  };
  EXPECT_EQ(take({Part(replica, 2, 4), Part(replica, 0, 1), Part(replica, 1, 2)}), 0);
  EXPECT_EQ(take({Part(replica, 0, 2), Part(replica, 0, 2)}), 1) << "the second half is missing";
  PlanRange of_another_step = Part(replica, 0, 2);
  of_another_step.begin -= 4;
  of_another_step.end -= 4;
  EXPECT_EQ(take({of_another_step}), 1);
}

TEST(ReplicaTest, ComesBackFromItsBytes) {
  Replica replica = Small(/*pause_every=*/2);
  Train(replica, 1);
  Train(replica, 2);
  const std::string bytes = replica.Encode();
  Replica other = Small(/*pause_every=*/2);
  ASSERT_TRUE(other.Decode(bytes).ok());
  EXPECT_EQ(other.Checksum(), replica.Checksum());
  EXPECT_EQ(other.steps(), 2);
  EXPECT_EQ(other.phase(), Phase::kPaused);  // As it was saved.
  std::string damaged = bytes;
  damaged[bytes.size() / 2] ^= 1;
  EXPECT_EQ(other.Decode(damaged).code(), absl::StatusCode::kDataLoss);
  EXPECT_EQ(other.Decode(bytes.substr(0, 40)).code(), absl::StatusCode::kDataLoss);
  Replica larger = *Replica::Make({.batch_size = 4}, SmallPlan(), std::vector<float>{1, 2, 3});
  EXPECT_THAT(larger.Decode(bytes).ToString(), HasSubstr("another model"));
}

// As many records into a plan that is cut otherwise, or shuffled otherwise, are other records.
TEST(ReplicaTest, ComesBackToTheSamePlanOnly) {
  Replica replica = Small();
  Train(replica, 1);
  const std::string bytes = replica.Encode();
  const auto in_plan = [&](void (*change)(TaskPlanOptions&)) {
    TaskPlanOptions plan = SmallPlan().options();
    change(plan);
    Replica::Options options = {.batch_size = plan.batch_size};
    options.optimizer.name = "sgd";
    Replica other = *Replica::Make(options, TaskPlan(plan), replica.weights());
    const absl::Status status = other.Decode(bytes);
    EXPECT_EQ(other.steps(), status.ok() ? 1 : 0);
    EXPECT_TRUE(status.ok() || absl::IsFailedPrecondition(status));
    return std::string(status.message());
  };
  EXPECT_EQ(in_plan([](TaskPlanOptions& plan) { plan.batches_per_task = 2; }),
            "it is of a job with batches_per_task 3, and this one has 2: records would be trained "
            "twice or not at all; set it to 3");
  EXPECT_THAT(in_plan([](TaskPlanOptions& plan) { plan.batch_size = 2; }), HasSubstr("batch_size"));
  EXPECT_THAT(in_plan([](TaskPlanOptions& plan) { plan.seed = 9; }), HasSubstr("seed"));
  EXPECT_THAT(in_plan([](TaskPlanOptions& plan) { plan.shuffle_tasks = true; }),
              HasSubstr("shuffle.tasks false, and this one has true"));
  EXPECT_EQ(in_plan([](TaskPlanOptions& plan) { plan.epochs = 5; }), "") << "it goes on longer";
}

// What a build wrote that did not keep the plan's numbers, or how often the rate was lowered.
TEST(ReplicaTest, ComesBackFromBytesOfOldBuilds) {
  for (const char version : {'1', '2'}) {
    std::string bytes;
    ByteWriter out(bytes);
    out.PutBytes(absl::StrCat("!rubrep", std::string(1, version)));
    for (const int64_t value : {2, 2, 1, 4, 0, 0}) out.Put<int64_t>(value);
    if (version == '2') out.Put<int64_t>(1);
    out.PutSpan<float>(std::vector<float>{7, 8});
    out.Put<uint64_t>(Checksum(bytes));
    Replica replica = Small();
    ASSERT_TRUE(replica.Decode(bytes).ok()) << version;
    EXPECT_THAT(replica.weights(), ElementsAre(7, 8));
    EXPECT_EQ(replica.records(), 4);
    Train(replica, 1);
    EXPECT_THAT(replica.weights(), ElementsAre(version == '2' ? 6.5 : 6, 8));
  }
}

// The schedule goes by samples: the third step of an epoch has two of them, not four, and a step
// that failed has none. Whoever takes the state over, from a file or from another's memory, is as
// far along.
TEST(ReplicaTest, TheRateFollowsItsScheduleBySamples) {
  Replica::Options options = {.batch_size = 4};
  options.optimizer.name = "sgd";
  options.optimizer.learning_rate = 1;
  options.optimizer.schedule.name = "linear";
  options.optimizer.schedule.samples = 20;
  TaskPlanOptions plan = SmallPlan().options();
  plan.epochs = 2;
  const auto make = [&] {
    return *Replica::Make(options, TaskPlan(plan), std::vector<float>{0, 0});
  };
  const auto moved = [](Replica& replica) {
    const float before = replica.weights()[0];
    Train(replica, 1);
    return before - replica.weights()[0];
  };
  Replica replica = make();
  EXPECT_NEAR(moved(replica), 1, 1e-6);
  EXPECT_NEAR(moved(replica), 0.8, 1e-6);
  replica.BeginStep();
  replica.Vote(Replica::kFailed);
  replica.Apply();
  EXPECT_NEAR(moved(replica), 0.6, 1e-6);
  Replica resumed = make(), copy = make();
  ASSERT_TRUE(resumed.Decode(replica.Encode()).ok());
  for (size_t i = 0; i < copy.State().size(); ++i) {
    const absl::Span<char> from = replica.State()[i];
    std::copy(from.begin(), from.end(), copy.State()[i].begin());
  }
  for (Replica* const each : {&replica, &resumed, &copy}) {
    EXPECT_NEAR(moved(*each), 0.5, 1e-6) << "10 samples of 20 are over, in 3 steps of up to 4";
    EXPECT_NEAR(moved(*each), 0.3, 1e-6);
    EXPECT_NEAR(moved(*each), 0.1, 1e-6);
    EXPECT_EQ(each->phase(), Phase::kEnded);
  }
}

// Where the batch grows with the workers, so does the learning rate, bit by bit.
TEST(ReplicaTest, TheBatchGrowsWithTheWorkersIfAsked) {
  Replica::Options options = {
      .batch_size = 10, .batch_rule = BatchRule::kLinear, .batch_warmup = 40};
  options.optimizer.name = "sgd";
  options.optimizer.learning_rate = 1;
  const TaskPlan plan({.records = 1000,
                       .batch_size = 10,
                       .batches_per_task = 100,
                       .shuffle_tasks = false,
                       .together = true});
  Replica replica = *Replica::Make(options, plan, std::vector<float>{0});
  const auto train = [&](int workers) {
    const float before = replica.weights()[0];
    const PlanRange step = replica.NextStep(workers);
    EXPECT_EQ(step.size(), 10 * workers);
    replica.BeginStep();
    replica.Add(std::vector<float>{1}, step.size(), step, 0.5);
    replica.Votes()[Replica::kWorkers] = static_cast<float>(workers);
    replica.Apply();
    return before - replica.weights()[0];
  };
  EXPECT_EQ(train(1), 1);
  EXPECT_EQ(train(2), 1);  // From here over 40 samples to 2.
  EXPECT_EQ(train(2), 1.5);
  EXPECT_EQ(train(2), 2);
  EXPECT_EQ(train(4), 2);
  EXPECT_EQ(train(1), 1);  // Down at once.
  EXPECT_EQ(replica.records(), 10 + 3 * 20 + 40 + 10);
  EXPECT_EQ(replica.records_wrong(), 0);
}

// A step ends with its task, and a rate for more than it holds would throw the weights off.
TEST(ReplicaTest, TheRateGrowsNoFurtherThanTheBatchCan) {
  Replica::Options options = {.batch_size = 2, .batch_rule = BatchRule::kLinear};
  options.optimizer.name = "sgd";
  options.optimizer.learning_rate = 1;
  const TaskPlan plan({.records = 100,
                       .batch_size = 2,
                       .batches_per_task = 4,
                       .shuffle_tasks = false,
                       .together = true});
  Replica replica = *Replica::Make(options, plan, std::vector<float>{0});
  const PlanRange step = replica.NextStep(/*workers=*/16);
  EXPECT_EQ(step.size(), 8);
  replica.BeginStep();
  replica.Add(std::vector<float>{1}, step.size(), step, 0.5);
  replica.Votes()[Replica::kWorkers] = 16;
  replica.Apply();
  EXPECT_EQ(replica.weights()[0], -4);
}

// Rows that cannot be read are met again in each epoch, and counted in the first.
TEST(ReplicaTest, ABadRowCountsOnce) {
  const TaskPlan plan(
      {.records = 4, .batch_size = 4, .epochs = 3, .shuffle_tasks = false, .together = true});
  Replica::Options options = {.batch_size = 4};
  options.optimizer.name = "sgd";
  Replica replica = *Replica::Make(options, plan, std::vector<float>{0});
  for (int epoch = 0; epoch < 3; ++epoch) {
    replica.BeginStep();
    replica.Add(std::vector<float>{1}, /*rows=*/3, replica.NextStep(), 0.5);
    replica.Apply();
  }
  EXPECT_EQ(replica.phase(), Phase::kEnded);
  EXPECT_EQ(replica.bad_rows(), 1);
}

}  // namespace
}  // namespace rubato
