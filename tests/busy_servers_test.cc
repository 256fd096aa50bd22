// Partitions that leave a busy server while `rubato train` goes on. The ids of the data were chosen
// such that those of one of two servers are in every batch, and those of the other in one of five.
#include <gtest/gtest.h>

#include <algorithm>
#include <csignal>
#include <optional>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "rubato/base/status.h"
#include "rubato/data/formats.h"
#include "rubato/params/partition.h"
#include "tests/job_runner.h"

namespace rubato {
namespace {

// Many keys a second, for less than 100,000 are no burden: a step pulls and pushes 144,000 of the
// one server and 16,000 of the other. Both have about as many rows.
constexpr size_t kColumns = 20;
constexpr size_t kRareColumns = 2;
constexpr size_t kBatch = 8000;
constexpr size_t kBatches = 5;
constexpr absl::Duration kPatience = absl::Minutes(8);  // On a machine that does much else.

class BusyServersTest : public testing::Test {
 protected:
  // By column, texts whose ids are all of one server: enough for all batches.
  static std::vector<std::vector<std::string>> Cells(const DataSpec& data,
                                                     const std::string& header) {
    const auto parser = MakeParser(data, header);
    RUBATO_CHECK_OK(parser.status());
    const PartitionMap map = PartitionMap::Even(2);
    std::vector<std::vector<std::string>> cells(kColumns);
    const auto few = [](const auto& column) { return column.size() < kBatch * kBatches; };
    Batch batch;
    for (uint64_t n = 0; std::any_of(cells.begin(), cells.end(), few); ++n) {
      const std::string text = absl::StrCat("v", n);
      const std::vector<std::string> row(kColumns, text);
      batch.Clear();
      RUBATO_CHECK_OK((*parser)->Parse(absl::StrCat("1,", absl::StrJoin(row, ",")), &batch));
      for (size_t c = 0; c < kColumns; ++c) {
        const int64_t server = c < kRareColumns ? 1 : 0;
        if (map.ServerOf(PointOf(batch.ids[c])) == server) cells[c].push_back(text);
      }
    }
    return cells;
  }
  std::string WriteJob() {
    std::vector<std::string> names;
    for (size_t c = 0; c < kColumns; ++c) names.push_back(absl::StrCat("c", c));
    DataSpec data;
    data.format = "csv";
    data.label = "click";
    data.categorical = names;
    const std::string header = absl::StrCat("click,", absl::StrJoin(names, ","));
    const auto cells = Cells(data, header);
    std::string csv = header + "\n";
    for (size_t r = 0; r < kBatch * kBatches; ++r) {
      absl::StrAppend(&csv, r % 2);
      for (size_t c = 0; c < kColumns; ++c) {
        absl::StrAppend(&csv, ",", cells[c][c < kRareColumns ? r : r % kBatch]);
      }
      csv += '\n';
    }
    folder_.Write("train.csv", csv);
    return folder_.Write("job.yaml",
                         absl::StrCat("name: busy\nmodel: logistic\nbatch_size: ", kBatch,
                                      "\nepochs: 100000\nservers: 2\nworkers: {max: 1}\n"
                                      "data: {train: train.csv, format: csv, label: click, "
                                      "categorical: [",
                                      absl::StrJoin(names, ", "), "]}\n"));
  }
  int64_t Steps() {
    const nlohmann::json shown = training_->Show();
    return shown.is_object() ? shown["steps"].get<int64_t>() : 0;
  }
  // What left server 0 for its load, in rows, so far.
  int64_t RowsMovedForLoad() {
    int64_t rows = 0;
    for (const nlohmann::json& event : training_->Events("partitions_moved")) {
      const bool for_load = event.dump().find("times the mean load") != std::string::npos;
      if (for_load && event["from"] == 0) rows += event["rows"].get<int64_t>();
    }
    return rows;
  }

  ScratchFolder folder_;
  std::optional<TrainingJob> training_;
};

TEST_F(BusyServersTest, AHotServerHandsPartitionsOverWhileTrainingGoesOn) {
  training_.emplace(folder_.path(), std::vector<std::string>{WriteJob()});
  ASSERT_TRUE(
      Eventually([&] { return RowsMovedForLoad() > 0 || !training_->running(); }, kPatience))
      << training_->Show().dump();
  const int64_t steps = Steps();
  ASSERT_TRUE(Eventually([&] { return Steps() >= steps + 3 || !training_->running(); }, kPatience));
  ASSERT_TRUE(training_->running());
  EXPECT_EQ(training_->Alive("server").size(), 2u);
  kill(training_->pid(), SIGINT);
  training_->Wait();
  const nlohmann::json summary = training_->Summary();
  EXPECT_EQ(summary["state"], "stopped") << summary;
  EXPECT_EQ(summary["records_repeated"], 0);
}

}  // namespace
}  // namespace rubato
