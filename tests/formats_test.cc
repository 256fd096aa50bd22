// What an earlier build wrote is read as it was meant: an export, a checkpoint, recordio and a
// features file of testdata/ give the scores that were written down beside them. What says that it
// is of another version is refused, and told so.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>

#include "absl/strings/numbers.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "rubato/base/bytes.h"
#include "tests/job_runner.h"

namespace rubato {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;
using ::testing::SizeIs;

const std::string kFormats = RUBATO_TESTDATA "/formats";

// By row, in the order of the file.
std::vector<double> ScoresAt(const std::string& path) {
  std::vector<double> scores;
  for (const absl::string_view line : absl::StrSplit(ReadText(path), '\n', absl::SkipEmpty())) {
    const std::vector<absl::string_view> cells = absl::StrSplit(line, '\t');
    double score = 0;
    if (cells.size() == 2 && absl::SimpleAtod(cells[1], &score)) scores.push_back(score);
  }
  return scores;
}

// A copy of testdata, to score from and to spoil.
class FormatsTest : public testing::Test {
 protected:
  FormatsTest() { fs::copy(kFormats, folder_.path(), fs::copy_options::recursive); }

  std::string At(const std::string& name) const { return folder_.path() + "/" + name; }

  CommandResult Predict(const std::string& model, const std::string& data,
                        const std::vector<std::string>& more = {}) {
    std::vector<std::string> words = {"predict", model, "--data", data, "--out", "found.tsv"};
    words.insert(words.end(), more.begin(), more.end());
    fs::remove(At("found.tsv"));
    return RunRubato(words, folder_.path());
  }

  void ExpectTheSameScores(const std::string& model, const std::string& data,
                           const std::vector<std::string>& more = {}, double allowed = 1e-6) {
    const CommandResult result = Predict(model, data, more);
    ASSERT_EQ(result.exit_code, 0) << result.err;
    const std::vector<double> found = ScoresAt(At("found.tsv")),
                              expected = ScoresAt(At("scores.tsv"));
    ASSERT_THAT(expected, SizeIs(60));
    ASSERT_EQ(found.size(), expected.size());
    for (size_t i = 0; i < found.size(); ++i) EXPECT_NEAR(found[i], expected[i], allowed) << i;
  }

  // Where a number of 32 bits stands in a file, put another.
  void Patch(const std::string& name, size_t at, uint32_t number) {
    std::string bytes = ReadText(At(name));
    ASSERT_GE(bytes.size(), at + sizeof(number)) << name;
    std::memcpy(bytes.data() + at, &number, sizeof(number));
    folder_.Write(name, bytes);
  }

