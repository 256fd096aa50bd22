#include "rubato/adapters/files/file_source.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "rubato/adapters/files/files.h"
#include "rubato/adapters/files/gzip_writer.h"
#include "rubato/adapters/files/idx_source.h"
#include "rubato/adapters/files/testing.h"
#include "rubato/base/rng.h"
#include "rubato/data/idx.h"

namespace rubato {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

absl::Status NoProgress(int64_t, int64_t) { return absl::OkStatus(); }

// A data set in a folder of its own.
class FileSourceTest : public testing::Test {
 protected:
  std::string Put(const std::string& name, absl::string_view bytes) {
    const std::string path = folder_.File(name);
    RUBATO_CHECK_OK(WriteFileAtomically(path, bytes, Durability::kProcess));
    return path;
  }
  absl::StatusOr<int64_t> Build() {
    return BuildIndex(data_, data_.train, index_, NoProgress, options_);
  }
  std::unique_ptr<RecordSource> Open() {
    const absl::StatusOr<int64_t> built = Build();
    EXPECT_TRUE(built.ok()) << built.status();
    absl::StatusOr<std::unique_ptr<RecordSource>> source = OpenSource(data_, index_, options_);
    EXPECT_TRUE(source.ok()) << source.status();
    return source.ok() ? *std::move(source) : nullptr;
  }
  static std::vector<std::string> Read(RecordSource& source, int64_t begin, int64_t end) {
    std::vector<std::string> records;
    RUBATO_CHECK_OK(source.Read(begin, end, [&](int64_t record, absl::string_view bytes) {
      EXPECT_EQ(record, begin + static_cast<int64_t>(records.size()));
      records.emplace_back(bytes);
      return absl::OkStatus();
    }));
    return records;
  }

