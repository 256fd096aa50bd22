#include "rubato/data/record_blocks.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "rubato/data/cell_reader.h"
#include "rubato/data/formats.h"

namespace rubato {
namespace {

using ::testing::HasSubstr;

TEST(RecordBlocksTest, RecordsComeBackWhateverTheyHold) {
  BlockBuilder builder;
  const std::vector<std::string> records = {"", "a,b", std::string("\0\n\xff", 3), "", "last"};
  for (const std::string& record : records) builder.Add(record);
  const std::string block = builder.Finish();
  EXPECT_EQ(BlockBytes(block.substr(0, kBlockHeadBytes)), block.size());
  const auto view = BlockView::Decode(block);
  ASSERT_TRUE(view.ok()) << view.status();
  ASSERT_EQ(view->records(), 5);
  for (int64_t i = 0; i < 5; ++i) EXPECT_EQ(view->record(i), records[static_cast<size_t>(i)]);
  EXPECT_EQ(builder.records(), 0);
}

// No bit of a block, a head or an index can flip unseen, and no byte go missing.
TEST(RecordBlocksTest, EveryFlippedBitAndEveryCutIsNoticed) {
  BlockBuilder builder;
  for (int i = 0; i < 5; ++i) builder.Add(absl::StrCat("record ", i));
  size_t size = 0;
  const std::string block = builder.Finish();
  const std::string head = EncodeRecordsHead({.format = "csv", .schema = "a,b"});
  const std::string index = EncodeBlockIndex({.records = 2000, .offsets = {40, 9000}}, 12345);
  const auto is_sound = [&](const std::string& part, const std::string& bytes) {
    if (part == "block") return BlockView::Decode(bytes).ok();
    if (part == "head") return DecodeRecordsHead(bytes, &size).ok();
    return DecodeBlockIndex(bytes).ok();
  };
  for (const auto& [part, bytes] :
       {std::pair<std::string, std::string>{"block", block}, {"head", head}, {"index", index}}) {
    EXPECT_TRUE(is_sound(part, bytes)) << part;
    for (size_t bit = 0; bit < 8 * bytes.size(); ++bit) {
      std::string flipped = bytes;
      flipped[bit / 8] = static_cast<char>(flipped[bit / 8] ^ (1 << bit % 8));
      EXPECT_FALSE(is_sound(part, flipped)) << part << ", bit " << bit;
    }
    for (size_t n = 0; n < bytes.size(); ++n) {
      EXPECT_FALSE(is_sound(part, bytes.substr(0, n))) << part << ", " << n << " bytes";
    }
  }
}

TEST(RecordBlocksTest, HeadAndIndexComeBack) {
  const RecordsHead head = {.format = "tsv", .schema = "a\tb"};
  size_t size = 0;
  const auto decoded = DecodeRecordsHead(EncodeRecordsHead(head) + "what follows", &size);
  ASSERT_TRUE(decoded.ok()) << decoded.status();
  EXPECT_EQ(*decoded, head);
  EXPECT_EQ(size, EncodeRecordsHead(head).size());
  const std::string bytes = EncodeBlockIndex({.records = 1025, .offsets = {40, 9000}}, 12345);
  EXPECT_EQ(IndexOffset(bytes.substr(bytes.size() - kRecordsTailBytes)).value(), 12345);
  EXPECT_EQ(DecodeBlockIndex(bytes)->offsets, (std::vector<int64_t>{40, 9000}));
  EXPECT_THAT(DecodeRecordsHead("1\t2\n", &size).status().message(), HasSubstr("rubato convert"));
}

// Records of recordio are read as those of the format within.
TEST(RecordBlocksTest, TheFormatWithinReadsTheRecords) {
  DataSpec data;
  data.format = "recordio";
  data.label = "rich";
  const std::string schema = WrapSchema({.format = "tsv", .schema = "town\trich"});
  const auto cells = CellReader::Make(data, schema);
  ASSERT_TRUE(cells.ok()) << cells.status();
  EXPECT_EQ(cells->columns(), (std::vector<std::string>{"town", "rich"}));
  const auto parser = MakeParser(data, schema);
  ASSERT_TRUE(parser.ok()) << parser.status();
  Batch batch;
  EXPECT_TRUE((*parser)->Parse("Oslo\t1", &batch).ok());
  EXPECT_EQ(batch.labels, std::vector<float>{1});
  EXPECT_THAT(MakeParser(data, "cvs: a,b").status().message(), HasSubstr("'cvs' is not one of"));
}

}  // namespace
}  // namespace rubato
