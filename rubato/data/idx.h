// The idx files of MNIST: images in one file, their labels in another. A record is an image's
// bytes and its label, one byte, behind them.
#ifndef RUBATO_DATA_IDX_H_
#define RUBATO_DATA_IDX_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "rubato/data/source.h"

namespace rubato {

struct IdxHeader {
  int64_t bytes = 0;  // Of the header itself.
  int64_t items = 0;
  std::vector<int64_t> shape;  // Of one item; empty for labels.
  int64_t item_bytes = 1;      // Product of the shape.
};

// No header is longer.
constexpr int64_t kIdxHeaderBytesMax = 4 + 4 * 4;

// Reads the start of an idx file of unsigned bytes with one to four dimensions; INVALID_ARGUMENT
// says what it starts with if it is not one.
absl::StatusOr<IdxHeader> ParseIdxHeader(absl::string_view bytes);
// The header of a file of shape[0] items. One to four dimensions, below 2^32.
std::string FormatIdxHeader(const std::vector<int64_t>& shape);

// Pixels become dense columns between 0 and 1, the label a class number.
class IdxParser : public RecordParser {
 public:
  explicit IdxParser(std::vector<int64_t> image_shape);
  const BatchShape& shape() const override { return shape_; }
  absl::Status Parse(absl::string_view record, Batch* batch) const override;

 private:
  BatchShape shape_;
};

}  // namespace rubato

#endif  // RUBATO_DATA_IDX_H_
