// Files of recordio (data/record_blocks.h): written whole or not at all, read by record number.
#ifndef RUBATO_ADAPTERS_FILES_RECORDIO_H_
#define RUBATO_ADAPTERS_FILES_RECORDIO_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "rubato/adapters/files/files.h"
#include "rubato/data/record_blocks.h"
#include "rubato/data/record_index.h"
#include "rubato/data/source.h"

namespace rubato {

class RecordsWriter {
 public:
  // For records of the format and columns that `head` says.
  static absl::StatusOr<RecordsWriter> Create(const std::string& path, const RecordsHead& head);

  absl::Status Add(absl::string_view record);
  // Gives the file its name; returns its bytes. At most once, and last.
  absl::StatusOr<int64_t> Commit();

 private:
  explicit RecordsWriter(AtomicFile file) : file_(std::move(file)) {}
  absl::Status EndBlock();

  AtomicFile file_;
  BlockBuilder block_;
  BlockIndex index_;
};

// The index of a data set of such files, from the indexes at their ends: no pass over the data.
// DATA_LOSS if one is cut short or damaged where it must be read; INVALID_ARGUMENT if their columns
// are not the same, or a file holds no records.
absl::StatusOr<RecordIndex> IndexRecordsFiles(std::vector<IndexedFile> files);

// Read() gives DATA_LOSS naming file and block if that is damaged.
std::unique_ptr<RecordSource> OpenRecordsFiles(RecordIndex index);

}  // namespace rubato

#endif  // RUBATO_ADAPTERS_FILES_RECORDIO_H_
