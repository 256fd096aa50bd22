#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <set>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "rubato/base/rng.h"
#include "rubato/worker/evaluation.h"
#include "rubato/worker/push_window.h"
#include "rubato/worker/steps_in_doubt.h"
#include "rubato/worker/task_reader.h"
#include "rubato/worker/time_ledger.h"
#include "rubato/worker/unique.h"

namespace rubato {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// ---- StepsInDoubt ------------------------------------------------------------------------------

// Step 7 is committed, 8 was applied early and 9 was under way when the group went on without this
// worker: from 8, and its part of 8 counted; from 7, and both were in vain.
TEST(StepsInDoubtTest, WhatTheOthersHaveWasNotInVain) {
  struct Case {
    int64_t parted_at;
    int64_t positions;
    absl::Duration computed;
  };
  for (const Case& c :
       {Case{9, 0, absl::ZeroDuration()}, Case{8, 300, absl::Milliseconds(30)},
        Case{7, 320, absl::Milliseconds(32)}, Case{-1, 320, absl::Milliseconds(32)}}) {
    StepsInDoubt doubts;
    doubts.Took(7, {absl::Milliseconds(1), 10});
    doubts.Took(8, {absl::Milliseconds(2), 20});
    doubts.Committed(7);
    doubts.Took(9, {absl::Milliseconds(30), 300});
    const StepsInDoubt::Work lost = doubts.Parted(c.parted_at);
    EXPECT_EQ(lost.positions, c.positions) << c.parted_at;
    EXPECT_EQ(lost.computed, c.computed) << c.parted_at;
    EXPECT_EQ(doubts.Parted(-1).positions, 0) << "once";
  }
}

// ---- Unique ------------------------------------------------------------------------------------

Batch RandomIds(Rng& rng, int64_t rows, int64_t columns, uint64_t range) {
  Batch batch;
  batch.rows = rows;
  for (int64_t i = 0; i < rows * columns; ++i) {
    batch.ids.push_back((static_cast<uint64_t>(i % columns) << 56) | rng.Below(range));
  }
  return batch;
}

// Whatever the ids, each distinct one is there once, in order of first sight, and every cell
// finds its own; and a reused table remembers nothing of the batch before.
TEST(UniqueTest, EveryCellFindsItsId) {
  Rng rng(3);
  Unique unique;
  UniqueIds found;
  for (int round = 0; round < 50; ++round) {
    const int64_t columns = 1 + static_cast<int64_t>(rng.Below(5));
    const Batch batch =
        RandomIds(rng, static_cast<int64_t>(rng.Below(2000)), columns, 1 + rng.Below(5000));
    std::vector<int64_t> fields;
    for (int64_t f = 0; f < columns; ++f) {
      if (rng.Chance(0.7)) fields.push_back(f);
    }
    unique.Find(batch, columns, fields, &found);
    std::vector<uint64_t> seen;
    std::set<uint64_t> known;
    ASSERT_EQ(found.position.size(), batch.rows * fields.size());
    for (int64_t row = 0; row < batch.rows; ++row) {
      for (size_t f = 0; f < fields.size(); ++f) {
        const uint64_t id = batch.ids[row * columns + fields[f]];
        if (known.insert(id).second) seen.push_back(id);
        ASSERT_EQ(found.ids[found.position[row * fields.size() + f]], id);
      }
    }
    if (fields.empty()) seen = {0};  // A table that every batch takes the same row of.
    ASSERT_EQ(found.ids, seen);
  }
}

// Bags are counted on after the columns, and their values stand behind the cells.
TEST(UniqueTest, FindsTheValuesOfBags) {
  Batch batch;
  batch.rows = 2;
  batch.ids = {5, 6, 7, 5};  // Two columns.
  batch.bag_ids = {6, 9, 9, 5};
  batch.bag_ends = {2, 2, 3, 4};  // Two bags: {6, 9}, {} and {9}, {5}.
  UniqueIds found;
  Unique unique;
  const std::vector<int64_t> fields = {0, 2, 3};
  unique.Find(batch, 2, fields, &found);
  EXPECT_THAT(found.ids, testing::ElementsAre(5, 6, 9, 7));
  EXPECT_THAT(found.position, testing::ElementsAre(0, 0, 0, 3, 0, 0, /*values:*/ 1, 2, 2, 0));
}

// ---- TaskReader --------------------------------------------------------------------------------

// Record n is the text "n", or "bad" if listed so.
class CountingSource : public RecordSource {
 public:
  explicit CountingSource(int64_t records, std::set<int64_t> bad = {})
      : records_(records), bad_(std::move(bad)) {}
  int64_t records() const override { return records_; }
  absl::Status Read(int64_t begin, int64_t end,
                    absl::FunctionRef<absl::Status(int64_t, absl::string_view)> visit) override {
    for (int64_t r = begin; r < end; ++r) {
      const std::string text = bad_.contains(r) ? "bad" : absl::StrCat(r);
      if (absl::Status status = visit(r, text); !status.ok()) return status;
    }
    return absl::OkStatus();
  }
  std::string Locate(int64_t record) const override {
    return absl::StrCat("numbers.txt:", record + 1);
  }

