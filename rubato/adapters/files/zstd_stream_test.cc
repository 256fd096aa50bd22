#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <zstd.h>

#include <utility>

#include "absl/strings/str_cat.h"
#include "rubato/adapters/files/file_source.h"
#include "rubato/adapters/files/files.h"
#include "rubato/adapters/files/testing.h"
#include "rubato/base/rng.h"
#include "rubato/base/status.h"

namespace rubato {
namespace {

std::string Frame(const std::string& bytes) {
  std::string packed(ZSTD_compressBound(bytes.size()), 0);
  packed.resize(ZSTD_compress(packed.data(), packed.size(), bytes.data(), bytes.size(), 1));
  return packed;
}

class ZstdStreamTest : public testing::Test {
 protected:
  absl::StatusOr<std::unique_ptr<RecordSource>> Open(const std::string& bytes) {
    const std::string path = folder_.File("a.zst"), index = folder_.File("index");
    RUBATO_CHECK_OK(WriteFileAtomically(path, bytes, Durability::kProcess));
    RUBATO_CHECK_OK(RemoveTree(index));
    const auto no_progress = [](int64_t, int64_t) { return absl::OkStatus(); };
    const FileSourceOptions options = {.chunk_bytes = 5000, .gzip_spacing = 1000};
    RUBATO_RETURN_IF_ERROR(BuildIndex({}, {path}, index, no_progress, options).status());
    return OpenSource({}, index, options);
  }
  const TestFolder folder_;
};

// Frames are cut anywhere, also within a record; any record can be read first.
TEST_F(ZstdStreamTest, AnyRecordOfManyFramesIsFound) {
  Rng rng(3);
  std::string bytes, packed;
  for (int i = 0; i < 20000; ++i) {
    absl::StrAppend(&bytes, i, " ", rng.Next(), "\n");
    if (rng.Chance(0.005)) packed += Frame(std::exchange(bytes, std::string()));
  }
  packed += Frame(bytes);
  const auto source = Open(packed);
  ASSERT_TRUE(source.ok()) << source.status();
  ASSERT_EQ((*source)->records(), 20000);
  for (int read = 0; read < 100; ++read) {
    const auto record = static_cast<int64_t>(rng.Below(20000));
    ASSERT_TRUE((*source)
                    ->Read(record, record + 1,
                           [&](int64_t, absl::string_view text) {
                             EXPECT_THAT(std::string(text),
                                         testing::StartsWith(absl::StrCat(record, " ")));
                             return absl::OkStatus();
                           })
                    .ok());
  }
}

TEST_F(ZstdStreamTest, DamageIsAnErrorAndNeverACrash) {
  Rng rng(4);
  std::string bytes;
  for (int i = 0; i < 3000; ++i) absl::StrAppend(&bytes, rng.Next(), "\n");
  const std::string packed = Frame(bytes);
  EXPECT_TRUE(absl::IsDataLoss(Open(packed.substr(0, packed.size() / 2)).status()));
  for (int round = 0; round < 200; ++round) {
    std::string bad = packed;
    bad[4 + rng.Below(bad.size() - 4)] = static_cast<char>(rng.Next());
    const auto opened = Open(bad);
    EXPECT_TRUE(opened.ok() || absl::IsDataLoss(opened.status())) << opened.status();
  }
}

}  // namespace
}  // namespace rubato
