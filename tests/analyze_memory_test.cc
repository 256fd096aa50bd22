// `rubato analyze` over millions of different values: what it keeps does not grow with them. A
// program of its own, since what is measured is the largest process that it ever started.
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <fstream>

#include "rubato/base/rng.h"
#include "tests/job_runner.h"

namespace rubato {
namespace {

// Rows in which nothing repeats but the label: a number, and a text too long to lie within a
// string.
void WriteRows(const std::string& path, int64_t rows) {
  std::ofstream out(path, std::ios::binary);
  out << "label,number,name\n";
  for (int64_t i = 0; i < rows; ++i) {
    const uint64_t id = Mix(static_cast<uint64_t>(i));
    out << i % 2 << ',' << id % 1'000'000'007 << ",visitor-" << id << '\n';
  }
}

TEST(AnalyzeMemoryTest, DoesNotGrowWithTheNumberOfValues) {
  constexpr int64_t kRows = 1'500'000;
  constexpr int64_t kBytesMax = 200 << 20;
  ScratchFolder folder;
  WriteRows(folder.path() + "/rows.csv", kRows);
  folder.Write("job.yaml", "model: logistic\ndata: {train: rows.csv, format: csv}\n");
  const CommandResult result = RunRubato({"analyze", "job.yaml", "--json"}, folder.path());
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const auto json = nlohmann::json::parse(result.out);
  EXPECT_EQ(json["rows"], kRows);
  EXPECT_NEAR(json["columns"][2]["distinct"].get<double>(), kRows, 0.06 * kRows);
  rusage used = {};
  ASSERT_EQ(getrusage(RUSAGE_CHILDREN, &used), 0);
  // It takes 113 MB. A set of the names would have 160, one of the numbers 110, and their merging
  // the same again.
  EXPECT_LT(int64_t{used.ru_maxrss} * 1024, kBytesMax);
}

}  // namespace
}  // namespace rubato
