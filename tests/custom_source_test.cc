// A source of a user's own, from a library built against an installed Rubato: examples/source.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include "absl/strings/str_cat.h"
#include "rubato/base/bytes.h"
#include "rubato/base/rng.h"
#include "tests/job_runner.h"

namespace rubato {
namespace {

using ::testing::HasSubstr;

// Clicks on cheap things in the evening, but for some.
std::string ClickLog(int records, uint64_t seed) {
  Rng rng(seed);
  std::string bytes;
  ByteWriter out(bytes);
  for (int i = 0; i < records; ++i) {
    const auto price = static_cast<float>(rng.Below(100));
    const auto hour = static_cast<uint8_t>(rng.Below(24));
    out.Put<uint32_t>(static_cast<uint32_t>(rng.Below(50)));
    out.Put<uint32_t>(static_cast<uint32_t>(rng.Below(10)));
    out.Put<float>(price);
    out.Put<uint8_t>(hour);
    out.Put<uint8_t>((price < 30 && hour > 11) != rng.Chance(0.1));
    out.Put<uint16_t>(0);
  }
  return bytes;
}

class CustomSourceTest : public testing::Test {
 protected:
  void SetUp() override {
    folder_.Write("a.bin", ClickLog(3000, 1));
    folder_.Write("b.bin", ClickLog(5000, 2));
    folder_.Write("test.bin", ClickLog(1000, 3));
  }
  std::string Job(const std::string& format) {
    return folder_.Write("job.yaml",
                         absl::StrCat("model: logistic\ndata: {train: [a.bin, b.bin], "
                                      "validation: test.bin, label: click, format: ",
                                      format,
                                      "}\nfeatures: features.yaml\nbatch_size: 128\n"
                                      "epochs: 4\nworkers: {min: 1, max: 2}\n"
                                      "optimizer: {name: adam, learning_rate: 0.01}\n"));
  }
  std::string TrainingError(const std::string& format) {
    const CommandResult result =
        RunRubato({"train", Job(format), "--job-dir", "bad"}, folder_.path());
    EXPECT_EQ(result.exit_code, 2);
    return result.err;
  }

  ScratchFolder folder_;
};

// Statistics, features, training, evaluation and prediction know no difference.
TEST_F(CustomSourceTest, TheExampleIsASourceLikeAnyOther) {
  const std::string job = Job(RUBATO_SOURCE_PLUGIN);
  const CommandResult analyzed =
      RunRubato({"analyze", job, "--features", "features.yaml", "--json"}, folder_.path());
  ASSERT_EQ(analyzed.exit_code, 0) << analyzed.err;
  EXPECT_EQ(nlohmann::json::parse(analyzed.out)["rows"], 8000);
  TrainingJob training(folder_.path(), {job});
  const CommandResult result = training.Wait();
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_EQ(training.Summary()["records_committed"], 32000);
  EXPECT_EQ(training.Summary()["records_repeated"], 0);
  EXPECT_GT(training.Summary()["metrics"]["auc"].get<double>(), 0.75);
  const CommandResult predicted = RunRubato(
      {"predict", "job", "--data", "test.bin", "--out", "s.tsv", "--id", "user"}, folder_.path());
  ASSERT_EQ(predicted.exit_code, 0) << predicted.err;
  const std::string scores = ReadText(folder_.path() + "/s.tsv");
  EXPECT_EQ(std::count(scores.begin(), scores.end(), '\n'), 1000);
  EXPECT_EQ(scores[0], 'u');
}

TEST_F(CustomSourceTest, MistakesAreNamed) {
  folder_.Write("features.yaml", "label: click\nfeatures:\n  - {column: page, transform: hash}\n");
  EXPECT_THAT(TrainingError("./libnone.so"), HasSubstr("libnone.so: No such file"));
  folder_.Write("libtext.so", "no library at all");
  EXPECT_THAT(TrainingError("./libtext.so"), HasSubstr("does it say RUBATO_SOURCE"));
  std::string other = ReadText(RUBATO_SOURCE_PLUGIN);
  const size_t stamp = other.find("rubato-source-stamp:rubato ");
  ASSERT_NE(stamp, std::string::npos);
  other[stamp + 27] = '9';
  folder_.Write("libother.so", other);
  EXPECT_THAT(TrainingError("./libother.so"), HasSubstr("was built for rubato 9"));
  folder_.Write("b.bin", "seven b");
  EXPECT_THAT(TrainingError(RUBATO_SOURCE_PLUGIN), HasSubstr("b.bin: is no log of clicks"));
  std::filesystem::remove(folder_.path() + "/b.bin");
  EXPECT_THAT(TrainingError(RUBATO_SOURCE_PLUGIN), HasSubstr("b.bin: cannot be opened"));
}

}  // namespace
}  // namespace rubato
