// Partitions that leave a busy server while `rubato train` goes on. The ids of the data were chosen
// such that one of two servers has all of them.
#include <gtest/gtest.h>

#include <algorithm>
#include <csignal>
#include <optional>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "rubato/base/rng.h"
#include "rubato/base/status.h"
#include "rubato/data/formats.h"
#include "rubato/params/partition.h"
#include "tests/job_runner.h"

namespace rubato {
namespace {

constexpr size_t kColumns = 20;
constexpr size_t kRows = 8000;  // One batch, each cell with an id of its own: many keys a second.

class BusyServersTest : public testing::Test {
 protected:
  // All ids of the data are of the first of two servers.
  std::string WriteJob(const std::string& extra) {
    std::vector<std::string> names;
    for (size_t c = 0; c < kColumns; ++c) names.push_back(absl::StrCat("c", c));
    DataSpec data;
    data.format = "csv";
    data.label = "click";
    data.categorical = names;
    const std::string header = absl::StrCat("click,", absl::StrJoin(names, ","));
    const auto parser = MakeParser(data, header);
    RUBATO_CHECK_OK(parser.status());
    const PartitionMap map = PartitionMap::Even(2);
    std::vector<std::vector<std::string>> cells(kColumns);
    Batch batch;
    for (uint64_t n = 0; cells.back().size() < kRows || cells.front().size() < kRows; ++n) {
      const std::string text = absl::StrCat("v", n);
      const std::vector<std::string> row(kColumns, text);
      batch.Clear();
      RUBATO_CHECK_OK((*parser)->Parse(absl::StrCat("1,", absl::StrJoin(row, ",")), &batch));
      for (size_t c = 0; c < kColumns; ++c) {
        if (map.ServerOf(PointOf(batch.ids[c])) == 0) cells[c].push_back(text);
      }
    }
    std::string csv = header + "\n";
    for (size_t r = 0; r < kRows; ++r) {
      absl::StrAppend(&csv, r % 2);
      for (const auto& column : cells) absl::StrAppend(&csv, ",", column[r % column.size()]);
      csv += '\n';
    }
    folder_.Write("train.csv", csv);
    return folder_.Write("job.yaml",
                         absl::StrCat("name: busy\nmodel: logistic\nbatch_size: ", kRows,
                                      "\nepochs: 100000\nservers: 2\nworkers: {max: 1}\n"
                                      "data: {train: train.csv, format: csv, label: click, "
                                      "categorical: [",
                                      absl::StrJoin(names, ", "), "]}\n", extra));
  }
  // Rows by server, as `rubato params` says.
  std::optional<std::vector<int64_t>> Rows() {
    const CommandResult shown =
        RunRubato({"params", training_->job_dir(), "--json"}, folder_.path());
    if (shown.exit_code != 0) return std::nullopt;
    std::vector<int64_t> rows;
    for (const auto& server : nlohmann::json::parse(shown.out)["servers"]) {
      rows.push_back(server["rows"]);
    }
    return rows;
  }
  // Those that moved for load.
  size_t BusyMoves() {
    const auto moves = training_->Events("partitions_moved");
    return static_cast<size_t>(std::count_if(moves.begin(), moves.end(), [](const auto& move) {
      return move.dump().find("times the mean load") != std::string::npos;
    }));
  }

  ScratchFolder folder_;
  std::optional<TrainingJob> training_;
};

TEST_F(BusyServersTest, AHotServerHandsPartitionsOverWhileTrainingGoesOn) {
  training_.emplace(folder_.path(), std::vector<std::string>{WriteJob("")});
  ASSERT_TRUE(training_->ReachStep(2));
  ASSERT_TRUE(Eventually([&] { return BusyMoves() > 0; }, absl::Minutes(4)))
      << training_->Show().dump();
  const int64_t steps = training_->Show()["steps"];
  ASSERT_TRUE(training_->ReachStep(steps + 3));
  // What was all on one server is on both, in equal numbers of partitions, once all has moved.
  ASSERT_TRUE(Eventually([&] {
    const auto rows = Rows();
    return rows.has_value() && rows->size() == 2 && (*rows)[0] > 1000 && (*rows)[1] > 1000;
  }));
  EXPECT_EQ(training_->Alive("server").size(), 2u);
  kill(training_->pid(), SIGINT);
  training_->Wait();
  const nlohmann::json summary = training_->Summary();
  EXPECT_EQ(summary["state"], "stopped") << summary;
  EXPECT_EQ(summary["records_repeated"], 0);
}

TEST_F(BusyServersTest, OrNotIfSoAsked) {
  training_.emplace(folder_.path(),
                    std::vector<std::string>{WriteJob("params: {rebalance: false}\n")});
  ASSERT_TRUE(training_->ReachStep(30));
  EXPECT_EQ(training_->Events("partitions_moved").size(), 0u);
  const auto rows = Rows();
  ASSERT_TRUE(rows.has_value());
  EXPECT_EQ((*rows)[1], 0);  // What the other test rests on: nothing hashes there.
  EXPECT_GT((*rows)[0], 100000);
}

}  // namespace
}  // namespace rubato
