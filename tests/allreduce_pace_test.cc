// strategy: allreduce with a worker that is slow: it is dealt less of each batch, and the batch
// stays what it was. What each worker computes is noted by the model itself (paced_model.cc).
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <csignal>
#include <filesystem>
#include <map>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "tests/job_runner.h"

namespace rubato {
namespace {

constexpr int64_t kBatch = 32;
constexpr int64_t kSteps = 2000;  // More than there will be time for.

// Which records a process computed, by step. A step that is under way may be there in part.
std::map<int64_t, std::vector<int64_t>> RowsOf(const ScratchFolder& folder, pid_t pid) {
  std::map<int64_t, std::vector<int64_t>> rows;
  std::istringstream text(ReadText(absl::StrCat(folder.path(), "/rows-", pid)));
  for (int64_t number; text >> number;) rows[number / kBatch].push_back(number);
  return rows;
}

int64_t LastStep(const ScratchFolder& folder, pid_t pid) {
  const auto rows = RowsOf(folder, pid);
  return rows.empty() ? -1 : rows.rbegin()->first;
}

// The median of how many records of a step it computed, over steps [begin, end).
size_t Share(const std::map<int64_t, std::vector<int64_t>>& rows, int64_t begin, int64_t end) {
  std::vector<size_t> shares;
  for (int64_t step = begin; step < end; ++step) {
    const auto it = rows.find(step);
    shares.push_back(it == rows.end() ? 0 : it->second.size());
  }
  std::sort(shares.begin(), shares.end());
  return shares[shares.size() / 2];
}

TEST(AllreducePaceTest, AWorkerSlowedTwoTimesIsDealtLessOfTheSameBatch) {
  ScratchFolder folder;
  std::string numbers;
  for (int64_t i = 0; i < kBatch * kSteps; ++i) absl::StrAppend(&numbers, i, "\n");
  folder.Write("numbers.txt", numbers);
  folder.Write("pace", "5000");  // 80 ms for half a batch.
  TrainingJob training(
      folder.path(),
      {folder.Write("job.yaml", absl::StrCat("name: paced\nmodel: ", RUBATO_PACED_MODEL,
                                             "\nmodel_options: {folder: ", folder.path(),
                                             "}\nstrategy: allreduce\ndata: {train: numbers.txt}\n"
                                             "shuffle: {tasks: false, buffer: 0}\nbatch_size: ",
                                             kBatch,
                                             "\nworkers: {max: 2}\noptimizer: {name: sgd}\n"
                                             "elastic: {lease: 15s}\n"))});  // Busy is not lost.
  ASSERT_TRUE(Eventually([&] { return training.Events("worker_holds").size() == 2; }));
  const auto workers = training.Alive("worker");
  ASSERT_EQ(workers.size(), 2u);
  const pid_t even = workers[0].pid, slowed = workers[1].pid;
  const auto reach = [&](int64_t step) {
    return Eventually([&] { return LastStep(folder, slowed) > step; });
  };
  ASSERT_TRUE(reach(-1));
  const int64_t begin = LastStep(folder, slowed) + 5;  // Both have been measured.
  ASSERT_TRUE(reach(begin + 20));
  const size_t views = training.Events("view").size();
  folder.Write(absl::StrCat("pace-", slowed), "10000");
  const int64_t struck = LastStep(folder, slowed);
  const int64_t end = struck + 40;
  ASSERT_TRUE(reach(end));

  const auto even_rows = RowsOf(folder, even), slowed_rows = RowsOf(folder, slowed);
  const size_t before = Share(slowed_rows, begin, struck);
  const size_t after = Share(slowed_rows, struck + 20, end);
  std::printf("of %d records: %d, slowed %d, then %d\n", static_cast<int>(kBatch),
              static_cast<int>(before), static_cast<int>(after),
              static_cast<int>(kBatch - Share(even_rows, struck + 20, end)));
  // Of 32 records it is 16, then 10 or 12.
  EXPECT_GE(before, 12u);
  EXPECT_LE(after, before - 2);
  EXPECT_LE(after, 14u);
  EXPECT_GE(after, 2u) << "it takes part, so that its speed is known";
  EXPECT_GT(Share(even_rows, struck + 20, end), Share(even_rows, begin, struck));
  // Every step is of exactly the same records, whoever computes them; twice only what a change of
  // view cost.
  const bool calm = training.Events("view").size() == views;
  for (int64_t step = begin; step < end; ++step) {
    std::vector<int64_t> all = even_rows.at(step), whole;
    all.insert(all.end(), slowed_rows.at(step).begin(), slowed_rows.at(step).end());
    std::sort(all.begin(), all.end());
    if (!calm) all.erase(std::unique(all.begin(), all.end()), all.end());
    for (int64_t i = 0; i < kBatch; ++i) whole.push_back(kBatch * step + i);
    EXPECT_EQ(all, whole) << "step " << step;
  }
}

// More workers than parts, and one of them much faster, where the batch grows with the workers: who
// computes must cut the step as who counts its records does.
TEST(AllreducePaceTest, AFastOneAmongManyDoesNotChangeTheBatch) {
  ScratchFolder folder;
  std::string numbers;
  for (int64_t i = 0; i < 6000; ++i) absl::StrAppend(&numbers, i, "\n");
  folder.Write("numbers.txt", numbers);
  folder.Write("pace", "20000");  // Until all are there.
  TrainingJob training(
      folder.path(),
      {folder.Write(
          "job.yaml",
          absl::StrCat("name: paced\nmodel: ", RUBATO_PACED_MODEL, "\nmodel_options: {folder: ",
                       folder.path(), "}\nstrategy: allreduce\ndata: {train: numbers.txt}\n",
                       "batch_size: 12\nallreduce: {microbatches: 3, batch_rule: linear}\n",
                       "workers: {max: 4}\noptimizer: {name: sgd}\nelastic: {lease: 15s}\n"))});
  ASSERT_TRUE(Eventually([&] { return training.Events("worker_holds").size() == 4; }));
  folder.Write(absl::StrCat("pace-", training.Alive("worker")[1].pid), "100");
  folder.Write("pace", "1000");
  const CommandResult result = training.Wait();
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_EQ(training.Summary()["records_repeated"], 0);
}

// Stopped in the midst of an epoch and gone on with more workers than the job was made for: where
// the batch grows with them, a plan cut by their number would be another one from there on.
TEST(AllreducePaceTest, GoesOnThroughTheSamePlanWithMoreWorkers) {
  constexpr int64_t kRecords = 2400;
  ScratchFolder folder;
  std::string numbers;
  for (int64_t i = 0; i < kRecords; ++i) absl::StrAppend(&numbers, i, "\n");
  folder.Write("numbers.txt", numbers);
  folder.Write("pace", "2000");
  const std::string job = folder.Write(
      "job.yaml",
      absl::StrCat("name: paced\nmodel: ", RUBATO_PACED_MODEL, "\nmodel_options: {folder: ",
                   folder.path(), "}\nstrategy: allreduce\ndata: {train: numbers.txt}\n",
                   "batch_size: 12\nallreduce: {batch_rule: linear}\nworkers: {max: 2}\n",
                   "optimizer: {name: sgd}\nelastic: {lease: 15s}\n"));
  {
    TrainingJob training(folder.path(), {job});
    ASSERT_TRUE(training.ReachStep(30));
    kill(training.pid(), SIGINT);
    const CommandResult stopped = training.Wait();
    ASSERT_EQ(stopped.exit_code, 130) << stopped.err;
  }
  std::filesystem::remove(folder.path() + "/pace");
  TrainingJob training(folder.path(), {"--resume", folder.path() + "/job", "--workers", "4"});
  const CommandResult result = training.Wait();
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_EQ(training.Summary()["records_committed"], kRecords);
  EXPECT_EQ(training.Summary()["records_repeated"], 0);
  // So many, and none left out: each of them once.
  std::set<int64_t> computed;
  for (const auto& file : std::filesystem::directory_iterator(folder.path())) {
    if (!absl::StartsWith(file.path().filename().string(), "rows-")) continue;
    std::istringstream text(ReadText(file.path()));
    for (int64_t number; text >> number;) computed.insert(number);
  }
  EXPECT_EQ(static_cast<int64_t>(computed.size()), kRecords);
}

}  // namespace
}  // namespace rubato