  const TestFolder folder_;
  const std::string index_ = folder_.File("train.index");
  DataSpec data_;
  FileSourceOptions options_;
};

TEST_F(FileSourceTest, LinesEndAsTheyMayAndBlankOnesAreNoRecords) {
  data_.train = {Put("a", "\xef\xbb\xbfone\r\ntwo\n\nthree\n\r\n\n"), Put("b", "four")};
  const auto source = Open();
  EXPECT_THAT(Read(*source, 0, source->records()), ElementsAre("one", "two", "three", "four"));
  EXPECT_EQ(source->Locate(1), data_.train[0] + ":2");
  EXPECT_EQ(source->Locate(2), data_.train[0] + ":4");
  EXPECT_EQ(source->Locate(3), data_.train[1] + ":1");
}

TEST_F(FileSourceTest, CsvHeadersAreNoRecordsAndQuotedBreaksAreKept) {
  data_.format = "csv";
  data_.train = {Put("a.csv", "y,text\n1,\"a\nb\"\n0,c\n"), Put("b.csv", "y,text\r\n1,d")};
  const auto source = Open();
  EXPECT_THAT(Read(*source, 0, 3), ElementsAre("1,\"a\nb\"", "0,c", "1,d"));
  EXPECT_EQ(source->Locate(1), data_.train[0] + ":4");
}

TEST_F(FileSourceTest, TsvHasQuotedBreaksToo) {
  data_.format = "tsv";
  data_.train = {Put("a.tsv", "y\ttext\n1\t\"a\nb\"\n0\tc,\"d\n")};
  const auto source = Open();
  EXPECT_THAT(Read(*source, 0, 2), ElementsAre("1\t\"a\nb\"", "0\tc,\"d"));
}

// The first record of libffm need not have all fields, nor need the first file.
TEST_F(FileSourceTest, FieldsAreThoseOfAllRecords) {
  data_.format = "libffm";
  data_.train = {Put("a", "1 0:5:1\n0 2:7:1 0:3:1\n"), Put("b", "1 1:4:1\n")};
  ASSERT_TRUE(Build().ok());
  EXPECT_EQ(OpenData(data_, index_)->schema, "label,0,2,1");
}

// Who checks the columns hears of them, and no parser is made.
TEST_F(FileSourceTest, SomebodyElseMayCheckTheColumns) {
  data_.format = "csv";
  data_.label = "y";
  data_.train = {Put("a.csv", "a,b\n1,2\n")};
  EXPECT_THAT(std::string(Build().status().message()), HasSubstr("no column 'y'"));
  options_.check = [](const std::string& schema) {
    return schema == "a,b" ? absl::OkStatus() : absl::InvalidArgumentError(schema);
  };
  ASSERT_TRUE(Build().ok()) << Build().status();
  EXPECT_EQ(OpenData(data_, index_, options_)->parser, nullptr);
}

TEST_F(FileSourceTest, OtherEncodingsAreNamed) {
  data_.format = "csv";
  data_.train = {Put("a.csv", "y,a\r1,2\r")};
  EXPECT_THAT(std::string(Build().status().message()),
              HasSubstr("a.csv: its lines end in CR alone"));
}

// A byte order mark stands before the quote that opens the first field; records are cut behind it.
TEST_F(FileSourceTest, AQuoteMayFollowTheByteOrderMark) {
  data_.format = "csv";
  data_.train = {Put("a.csv", "\xef\xbb\xbf\"na\nme\",y\nx,1\n"),
                 Put("b.csv", "\"na\nme\",y\nz,0\n")};
  const auto source = Open();
  EXPECT_THAT(Read(*source, 0, source->records()), ElementsAre("x,1", "z,0"));
  EXPECT_EQ(source->Locate(0), data_.train[0] + ":3");
  data_.header = false;
  data_.train = {Put("c.csv", "\xef\xbb\xbf\"a\nb\",1\nx,1\n")};
  const auto bare = Open();
  EXPECT_THAT(Read(*bare, 0, bare->records()), ElementsAre("\"a\nb\",1", "x,1"));
}

TEST_F(FileSourceTest, AGlobIsSorted) {
  Put("part-2", "c\n");
  Put("part-1", "b\n");
  data_.train = {Put("first", "a\n"), folder_.File("part-*")};
  const auto source = Open();
  EXPECT_THAT(Read(*source, 0, 3), ElementsAre("a", "b", "c"));
}

TEST_F(FileSourceTest, TheParserComesWithTheSource) {
  data_.format = "csv";
  data_.train = {Put("a.csv", "y,age,city\n1,30,Ulm\n")};
  data_.numeric = {"age"};
  ASSERT_TRUE(Build().ok());
  const absl::StatusOr<OpenedData> opened = OpenData(data_, index_);
  ASSERT_TRUE(opened.ok()) << opened.status();
  EXPECT_THAT(opened->parser->shape().dense, ElementsAre("age"));
}

// One file of a random data set: its records, and its bytes in pieces, cut anywhere.
struct RandomFile {
  std::vector<std::string> records;
  std::vector<std::string> pieces;
};

std::string RandomRecord(Rng& rng, bool is_csv) {
  std::string record = absl::StrCat(rng.Next());
  record.append(rng.Chance(0.02) ? rng.Below(3000) : rng.Below(30), 'x');
  if (is_csv && rng.Chance(0.1)) absl::StrAppend(&record, ",\"a\n\n\"\"b\r\n,\"");
  return record;
}

RandomFile MakeRandomFile(Rng& rng, bool is_csv) {
  RandomFile file = {.pieces = {is_csv ? "y,a,b\n" : ""}};
  const std::string line_break = rng.Chance(0.5) ? "\r\n" : "\n";
  for (uint64_t n = 1 + rng.Below(4000); n > 0; --n) {
    file.records.push_back(RandomRecord(rng, is_csv));
    file.pieces.back() += file.records.back();
    if (rng.Chance(0.002)) file.pieces.emplace_back();
    if (n > 1 || rng.Chance(0.5)) file.pieces.back() += line_break;
    if (n > 1 && rng.Chance(0.01)) file.pieces.back() += line_break;
  }
  return file;
}

struct RandomCase {
  const char* format;
  bool gzip;
};
class RandomFilesTest : public FileSourceTest, public testing::WithParamInterface<RandomCase> {};

// Whatever the files, chunks, line ends and gzip members: any range reads as the plain list does.
TEST_P(RandomFilesTest, AnyRangeReadsAsThePlainList) {
  Rng rng(17);
  data_.format = GetParam().format;
  for (int round = 0; round < 10; ++round) {
    data_.train.clear();
    std::vector<std::string> plain;
    for (uint64_t files = 1 + rng.Below(3); files > 0; --files) {
      RandomFile file = MakeRandomFile(rng, data_.format == "csv");
      plain.insert(plain.end(), file.records.begin(), file.records.end());
      if (GetParam().gzip) {
        for (std::string& piece : file.pieces) piece = GzipBytes(piece);
      }
      data_.train.push_back(Put(absl::StrCat(round, "-", files), absl::StrJoin(file.pieces, "")));
    }
    options_ = {.chunk_bytes = 1 + rng.Below(5000),
                .gzip_spacing = static_cast<int64_t>(rng.Below(100000))};
    const auto source = Open();
    ASSERT_EQ(source->records(), static_cast<int64_t>(plain.size()));
    for (int read = 0; read < 30; ++read) {
      const uint64_t begin = rng.Below(plain.size() + 1);
      const uint64_t end = begin + rng.Below(std::min<uint64_t>(600, plain.size() - begin) + 1);
      ASSERT_EQ(Read(*source, static_cast<int64_t>(begin), static_cast<int64_t>(end)),
                std::vector<std::string>(plain.begin() + static_cast<ptrdiff_t>(begin),
                                         plain.begin() + static_cast<ptrdiff_t>(end)));
    }
  }
}
INSTANTIATE_TEST_SUITE_P(Formats, RandomFilesTest,
                         testing::Values(RandomCase{"criteo", false}, RandomCase{"criteo", true},
                                         RandomCase{"csv", false}, RandomCase{"csv", true}));

// A gzip file of one member, large enough for points within it and for their thinning.
TEST_F(FileSourceTest, AGzipFileIsEnteredInTheMiddle) {
  Rng rng(23);
  std::string bytes;
  for (int i = 0; i < 400000; ++i) absl::StrAppend(&bytes, i, " ", rng.Next() % 1000000, "\n");
  data_.train = {Put("a.gz", GzipBytes(bytes))};
  options_.gzip_spacing = 1000;
  const auto source = Open();
  ASSERT_EQ(source->records(), 400000);
  for (int read = 0; read < 50; ++read) {
    const int64_t record = static_cast<int64_t>(rng.Below(400000));
    EXPECT_THAT(Read(*source, record, record + 1)[0],
                testing::StartsWith(absl::StrCat(record, " ")));
  }
}

TEST_F(FileSourceTest, AVisitorsErrorStopsTheReading) {
  data_.train = {Put("a", "1\n2\n3\n")};
  const auto source = Open();
  const absl::Status status = source->Read(0, 3, [](int64_t record, absl::string_view) {
    return record == 1 ? absl::CancelledError("enough") : absl::OkStatus();
  });
  EXPECT_EQ(status, absl::CancelledError("enough"));
  EXPECT_THAT(Read(*source, 1, 3), ElementsAre("2", "3"));
}

// The second time, nothing is read; a file that was touched is counted again.
TEST_F(FileSourceTest, AnIndexIsBuiltOnce) {
  data_.train = {Put("a", "1\n2\n")};
  bool passed = false;
  const auto build = [&] {
    passed = false;
    return *BuildIndex(data_, data_.train, index_, [&](int64_t, int64_t) {
      passed = true;
      return absl::OkStatus();
    });
  };
  EXPECT_TRUE(build() == 2 && passed);
  EXPECT_TRUE(build() == 2 && !passed);
  Put("a", "1\n2\n3\n");
  EXPECT_TRUE(build() == 3 && passed);
  RUBATO_CHECK_OK(WriteFileAtomically(index_, "rubbish"));
  EXPECT_EQ(OpenSource(data_, index_).status().code(), absl::StatusCode::kDataLoss);
  EXPECT_TRUE(build() == 3 && passed);
}

TEST_F(FileSourceTest, ProgressCanStopThePass) {
  data_.train = {Put("a", "1\n2\n")};
  const auto stop = [](int64_t, int64_t) { return absl::CancelledError("Ctrl-C"); };
  EXPECT_EQ(BuildIndex(data_, data_.train, index_, stop).status(), absl::CancelledError("Ctrl-C"));
  EXPECT_FALSE(PathExists(index_));
}

// Changed, cut or gone: noticed before a wrong record is handed out.
TEST_F(FileSourceTest, AChangedFileIsDataLoss) {
  const std::string path = Put("a", "1\n2\n3\n");
  data_.train = {path};
  const auto source = Open();
  EXPECT_THAT(Read(*source, 0, 1), ElementsAre("1"));
  const auto ignore = [](int64_t, absl::string_view) { return absl::OkStatus(); };

  ASSERT_EQ(truncate(path.c_str(), 2), 0);
  const absl::Status cut = source->Read(1, 2, ignore);
  EXPECT_EQ(cut.code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(cut.message(), HasSubstr(path));
  EXPECT_EQ(OpenSource(data_, index_).status().code(), absl::StatusCode::kDataLoss);

  ASSERT_TRUE(RemoveTree(path).ok());
  EXPECT_EQ(OpenSource(data_, index_).status(),
            absl::DataLossError(path + ": the file was removed since its records were counted; "
                                       "begin the job anew"));
}

TEST_F(FileSourceTest, BadInputIsNamed) {
  const std::string here = folder_.path();
  ASSERT_TRUE(MakeDirectories(here + "/folder").ok());
  ASSERT_EQ(mkfifo((here + "/fifo").c_str(), 0600), 0);
  const std::string zip = GzipBytes("1,2\n3,4\n");
  Put("a.csv", "y,x\n1,2\n");
  Put("empty", "");
  Put("blank", "\n\n");
  Put("header", "y,x\n");
  Put("other", "y,z\n1,2\n");
  Put("open", "y,x\n1,2\n3,\"4\n5,6\n");
  Put("cut", zip.substr(0, zip.size() - 5));
  Put("bad", absl::StrCat(zip, "rubbish"));
  Put("sum", absl::StrCat(zip.substr(0, zip.size() - 8), "abcd", zip.substr(zip.size() - 4)));
  Put("false.gz", "y,x\n");
  const std::pair<std::vector<std::string>, std::string> cases[] = {
      {{"missing"}, "NOT_FOUND: HERE/missing: cannot open: No such file or directory"},
      {{"none-*"}, "NOT_FOUND: HERE/none-*: no file matches"},
      {{"folder"},
       "INVALID_ARGUMENT: HERE/folder: is a folder; name its files, as in HERE/folder/*"},
      {{"fifo"},
       "INVALID_ARGUMENT: HERE/fifo: is not a plain file; records are read by their place in it"},
      {{"a.csv", "a.*"},
       "INVALID_ARGUMENT: HERE/a.csv: is named twice; its records would count twice"},
      {{"a.csv", "empty"}, "INVALID_ARGUMENT: HERE/empty: is empty"},
      {{"blank"}, "INVALID_ARGUMENT: HERE/blank: holds no records"},
      {{"header"}, "INVALID_ARGUMENT: HERE/header: holds no records"},
      {{"a.csv", "other"},
       "INVALID_ARGUMENT: HERE/other: its columns, 'y,z', are not those of HERE/a.csv, 'y,x'"},
      {{"open"},
       "INVALID_ARGUMENT: HERE/open:3: a quote that opens in this record is never closed"},
      {{"cut"},
       "DATA_LOSS: HERE/cut: damaged gzip near byte 23: it ends too early; the file is truncated"},
      {{"bad"}, "DATA_LOSS: HERE/bad: damaged gzip near byte 30: incorrect header check"},
      {{"sum"}, "DATA_LOSS: HERE/sum: damaged gzip near byte 24: incorrect data check"},
      {{"false.gz"}, "DATA_LOSS: HERE/false.gz: is called .gz but is not gzip"},
  };
  data_.format = "csv";
  for (const auto& [names, message] : cases) {
    data_.train.clear();
    for (const std::string& name : names) data_.train.push_back(here + "/" + name);
    EXPECT_EQ(Build().status().ToString(), absl::StrReplaceAll(message, {{"HERE", here}}));
    EXPECT_FALSE(PathExists(index_));
  }
  data_.train = {here + "/a.csv"};
  data_.label = "why";
  EXPECT_EQ(Build().status(),
            absl::InvalidArgumentError("data.label: the data has no column 'why'"));
}

TEST_F(FileSourceTest, AnIndexForAnotherFormatIsRefused) {
  data_.train = {Put("a", "1\t2\n")};
  ASSERT_TRUE(Build().ok());
  data_.format = "csv";
  EXPECT_EQ(OpenSource(data_, index_).status(),
            absl::DataLossError(index_ + ": an index for criteo, not for csv with header"));
  EXPECT_EQ(OpenSource(data_, index_ + "x").status().code(), absl::StatusCode::kNotFound);
}

// Images of 2 x 2 pixels with their labels, plain and gzip.
TEST_F(FileSourceTest, IdxImagesComeWithTheirLabels) {
  std::string images("\0\0\x08\x03\0\0\0\x03\0\0\0\x02\0\0\0\x02", 16);
  std::string labels("\0\0\x08\x01\0\0\0\x03", 8);
  images += "aaaabbbbcccc";
  labels += "\x07\x08\x09";
  data_.format = "idx";
  data_.train = {Put("images", images), Put("labels.gz", GzipBytes(labels))};
  const auto source = Open();
  ASSERT_EQ(source->records(), 3);
  ASSERT_EQ(*Build(), 3);
  EXPECT_THAT(Read(*source, 0, 3), ElementsAre("aaaa\x07", "bbbb\x08", "cccc\x09"));
  EXPECT_THAT(Read(*source, 1, 2), ElementsAre("bbbb\x08"));
  EXPECT_EQ(source->Locate(2), data_.train[0] + ", image 2");

  // In the other order they are the same records.
  std::swap(data_.train[0], data_.train[1]);
  const auto swapped = Open();
  EXPECT_THAT(Read(*swapped, 0, 2), ElementsAre("aaaa\x07", "bbbb\x08"));
  EXPECT_EQ(swapped->Locate(2), data_.train[1] + ", image 2");
}

// Whatever is wrong with an idx file, its name and the reason are told.
TEST_F(FileSourceTest, WhatIsWrongWithAnIdxFileIsNamed) {
  const std::string images = FormatIdxHeader({3, 2, 2}) + "aaaabbbbcccc";
  const std::string labels = FormatIdxHeader({3}) + "\x07\x08\x09";
  data_.format = "idx";
  data_.train = {Put("images", images), Put("labels", labels)};
  const std::string image_path = data_.train[0], label_path = data_.train[1];
  Put("images", images.substr(0, 23));
  EXPECT_EQ(Build().status(), absl::DataLossError(image_path + ": is cut short: its header " +
                                                  "promises 3 items, and it ends in item 1"));
  Put("images", images + "dd");
  EXPECT_EQ(Build().status(),
            absl::InvalidArgumentError(image_path + ": its header promises 3 items of 4 bytes, " +
                                       "and 2 bytes follow them"));
  Put("images", "no idx at all");
  EXPECT_EQ(Build().status(),
            absl::InvalidArgumentError(
                image_path + ": not an idx file of unsigned bytes: it starts with 6e6f2069, " +
                "not with 00000803 as images or 00000801 as labels do"));
  Put("images", FormatIdxHeader({2, 2, 2}) + "aaaabbbb");
  EXPECT_EQ(Build().status(), absl::InvalidArgumentError(image_path + " holds 2 images, but " +
                                                         label_path + " holds 3 labels"));
  Put("images", labels);
  EXPECT_THAT(Build().status().message(), HasSubstr("both hold labels"));
}

// A folder as MNIST is handed around, or only its images, is enough.
TEST_F(FileSourceTest, AFolderOfIdxFilesIsFoundByItsNames) {
  const std::string images = Put("train-images-idx3-ubyte.gz", "any");
  const std::string folder = std::filesystem::path(images).parent_path().string();
  EXPECT_EQ(FindIdxFiles({folder}, "train").status(),
            absl::NotFoundError(folder + ": holds no train-labels-idx1-ubyte, plain or .gz"));
  const std::string labels = Put("train-labels-idx1-ubyte", "any");
  EXPECT_THAT(*FindIdxFiles({folder}, "train"), ElementsAre(images, labels));
  EXPECT_THAT(*FindIdxFiles({images}, "train"), ElementsAre(images, labels));
  EXPECT_THAT(*FindIdxFiles({"a", "b"}, "train"), ElementsAre("a", "b"));
  EXPECT_THAT(*FindIdxFiles({folder + "/*"}, "train"), ElementsAre(folder + "/*"));
  EXPECT_EQ(FindIdxFiles({folder}, "t10k").status(),
            absl::NotFoundError(folder + ": holds no t10k-images-idx3-ubyte, plain or .gz"));
  Put("train-labels-idx1-ubyte.gz", "any");
  EXPECT_THAT(FindIdxFiles({folder}, "train").status().message(), HasSubstr("holds both"));
}

// A damaged gzip file is refused or reads as before; it never crashes.
TEST_F(FileSourceTest, DamagedGzipNeverCrashes) {
  Rng rng(29);
  std::string bytes;
  for (int i = 0; i < 500; ++i) absl::StrAppend(&bytes, rng.Next(), "\n");
  const std::string zip = GzipBytes(bytes);
  options_.gzip_spacing = 100;
  for (int round = 0; round < 200; ++round) {
    std::string bad = zip;
    for (uint64_t n = 1 + rng.Below(3); n > 0; --n) {
      bad[10 + rng.Below(bad.size() - 10)] = static_cast<char>(rng.Next());
    }
    data_.train = {Put("bad.gz", bad)};
    const absl::StatusOr<int64_t> built = Build();
    if (!built.ok()) {
      EXPECT_EQ(built.status().code(), absl::StatusCode::kDataLoss);
    }
  }
}

}  // namespace
}  // namespace rubato