 private:
  const int64_t records_;
  const std::set<int64_t> bad_;
};

// Label, dense column and id column all hold the number.
class NumberParser : public RecordParser {
 public:
  const BatchShape& shape() const override { return shape_; }
  absl::Status Parse(absl::string_view record, Batch* batch) const override {
    int64_t n = 0;
    if (!absl::SimpleAtoi(record, &n)) {
      return absl::InvalidArgumentError(absl::StrCat("'", record, "' is not a number"));
    }
    batch->labels.push_back(static_cast<float>(n));
    batch->dense.push_back(static_cast<float>(n));
    batch->ids.push_back(static_cast<uint64_t>(n));
    ++batch->rows;
    return absl::OkStatus();
  }

 private:
  const BatchShape shape_{.dense = {"x"}, .ids = {"n"}};
};

struct ReadBatch {
  BatchKey key;
  std::vector<uint64_t> records;
};

std::vector<ReadBatch> ReadAll(TaskReader& reader, const Task& task) {
  std::vector<ReadBatch> batches;
  reader.Start(task);
  BatchKey key;
  Batch batch;
  for (;;) {
    const absl::StatusOr<bool> more = reader.Next(&key, &batch);
    EXPECT_TRUE(more.ok()) << more.status();
    if (!more.ok() || !*more) return batches;
    EXPECT_EQ(batch.rows, static_cast<int64_t>(batch.labels.size()));
    for (int64_t i = 0; i < batch.rows; ++i) {
      EXPECT_EQ(static_cast<uint64_t>(batch.dense[i]), batch.ids[i]);
    }
    batches.push_back({key, batch.ids});
  }
}

const Task kTask{.id = TaskId(4), .epoch = 2, .begin = 100, .end = 345, .committed = 100};

TEST(TaskReaderTest, EveryRecordOfTheTaskOnceInAShuffledOrder) {
  CountingSource source(1000);
  NumberParser parser;
  TaskReader reader(source, parser, {.seed = 7, .batch_size = 32, .shuffle_buffer = 100});
  const std::vector<ReadBatch> batches = ReadAll(reader, kTask);
  ASSERT_EQ(batches.size(), 8u);
  std::set<uint64_t> all;
  for (size_t k = 0; k < batches.size(); ++k) {
    const int64_t begin = 100 + 32 * static_cast<int64_t>(k);
    EXPECT_EQ(batches[k].key, (BatchKey{2, 4, begin, std::min<int64_t>(begin + 32, 345)}));
    all.insert(batches[k].records.begin(), batches[k].records.end());
  }
  EXPECT_EQ(all.size(), 245u);
  EXPECT_EQ(*all.begin(), 100u);
  EXPECT_EQ(*all.rbegin(), 344u);
  EXPECT_FALSE(std::is_sorted(batches[0].records.begin(), batches[0].records.end()));
}

// A worker that takes over in the middle of a block computes what the first would have.
TEST(TaskReaderTest, GoesOnFromTheCommittedPositionWithTheSameBatches) {
  CountingSource source(1000);
  NumberParser parser;
  const TaskReader::Options options{.seed = 7, .batch_size = 32, .shuffle_buffer = 100};
  TaskReader first(source, parser, options), second(source, parser, options);
  const std::vector<ReadBatch> whole = ReadAll(first, kTask);
  Task rest = kTask;
  rest.committed = whole[4].key.begin;
  const std::vector<ReadBatch> taken = ReadAll(second, rest);
  ASSERT_EQ(taken.size(), whole.size() - 4);
  for (size_t k = 0; k < taken.size(); ++k) {
    EXPECT_EQ(taken[k].key, whole[k + 4].key);
    EXPECT_EQ(taken[k].records, whole[k + 4].records);
  }
}

TEST(TaskReaderTest, EvaluationKeepsTheOrderOfTheFile) {
  CountingSource source(1000);
  NumberParser parser;
  TaskReader reader(source, parser, {.seed = 7, .batch_size = 3});
  Task task = kTask;
  task.kind = TaskKind::kEvaluate;
  task.end = 107;
  const std::vector<ReadBatch> batches = ReadAll(reader, task);
  ASSERT_EQ(batches.size(), 3u);
  EXPECT_THAT(batches[1].records, ElementsAre(103, 104, 105));
  EXPECT_THAT(batches[2].records, ElementsAre(106));
}

TEST(TaskReaderTest, ABadRowEndsTheTaskAndIsNamed) {
  CountingSource source(1000, {120});
  NumberParser parser;
  TaskReader reader(source, parser, {.seed = 7, .batch_size = 32});
  reader.Start(kTask);
  BatchKey key;
  Batch batch;
  const absl::Status status = reader.Next(&key, &batch).status();
  EXPECT_TRUE(absl::IsInvalidArgument(status));
  EXPECT_EQ(status.message(),
            "numbers.txt:121: 'bad' is not a number; mend the row, or leave such rows out with "
            "data.bad_rows: skip");
}

TEST(TaskReaderTest, SkippedRowsKeepTheirPositionsAndAreNamedWithTheirBatch) {
  CountingSource source(1000, {100, 101, 102, 103, 105});
  NumberParser parser;
  TaskReader reader(source, parser, {.batch_size = 4, .shuffle_buffer = 0, .skip_bad_rows = true});
  Task task = kTask;
  task.end = 112;
  BatchKey key;
  Batch batch;
  // The same again for whoever gets the task next: rows are named by batch, not by reading.
  for (int reading = 0; reading < 2; ++reading) {
    reader.Start(task);
    ASSERT_TRUE(*reader.Next(&key, &batch));
    EXPECT_EQ(key.end, 104);
    EXPECT_EQ(batch.rows, 0);
    EXPECT_EQ(reader.skipped().count, 4);
    EXPECT_EQ(reader.skipped().named.front(), "numbers.txt:101: 'bad' is not a number");
    ASSERT_TRUE(*reader.Next(&key, &batch));
    EXPECT_EQ(batch.rows, 3);
    EXPECT_EQ(reader.skipped().count, 1);
    ASSERT_TRUE(*reader.Next(&key, &batch));
    EXPECT_EQ(reader.skipped().count, 0);
  }
}

// A label the model cannot mean is a bad row like any other.
TEST(TaskReaderTest, LabelsMustSuitTheModel) {
  CountingSource source(1000, {});
  NumberParser parser;  // The label is the number of the record.
  Task task = kTask;
  task.begin = task.committed = 0;
  task.end = 4;
  BatchKey key;
  Batch batch;
  TaskReader binary(source, parser, {.batch_size = 4, .shuffle_buffer = 0, .score_width = 1});
  binary.Start(task);
  EXPECT_THAT(std::string(binary.Next(&key, &batch).status().message()),
              AllOf(HasSubstr("numbers.txt:3: the label is 2"), HasSubstr("0 or 1")));
  TaskReader classes(
      source, parser,
      {.batch_size = 4, .shuffle_buffer = 0, .skip_bad_rows = true, .score_width = 3});
  classes.Start(task);
  ASSERT_TRUE(*classes.Next(&key, &batch));
  EXPECT_EQ(batch.rows, 3);
  EXPECT_THAT(batch.labels, ElementsAre(0, 1, 2));
  EXPECT_THAT(classes.skipped().named,
              ElementsAre("numbers.txt:4: the label is 3, but the model has 3 classes: 0 to 2"));
}

// ---- PushWindow --------------------------------------------------------------------------------

BatchKey Key(int64_t task, int64_t k) { return {0, task, k * 10, k * 10 + 10}; }
Task TenBatches(int64_t id) { return {.id = TaskId(id), .begin = 0, .end = 100}; }

TEST(PushWindowTest, WithZeroInFlightABatchWaitsForTheOneBefore) {
  PushWindow window(0);
  window.Begin(TenBatches(1));
  EXPECT_TRUE(window.HasRoom());
  window.Open(Key(1, 0));
  EXPECT_FALSE(window.HasRoom());
  EXPECT_TRUE(window.Applied(Key(1, 0)));
  EXPECT_TRUE(window.HasRoom());
}

TEST(PushWindowTest, ATaskIsCommittedUpToItsFirstGap) {
  PushWindow window(3);
  window.Begin(TenBatches(1));
  for (int64_t k = 0; k < 3; ++k) window.Open(Key(1, k));
  window.Applied(Key(1, 2));
  window.Applied(Key(1, 1));
  EXPECT_THAT(window.TakeCommits(), IsEmpty());
  window.Applied(Key(1, 0));
  EXPECT_THAT(window.TakeCommits(), ElementsAre(PushWindow::Commit{TaskId(1), 30, false}));
  EXPECT_THAT(window.TakeCommits(), IsEmpty());
}

// Random schedules: acknowledgements in any order, repeated, over two tasks at once. The bound
// holds throughout, commits only grow, and both tasks end committed whole.
TEST(PushWindowTest, AnyOrderOfAnswersEndsWithEverythingCommitted) {
  for (uint64_t seed = 0; seed < 200; ++seed) {
    Rng rng(seed);
    const int64_t max_inflight = static_cast<int64_t>(rng.Below(5));
    PushWindow window(max_inflight);
    window.Begin(TenBatches(1));
    window.Begin(TenBatches(2));
    std::vector<BatchKey> answers;
    std::map<TaskId, int64_t> upto;
    int finished = 0;
    for (int opened = 0; finished < 2;) {
      if (opened < 20 && window.HasRoom() && (answers.empty() || rng.Chance(0.5))) {
        const BatchKey key = Key(1 + opened / 10, opened % 10);
        ++opened;
        window.Open(key);
        answers.push_back(key);
      } else {
        const size_t i = rng.Below(answers.size());
        window.Applied(answers[i]);
        if (rng.Chance(0.8)) answers.erase(answers.begin() + static_cast<int64_t>(i));
      }
      ASSERT_LE(window.inflight(), max_inflight + 1);
      for (const PushWindow::Commit& commit : window.TakeCommits()) {
        ASSERT_GT(commit.upto, upto[commit.task]);
        upto[commit.task] = commit.upto;
        finished += commit.finished;
      }
    }
    EXPECT_THAT(upto, ElementsAre(std::pair(TaskId(1), 100), std::pair(TaskId(2), 100)));
  }
}

TEST(PushWindowTest, AnswersForALostLeaseAreNothing) {
  PushWindow window(3);
  window.Begin(TenBatches(1));
  window.Open(Key(1, 0));
  EXPECT_FALSE(window.Idle(TaskId(1)));
  window.Drop(TaskId(1));
  EXPECT_TRUE(window.Idle(TaskId(1)));
  EXPECT_FALSE(window.Applied(Key(1, 0)));
  EXPECT_THAT(window.TakeCommits(), IsEmpty());
  EXPECT_EQ(window.inflight(), 0);
}

// ---- Evaluation --------------------------------------------------------------------------------

TEST(EvaluationTest, BinaryScoresBecomeLoglossAccuracyAndAuc) {
  Evaluation evaluation(1);
  Batch batch;
  batch.rows = 4;
  batch.labels = {1, 0, 1, 0};
  evaluation.Add(batch, {0.9f, 0.1f, 0.6f, 0.7f}, {{"spread", 2.0}});
  evaluation.Add(batch, {0.9f, 0.1f, 0.6f, 0.7f}, {{"spread", 2.0}});
  const std::map<std::string, double> metrics = Metrics(evaluation.sums());
  EXPECT_NEAR(metrics.at("auc"), 0.75, 1e-9);
  EXPECT_NEAR(metrics.at("accuracy"), 0.75, 1e-9);
  EXPECT_NEAR(metrics.at("logloss"),
              -(std::log(0.9) + std::log(0.9) + std::log(0.6) + std::log(0.3)) / 4, 1e-6);
  EXPECT_NEAR(metrics.at("spread"), 0.5, 1e-9);
}

// Each user's records are told apart by the id column of that name, and ordered among themselves.
TEST(EvaluationTest, AGroupIsAnIdColumn) {
  const BatchShape shape = {.ids = {"ad", "user"}};
  const absl::StatusOr<GroupColumn> user = FindGroup(shape, "user");
  ASSERT_TRUE(user.ok()) << user.status();
  Evaluation evaluation(1, *user);
  Batch batch;
  batch.rows = 4;
  batch.labels = {1, 0, 1, 0};
  batch.ids = {7, 1, 7, 1, 7, 2, 7, 2};
  // User 1 is right, user 2 wrong; all together three pairs of four are.
  evaluation.Add(batch, {0.9f, 0.5f, 0.6f, 0.7f}, {});
  const std::map<std::string, double> metrics = Metrics(evaluation.sums());
  EXPECT_EQ(metrics.at("gauc"), 0.5);
  EXPECT_EQ(metrics.at("auc"), 0.75);

  Evaluation together(1, FindGroup(shape, "").value());
  together.Add(batch, {0.9f, 0.5f, 0.6f, 0.7f}, {});
  EXPECT_FALSE(Metrics(together.sums()).contains("gauc"));
  EXPECT_EQ(FindGroup(shape, "usr").status().message(),
            "evaluate.group: the data has no column 'usr'; did you mean 'user'?");
  EXPECT_THAT(FindGroup(shape, "session_key").status().message(),
              HasSubstr("no column 'session_key'; without features it must be one"));

  // Users whose ids are one, as those that are rare, are groups of their own by their cells.
  const BatchShape cells = {.ids = {"ad", "user"}, .group = "user"};
  Evaluation apart(1, FindGroup(cells, "user").value());
  batch.ids = {7, 1, 7, 1, 7, 1, 7, 1};
  batch.groups = {11, 11, 12, 12};
  apart.Add(batch, {0.9f, 0.5f, 0.6f, 0.7f}, {});
  EXPECT_EQ(Metrics(apart.sums()).at("gauc"), 0.5);
}

TEST(EvaluationTest, LogitsOfClassesBecomeCrossEntropyAndAccuracy) {
  Evaluation evaluation(3);
  Batch batch;
  batch.rows = 2;
  batch.labels = {2, 0};
  evaluation.Add(batch, {1, 2, 3, 1000, 1001, 0}, {});  // The second would overflow unshifted.
  EXPECT_EQ(evaluation.sums().records, 2);
  EXPECT_EQ(evaluation.sums().correct, 1);
  const double first = std::log(std::exp(1) + std::exp(2) + std::exp(3)) - 3;
  const double second = std::log(1 + std::exp(-1)) + 1;
  EXPECT_NEAR(evaluation.sums().loss_sum, first + second, 1e-6);
}

// ---- TimeLedger --------------------------------------------------------------------------------

TEST(TimeLedgerTest, ThePartsSumToTheWhole) {
  Rng rng(5);
  const absl::Time start = absl::FromUnixSeconds(1000);
  absl::Time now = start;
  TimeLedger ledger(start);
  for (int i = 0; i < 1000; ++i) {
    now += absl::Microseconds(rng.Below(5000));
    const bool was_useful = ledger.current() == Activity::kUseful;
    const absl::Duration span = ledger.Enter(static_cast<Activity>(rng.Below(kActivities)), now);
    if (was_useful && rng.Chance(0.2)) ledger.Redone(span);
    if (rng.Chance(0.1)) ledger.Lost(absl::Milliseconds(2), absl::Milliseconds(1), now);
  }
  now += absl::Milliseconds(3);
  EXPECT_NEAR(ledger.Spent(now).total(), absl::ToDoubleSeconds(now - start), 1e-9);
}

TEST(TimeLedgerTest, AStepSeenByTheClock) {
  const absl::Time start = absl::FromUnixSeconds(1000);
  const auto at = [&](int64_t ms) { return start + absl::Milliseconds(ms); };
  TimeLedger ledger(start);
  ledger.Enter(Activity::kRead, at(400));  // Started up.
  ledger.Enter(Activity::kUseful, at(410));
  const absl::Duration compute = ledger.Enter(Activity::kWait, at(430));
  ledger.Redone(compute);
  const TimeSpent spent = ledger.Spent(at(431));
  EXPECT_DOUBLE_EQ(spent.rebuild, 0.4);
  EXPECT_DOUBLE_EQ(spent.read, 0.01);
  EXPECT_DOUBLE_EQ(spent.useful, 0);
  EXPECT_DOUBLE_EQ(spent.redo, 0.02);
  EXPECT_DOUBLE_EQ(spent.wait, 0.001);
}

// A step waits for one that is gone: 30 ms as it would have anyway, 800 until that is noticed, and
// 5 for the next view.
TEST(TimeLedgerTest, AWaitForOneThatIsGone) {
  const absl::Time start = absl::FromUnixSeconds(1000);
  const auto at = [&](int64_t ms) { return start + absl::Milliseconds(ms); };
  TimeLedger ledger(start);
  ledger.Enter(Activity::kWait, at(100));
  ledger.Lost(absl::Milliseconds(800), absl::Milliseconds(5), at(935));
  ledger.Enter(Activity::kUseful, at(940));
  const TimeSpent spent = ledger.Spent(at(950));
  EXPECT_DOUBLE_EQ(spent.wait, 0.035);
  EXPECT_DOUBLE_EQ(spent.detect, 0.8);
  EXPECT_DOUBLE_EQ(spent.rebuild, 0.105);
  EXPECT_DOUBLE_EQ(spent.useful, 0.01);
}

}  // namespace
}  // namespace rubato