  ScratchFolder folder_;
};

TEST_F(FormatsTest, AnExportScoresAsItDid) {
  ExpectTheSameScores("export", "clicks.csv");
  ExpectTheSameScores("export", "clicks.csv", {"--torchscript"});
}

TEST_F(FormatsTest, ACheckpointScoresAsItDid) { ExpectTheSameScores("job", "clicks.csv"); }

TEST_F(FormatsTest, ACheckpointIsExportedAsItWas) {
  const CommandResult result = RunRubato({"export", "job", "--out", "again"}, folder_.path());
  ASSERT_EQ(result.exit_code, 0) << result.err;
  ExpectTheSameScores("again", "clicks.csv");
  EXPECT_EQ(ReadText(At("again/features.yaml")), ReadText(At("export/features.yaml")));
  EXPECT_EQ(ReadText(At("again/weights.bin")), ReadText(At("export/weights.bin")));
}

TEST_F(FormatsTest, RecordioIsTheTableItWasMadeOf) {
  ExpectTheSameScores("export", "clicks.rec");
  const CommandResult result =
      RunRubato({"convert", "--data", "clicks.rec", "--out", "again.csv"}, folder_.path());
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_EQ(ReadText(At("again.csv")), ReadText(At("clicks.csv")));
}

// Which rows of a model are trained is decided by the ids that a features file makes: a job of this
// build from the same files gives the same model, but for what machines round otherwise.
TEST_F(FormatsTest, AFeaturesFileMakesTheSameBatches) {
  folder_.Write("job.yaml", absl::StrReplaceAll(ReadText(At("job/job.yaml")),
                                                {{"/tmp/rubato-testdata/job/", ""},
                                                 {"/tmp/rubato-testdata/", ""}}));
  const CommandResult result = RunRubato(
      {"train", "job.yaml", "--job-dir", "new", "--set", "shuffle.spread=false"}, folder_.path());
  ASSERT_EQ(result.exit_code, 0) << result.err;
  ExpectTheSameScores("new", "clicks.csv", {}, 1e-4);
}

TEST_F(FormatsTest, AnotherVersionOfAnExportIsRefused) {
  const std::string manifest = ReadText(At("export/manifest.json"));
  const std::string other = absl::StrReplaceAll(manifest, {{"\"format\": 2", "\"format\": 999"}});
  ASSERT_NE(other, manifest);
  folder_.Write("export/manifest.json", other);
  const CommandResult result = Predict("export", "clicks.csv");
  EXPECT_NE(result.exit_code, 0);
  EXPECT_THAT(result.err, HasSubstr("manifest.json: an export of format 999"));
  EXPECT_THAT(result.err, HasSubstr("export the job again"));
  EXPECT_FALSE(fs::exists(At("found.tsv")));
}

TEST_F(FormatsTest, AnotherVersionOfRecordioIsRefused) {
  Patch("clicks.rec", std::strlen("rubato records\n"), 999);
  const CommandResult result = Predict("export", "clicks.rec");
  EXPECT_NE(result.exit_code, 0);
  EXPECT_THAT(result.err, HasSubstr("clicks.rec"));
  EXPECT_THAT(result.err, HasSubstr("is a file of recordio of version 999; this program reads"));
}

TEST_F(FormatsTest, AnotherVersionOfAnIndexIsRefused) {
  Patch("job/index/train", std::strlen("rubato index\n"), 999);
  const CommandResult result = Predict("job", "clicks.csv");
  EXPECT_NE(result.exit_code, 0);
  EXPECT_THAT(result.err, HasSubstr("an index of version 999; this program reads version 1"));
}

TEST_F(FormatsTest, AnotherVersionOfACheckpointIsRefused) {
  std::string shard;
  for (const auto& entry : fs::recursive_directory_iterator(At("job/checkpoints"))) {
    const std::string name = fs::relative(entry.path(), folder_.path()).string();
    if (ReadText(At(name)).substr(0, 6) == "RUBATO") shard = name;
  }
  ASSERT_FALSE(shard.empty());
  Patch(shard, 8, 999);  // Behind the magic; the header ends with its checksum.
  std::string bytes = ReadText(At(shard));
  const uint64_t checksum = Checksum(absl::string_view(bytes).substr(0, 24));
  std::memcpy(bytes.data() + 24, &checksum, sizeof(checksum));
  folder_.Write(shard, bytes);
  const CommandResult result = Predict("job", "clicks.csv");
  EXPECT_NE(result.exit_code, 0);
  EXPECT_THAT(result.err, HasSubstr("written in format 999, this Rubato reads formats"));
}

// A features file has no version: what is not known there is an error, and never left out.
TEST_F(FormatsTest, AKeyOfALaterFeaturesFileIsRefused) {
  std::string features = ReadText(At("job/features.yaml"));
  features += "  - {name: more, column: town, transform: hash, windows: 3}\n";
  for (const auto& entry : fs::recursive_directory_iterator(At("job"))) {
    if (entry.path().filename() == "features.yaml") {
      folder_.Write(fs::relative(entry.path(), folder_.path()).string(), features);
    }
  }
  const CommandResult result = Predict("job", "clicks.csv");
  EXPECT_NE(result.exit_code, 0);
  EXPECT_THAT(result.err, HasSubstr("windows"));
}

}  // namespace
}  // namespace rubato
