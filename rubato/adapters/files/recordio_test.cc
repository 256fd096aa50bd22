#include "rubato/adapters/files/recordio.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "absl/strings/str_cat.h"
#include "rubato/adapters/files/byte_stream.h"
#include "rubato/adapters/files/file_source.h"
#include "rubato/adapters/files/testing.h"

namespace rubato {
namespace {

using ::testing::HasSubstr;

std::string RecordOf(int64_t i) { return absl::StrCat(i % 2, ",\"town\n", i, "\""); }

class RecordioTest : public testing::Test {
 protected:
  // A file of records RecordOf(first), ...
  std::string Write(const std::string& name, int64_t first, int64_t records,
                    const RecordsHead& head = {.format = "csv", .schema = "label,town"}) {
    const std::string path = folder_.File(name);
    auto writer = RecordsWriter::Create(path, head);
    EXPECT_TRUE(writer.ok()) << writer.status();
    for (int64_t i = first; i < first + records; ++i) {
      EXPECT_TRUE(writer->Add(RecordOf(i)).ok());
    }
    const auto bytes = writer->Commit();
    EXPECT_EQ(bytes.value_or(-1), static_cast<int64_t>(std::filesystem::file_size(path)));
    return path;
  }
  // As a job would: an index, and the data opened by it. `read` gets the source.
  absl::Status Use(const std::vector<std::string>& paths, std::vector<std::string>* records) {
    const std::string index = folder_.File("index");
    const auto built =
        BuildIndex(data_, paths, index, [](int64_t, int64_t) { return absl::OkStatus(); });
    if (!built.ok()) return built.status();
    const auto opened = OpenData(data_, index);
    if (!opened.ok()) return opened.status();
    return opened->source->Read(0, opened->source->records(),
                                [&](int64_t record, absl::string_view bytes) {
                                  EXPECT_EQ(record, static_cast<int64_t>(records->size()));
                                  records->emplace_back(bytes);
                                  return absl::OkStatus();
                                });
  }
  std::string MessageOf(const std::vector<std::string>& paths) {
    std::vector<std::string> records;
    const absl::Status status = Use(paths, &records);
    EXPECT_FALSE(status.ok());
    return std::string(status.message());
  }

  TestFolder folder_;
  DataSpec data_ = {.format = "recordio"};
};

TEST_F(RecordioTest, AnyRangeOfManyFiles) {
  const std::vector<std::string> paths = {Write("a.rec", 0, 3000), Write("b.rec", 3000, 1),
                                          Write("c.rec", 3001, 1024)};
  std::vector<std::string> all;
  ASSERT_TRUE(Use(paths, &all).ok());
  ASSERT_EQ(all.size(), 4025u);
  const auto opened = OpenData(data_, folder_.File("index"));
  ASSERT_TRUE(opened.ok()) << opened.status();
  EXPECT_EQ(opened->schema, "csv: label,town");
  EXPECT_EQ(opened->source->Locate(3001), folder_.File("c.rec") + ", record 0");
  for (const int64_t begin : {4024, 0, 2047, 2999, 3000, 1024, 1025}) {
    const int64_t end = std::min<int64_t>(4025, begin + 1500);
    int64_t next = begin;
    ASSERT_TRUE(opened->source
                    ->Read(begin, end,
                           [&](int64_t record, absl::string_view bytes) {
                             EXPECT_EQ(record, next);
                             EXPECT_EQ(bytes, RecordOf(next++));
                             return absl::OkStatus();
                           })
                    .ok());
    EXPECT_EQ(next, end);
  }
}

// Wherever a bit flips, reading stops and names the file; no record comes out changed.
TEST_F(RecordioTest, FlippedBitsAreNamed) {
  const std::string path = Write("a.rec", 0, 1100);
  std::string sound;
  {
    std::ifstream in(path, std::ios::binary);
    sound.assign(std::istreambuf_iterator<char>(in), {});
  }
  for (size_t byte = 0; byte < sound.size(); byte += byte < 300 ? 7 : 97) {
    std::string bytes = sound;
    bytes[byte] = static_cast<char>(bytes[byte] ^ 4);
    const std::string copy = folder_.File(absl::StrCat("flipped", byte, ".rec"));
    std::ofstream(copy, std::ios::binary) << bytes;
    std::vector<std::string> records;
    const absl::Status status = Use({copy}, &records);
    EXPECT_TRUE(absl::IsDataLoss(status)) << byte << ": " << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr(copy));
    for (size_t i = 0; i < records.size(); ++i) {
      ASSERT_EQ(records[i], RecordOf(static_cast<int64_t>(i)));
    }
  }
  std::string bytes = sound;
  bytes[sound.size() / 2] ^= 1;
  std::ofstream(path, std::ios::binary) << bytes;
  EXPECT_THAT(MessageOf({path}), HasSubstr("a.rec: records 0 to 1023: block is damaged"));
}

TEST_F(RecordioTest, MissingEndsAreNamed) {
  const std::string path = Write("a.rec", 0, 1100);
  const auto size = std::filesystem::file_size(path);
  for (const auto left : {size - 1, size - 41, size / 2, uintmax_t{30}, uintmax_t{3}}) {
    std::filesystem::resize_file(path, left);
    EXPECT_THAT(MessageOf({path}), HasSubstr("a.rec: ")) << left;
  }
}

TEST_F(RecordioTest, OtherFilesAreRefused) {
  const std::string text = folder_.File("a.csv");
  std::ofstream(text) << "label,town\n1,Oslo\n";
  EXPECT_THAT(MessageOf({text}), HasSubstr("a.csv: is no file of recordio"));
  EXPECT_THAT(MessageOf({Write("none.rec", 0, 0)}), HasSubstr("holds no records"));
  EXPECT_THAT(MessageOf({Write("a.rec", 0, 1), Write("b.rec", 0, 1, {"csv", "label,city"})}),
              HasSubstr("'csv: label,city', are not those of"));
  data_.label = "lable";
  EXPECT_THAT(MessageOf({Write("c.rec", 0, 1)}), HasSubstr("did you mean 'label'?"));
}

// A writer that is given up leaves nothing behind.
TEST_F(RecordioTest, NoHalfFile) {
  {
    auto writer = RecordsWriter::Create(folder_.File("half.rec"), {"csv", "a,b"});
    ASSERT_TRUE(writer.ok());
    for (int64_t i = 0; i < 5000; ++i) ASSERT_TRUE(writer->Add(RecordOf(i)).ok());
  }
  EXPECT_TRUE(std::filesystem::is_empty(folder_.path()));
}

}  // namespace
}  // namespace rubato
