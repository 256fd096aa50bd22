// Rows as they came, column by column: text, and numbers where a feature wants them. Whatever can
// be wrong with a row is found here, so that transforming a chunk cannot fail.
#ifndef RUBATO_FEATURES_RAW_CHUNK_H_
#define RUBATO_FEATURES_RAW_CHUNK_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "rubato/features/number_style.h"

namespace rubato {

// What a pipeline wants of the data's columns. -1 in a slot: not that.
struct ChunkPlan {
  struct Column {
    std::string name;
    int text = -1;                      // Slot among the chunk's texts.
    int number = -1;                    // Slot among its numbers.
    bool malformed_is_missing = false;  // Otherwise the row is bad.
    NumberStyle style = NumberStyle::kPlain;
    std::vector<std::string> missing;     // What reads as nothing here alone.
    std::vector<double> missing_numbers;  // The same as numbers, and what reads so anywhere.
    bool is_float = false;                // What 32 bits cannot hold is malformed too.
  };
  std::vector<Column> columns;  // The data's, in their order.
  int texts = 0, numbers = 0;
  int label = -1;                     // Column; -1: rows have none, and their labels are 0.
  std::vector<std::string> positive;  // Labels that are 1; none: a number.
  std::vector<std::string> negative;  // Labels that are 0; none: all others that are not missing.
  // The same as numbers, if all of both are: 1.0 and +1 are 1.
  std::vector<double> positive_numbers, negative_numbers;
  std::optional<double> at_least;    // In place of these lists: labels from here on are 1.
  std::vector<std::string> missing;  // What reads as nothing anywhere, besides the empty text.
};

// One column of text, end to end.
class TextColumn {
 public:
  absl::string_view operator[](size_t row) const {
    const size_t begin = row == 0 ? 0 : ends_[row - 1];
    return {bytes_.data() + begin, ends_[row] - begin};
  }
  void Add(absl::string_view text) {
    bytes_.append(text.data(), text.size());
    ends_.push_back(bytes_.size());
  }
  void Resize(size_t rows) {
    if (rows >= ends_.size()) return;
    ends_.resize(rows);
    bytes_.resize(rows == 0 ? 0 : ends_.back());
  }

 private:
  std::string bytes_;
  std::vector<size_t> ends_;
};

class RawChunk {
 public:
  explicit RawChunk(std::shared_ptr<const ChunkPlan> plan);

  // One row: a cell for each column of the plan. INVALID_ARGUMENT names column and value, and
  // leaves the chunk as it was.
  absl::Status Add(absl::Span<const absl::string_view> cells);
  void Clear() { Resize(0); }

  size_t rows() const { return labels_.size(); }
  const std::vector<float>& labels() const { return labels_; }
  const TextColumn& text(int slot) const { return texts_[static_cast<size_t>(slot)]; }
  // NaN: missing.
  const std::vector<double>& number(int slot) const { return numbers_[static_cast<size_t>(slot)]; }

 private:
  absl::Status AddCell(const ChunkPlan::Column& column, absl::string_view cell);
  absl::Status AddLabel(absl::string_view cell);
  absl::Status NoLabel(absl::string_view cell, absl::string_view why) const;
  bool IsMissing(absl::string_view cell) const;
  void Resize(size_t rows);

  std::shared_ptr<const ChunkPlan> plan_;
  std::vector<float> labels_;
  std::vector<TextColumn> texts_;
  std::vector<std::vector<double>> numbers_;
};

}  // namespace rubato

#endif  // RUBATO_FEATURES_RAW_CHUNK_H_
