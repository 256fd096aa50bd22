// What --json prints for names that nobody should choose, byte by byte: another program reads it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "rubato/base/json_text.h"
#include "rubato/cli/commands.h"
#include "rubato/cli/params_report.h"

namespace rubato {
namespace {

using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::StartsWith;

// A quote, a backslash, a line's end, a control character, half a letter and one of two bytes.
constexpr char kHostile[] = "a\"b\\c\nd\x01\xe2\x82z\xc3\xa9";
constexpr char kHostileJson[] = "a\\\"b\\\\c\\nd\\u0001\xef\xbf\xbdz\xc3\xa9";

class JsonBytesTest : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = std::filesystem::path(testing::TempDir()) /
              testing::UnitTest::GetInstance()->current_test_info()->name();
    std::filesystem::remove_all(folder_);
    std::filesystem::create_directories(folder_);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  // Runs `rubato WORDS`, and says what came out: one line, and no byte that JSON refuses.
  std::string Rubato(const std::vector<std::string>& words) {
    std::ostringstream out, err;
    Cli cli({.out = out, .err = err});
    AddTrain(cli);
    AddParams(cli);
    AddAnalyze(cli);
    std::vector<const char*> argv = {"rubato"};
    for (const std::string& word : words) argv.push_back(word.c_str());
    EXPECT_EQ(cli.Main(static_cast<int>(argv.size()), argv.data()), 2);
    const std::string text = out.str();
    EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 1) << text;
    for (const char c : text) EXPECT_TRUE(c == '\n' || static_cast<unsigned char>(c) >= 0x20);
    EXPECT_TRUE(nlohmann::json::accept(text)) << text;
    return text;
  }
  std::string Write(const std::string& name, const std::string& text) const {
    const std::string path = (folder_ / name).string();
    std::ofstream(path, std::ios::binary) << text;
    return path;
  }

  std::filesystem::path folder_;
};

TEST_F(JsonBytesTest, FilesThatAreNotThere) {
  const std::string said = Rubato({"train", "--json", folder_.string() + "/" + kHostile});
  EXPECT_THAT(said, AllOf(StartsWith("{\"error\":\""), HasSubstr(kHostileJson),
                          EndsWith(",\"exit_code\":2}\n")));
  EXPECT_THAT(Rubato({"params", "--json", folder_.string() + "/" + kHostile}),
              HasSubstr(kHostileJson));
}

TEST_F(JsonBytesTest, JobsAndTheirKeys) {
  const std::string job =
      Write(std::string(kHostile) + ".yaml", "model: \"a\\\"b\\\\c\\nd\\x01\"\nn\xe9m: 1\n");
  EXPECT_THAT(Rubato({"train", "--json", job}), HasSubstr(kHostileJson)) << "the file's name";
  const std::string named = Write("job.yaml", "name: \"x\\\"y\\\\z\\n\\x01\"\nmodel: deepfm\n");
  EXPECT_THAT(Rubato({"train", "--json", named}), HasSubstr("\"error\":\""));
}

TEST_F(JsonBytesTest, ColumnsOfTheData) {
  const std::string data = Write("data.csv", "\"col\"\"umn\",n\xe9w,label\n1,2,0\n2,3,1\n");
  const std::string features =
      Write("features.yaml", "label: \"no\\\"such\\\\column\"\nfeatures:\n  - {column: x}\n");
  const std::string job =
      Write("job.yaml", "model: deepfm\nfeatures: features.yaml\ndata: {train: " + data +
                            ", format: csv, header: true}\n");
  EXPECT_THAT(Rubato({"train", "--json", job}), HasSubstr("\"error\":\""));
}

TEST_F(JsonBytesTest, JobAndTablesOfServers) {
  ServerInspection server;
  server.tables = {{.name = kHostile, .dim = 8, .optimizer = "adagrad"}};
  const std::string said =
      JsonText(ParamsJson({.job = kHostile, .servers = {server}, .before = {}}, 5));
  EXPECT_THAT(said, StartsWith(std::string("{\"job\":\"") + kHostileJson + "\""));
  EXPECT_THAT(said, HasSubstr(std::string("\"name\":\"") + kHostileJson + "\""));
  EXPECT_TRUE(nlohmann::json::accept(said));
}

}  // namespace
}  // namespace rubato
