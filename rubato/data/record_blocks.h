// The bytes of a recordio file, without the file: records of some other format in blocks, each with
// a checksum, and an index at the end by which a record is found by its number.
//
//     head    magic, version, format, schema, checksum
//     block   1,024 records, the last block fewer: count, bytes, ends, bytes, checksum
//     ...
//     index   where every block begins, checksum
//     tail    where the index begins, records, checksum, magic: always as long
//
// Whoever reads any of it compares a checksum first, so a flipped bit or a missing end is told by
// name, and never trained on.
#ifndef RUBATO_DATA_RECORD_BLOCKS_H_
#define RUBATO_DATA_RECORD_BLOCKS_H_

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "rubato/data/record_index.h"
#include "rubato/job/job_spec.h"

namespace rubato {

// Blocks are as long as the distance of two marks of a RecordIndex: a mark is a block.
constexpr int64_t kRecordsPerBlock = kRecordsPerMark;
// Before the records of a block: how many, and their bytes.
constexpr size_t kBlockHeadBytes = 8;
constexpr size_t kRecordsTailBytes = 40;

// What the records are: a format of DataSpec, and what its parser must know (see MakeParser()).
struct RecordsHead {
  std::string format, schema;
  friend bool operator==(const RecordsHead&, const RecordsHead&) = default;
};

// Whether a file that begins with these bytes is one of recordio.
bool IsRecordsFile(absl::string_view beginning);
std::string EncodeRecordsHead(const RecordsHead& head);
// `bytes` may go on behind the head, whose length goes to `size`. DATA_LOSS if damaged or of
// another version; OUT_OF_RANGE if more bytes are needed.
absl::StatusOr<RecordsHead> DecodeRecordsHead(absl::string_view bytes, size_t* size);

// Gathers the records of a block.
class BlockBuilder {
 public:
  void Add(absl::string_view record);
  int64_t records() const { return static_cast<int64_t>(ends_.size()); }
  size_t bytes() const { return bytes_.size(); }
  // The block; begins anew.
  std::string Finish();

 private:
  std::vector<uint32_t> ends_;
  std::string bytes_;
};

// A block's size by its first kBlockHeadBytes.
size_t BlockBytes(absl::string_view head);

// The records of a block, over bytes it does not own.
class BlockView {
 public:
  BlockView() = default;
  // DATA_LOSS if the checksum is wrong.
  static absl::StatusOr<BlockView> Decode(absl::string_view block);
  int64_t records() const { return static_cast<int64_t>(ends_.size()); }
  absl::string_view record(int64_t i) const;

 private:
  std::vector<uint32_t> ends_;
  absl::string_view bytes_;
};

// Where the blocks of a file are; the index itself follows the last.
struct BlockIndex {
  int64_t records = 0;
  std::vector<int64_t> offsets;
};
// Index and tail, which stand at `offset`.
std::string EncodeBlockIndex(const BlockIndex& index, int64_t offset);
// Where the index begins, by the last kRecordsTailBytes of a file; DATA_LOSS if they are none.
absl::StatusOr<int64_t> IndexOffset(absl::string_view tail);
// `bytes` reach from there to the file's end.
absl::StatusOr<BlockIndex> DecodeBlockIndex(absl::string_view bytes);

// The schema of a data set of recordio: "csv: age,town".
std::string WrapSchema(const RecordsHead& head);
// What `data` and the schema of its index mean for records: for recordio and the sources of
// plug-ins the format within, for all others what they are.
std::pair<DataSpec, absl::string_view> UnwrapSchema(const DataSpec& data, absl::string_view schema);

}  // namespace rubato

#endif  // RUBATO_DATA_RECORD_BLOCKS_H_
