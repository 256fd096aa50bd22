// Rows of entries (libfm, libsvm, libffm) without a features file: every cell is one category.
#ifndef RUBATO_DATA_ENTRIES_PARSER_H_
#define RUBATO_DATA_ENTRIES_PARSER_H_

#include <memory>
#include <utility>

#include "absl/status/statusor.h"
#include "rubato/data/cell_reader.h"
#include "rubato/data/source.h"

namespace rubato {

// A label above 0 is 1, any other number 0. Without `has_labels` it is not looked at, and need not
// be there.
class EntriesParser : public RecordParser {
 public:
  static absl::StatusOr<std::unique_ptr<EntriesParser>> Create(const DataSpec& data,
                                                               absl::string_view schema,
                                                               bool has_labels = true);

  const BatchShape& shape() const override { return shape_; }
  absl::Status Parse(absl::string_view record, Batch* batch) const override;

 private:
  explicit EntriesParser(CellReader reader) : reader_(std::move(reader)) {}

  CellReader reader_;
  bool has_labels_ = true;
  BatchShape shape_;
};

}  // namespace rubato

#endif  // RUBATO_DATA_ENTRIES_PARSER_H_
