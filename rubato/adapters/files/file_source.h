// Data sets in files: plain or gzip, one or many, of any size, read by record number.
//
//     BuildIndex(data, data.train, "train.index", progress)   once, by one pass over the files
//     OpenData(data, "train.index")                           in every process, at once
//
// Files are streamed: what is in memory is the index and one chunk.
#ifndef RUBATO_ADAPTERS_FILES_FILE_SOURCE_H_
#define RUBATO_ADAPTERS_FILES_FILE_SOURCE_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "rubato/data/source.h"
#include "rubato/job/job_spec.h"

namespace rubato {

// What a pass trades; the defaults suit all but tests.
struct FileSourceOptions {
  size_t chunk_bytes = 1 << 20;    // Read at once.
  int64_t gzip_spacing = 4 << 20;  // Inflated bytes between places to begin at.
  // Says whether the files' schema will do, as soon as it is known. Null: MakeParser() must take
  // it, and gives the parser of OpenedData, which there is none of otherwise.
  std::function<absl::Status(const std::string& schema)> check;
};

// The files that `patterns` name, in order, those of a glob sorted. NOT_FOUND names a pattern that
// matches nothing, INVALID_ARGUMENT a file named twice.
absl::StatusOr<std::vector<std::string>> ExpandPatterns(const std::vector<std::string>& patterns);

// Makes `index_path` the index of `patterns` (data.train or data.validation), unless it is so
// already, and answers with the number of records. `progress` hears of bytes done and of all, now
// and then; an error from it stops the pass. Fails on the first missing, empty or damaged file, or
// column that DataSpec names and the files do not have.
absl::StatusOr<int64_t> BuildIndex(
    const DataSpec& data, const std::vector<std::string>& patterns, const std::string& index_path,
    absl::FunctionRef<absl::Status(int64_t done, int64_t total)> progress,
    const FileSourceOptions& options = {});

// Records and who understands them. The source belongs to one thread; the parser serves all.
struct OpenedData {
  std::unique_ptr<RecordSource> source;
  std::unique_ptr<const RecordParser> parser;  // Null where somebody else has checked the columns.
  // Columns in their order. One parser fits two data sets only if this is the same for both.
  std::string schema;
  // For reading the records in another order than theirs: about how many bytes they are,
  int64_t bytes = INT64_MAX;
  // and whether to read some from anywhere costs little more than to read on.
  bool seeks = false;
};

// NOT_FOUND if there is no index; DATA_LOSS if it is damaged, or if a file is no longer what it was
// when the index was built.
absl::StatusOr<OpenedData> OpenData(const DataSpec& data, const std::string& index_path,
                                    const FileSourceOptions& options = {});
absl::StatusOr<std::unique_ptr<RecordSource>> OpenSource(const DataSpec& data,
                                                         const std::string& index_path,
                                                         const FileSourceOptions& options = {});

}  // namespace rubato

#endif  // RUBATO_ADAPTERS_FILES_FILE_SOURCE_H_
