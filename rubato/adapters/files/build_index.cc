#include <glob.h>

#include <algorithm>
#include <set>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "rubato/adapters/files/byte_stream.h"
#include "rubato/adapters/files/file_source.h"
#include "rubato/adapters/files/files.h"
#include "rubato/adapters/files/idx_source.h"
#include "rubato/adapters/files/record_scanner.h"
#include "rubato/adapters/files/recordio.h"
#include "rubato/adapters/sql/sql_uri.h"
#include "rubato/base/status.h"
#include "rubato/data/cell_reader.h"
#include "rubato/data/formats.h"
#include "rubato/data/record_index.h"
#include "rubato/data/sniff.h"

namespace rubato {
namespace {

using ProgressFn = absl::FunctionRef<absl::Status(int64_t done, int64_t total)>;

absl::StatusOr<std::vector<std::string>> ExpandPattern(const std::string& pattern) {
  if (pattern.find("://") != std::string::npos && !PathExists(pattern)) {
    return absl::NotFoundError(absl::StrCat(
        WithoutPassword(pattern),
        ": no file is called so, and of databases sqlite:// and postgresql:// are known"));
  }
  const bool is_glob = pattern.find_first_of("*?[") != std::string::npos;
  if (!is_glob || PathExists(pattern)) return std::vector<std::string>{pattern};
  glob_t found = {};
  const int result = glob(pattern.c_str(), GLOB_ERR, nullptr, &found);
  std::vector<std::string> paths(found.gl_pathv, found.gl_pathv + found.gl_pathc);
  globfree(&found);
  if (result == GLOB_NOMATCH) {
    return absl::NotFoundError(absl::StrCat(pattern, ": no file matches"));
  }
  if (result != 0) return absl::UnknownError(absl::StrCat(pattern, ": cannot list the folder"));
  std::sort(paths.begin(), paths.end());
  return paths;
}

absl::Status CheckSchema(const DataSpec& data, const std::string& schema,
                         const FileSourceOptions& options) {
  return options.check != nullptr ? options.check(schema) : MakeParser(data, schema).status();
}

// One pass over the files of a data set.
class IndexBuilder {
 public:
  IndexBuilder(const DataSpec& data, std::vector<IndexedFile> files, ProgressFn progress,
               const FileSourceOptions& options)
      : data_(data), progress_(progress), options_(options) {
    index_.format = FormatName(data);
    index_.files = std::move(files);
    for (const IndexedFile& file : index_.files) bytes_total_ += file.size;
  }

  absl::StatusOr<RecordIndex> Build() {
    for (IndexedFile& file : index_.files) {
      RUBATO_RETURN_IF_ERROR(ScanFile(file));
      bytes_done_ += file.size;
    }
    if (has_fields_) {
      RUBATO_ASSIGN_OR_RETURN(index_.schema, fields_.Schema());
      RUBATO_RETURN_IF_ERROR(CheckSchema(data_, index_.schema, options_));
    }
    RUBATO_RETURN_IF_ERROR(progress_(bytes_done_, bytes_total_));
    return std::move(index_);
  }

 private:
  absl::Status ScanFile(IndexedFile& file) {
    RUBATO_ASSIGN_OR_RETURN(auto stream, OpenStreamForIndexing(file, options_.gzip_spacing));
    RecordScanner scanner(file.path, std::move(stream), RecordMark(), RuleOf(data_),
                          options_.chunk_bytes);
    bool is_first = true;
    while (true) {
      RUBATO_ASSIGN_OR_RETURN(const bool found, scanner.Next());
      if (!found) break;
      if (is_first) RUBATO_RETURN_IF_ERROR(SeeFirst(file, scanner.record()));
      const bool is_header = is_first && HasHeader(data_);
      is_first = false;
      if (is_header) continue;
      if (has_fields_) fields_.See(scanner.record());
      if (file.records++ % kRecordsPerMark != 0) continue;
      file.marks.push_back(scanner.mark());
      RUBATO_RETURN_IF_ERROR(
          progress_(bytes_done_ + scanner.stream().file_position(), bytes_total_));
    }
    if (file.records == 0) {
      return absl::InvalidArgumentError(absl::StrCat(file.path, ": holds no records"));
    }
    return scanner.stream().CheckUnchanged();
  }

  // Every file must have the columns of the first.
  absl::Status SeeFirst(const IndexedFile& file, absl::string_view record) {
    RUBATO_RETURN_IF_ERROR(Annotate(CheckText(record), file.path));
    if (has_fields_) return absl::OkStatus();  // Known when all records are seen.
    const std::string schema = SchemaOf(data_, record);
    if (&file == &index_.files[0]) {
      index_.schema = schema;
      // A misspelt column is better known now than after 50 GB.
      return CheckSchema(data_, schema, options_);
    }
    if (schema == index_.schema) return absl::OkStatus();
    return absl::InvalidArgumentError(absl::StrCat(file.path, ": its columns, '", schema,
                                                   "', are not those of ", index_.files[0].path,
                                                   ", '", index_.schema, "'"));
  }

  const DataSpec& data_;
  const ProgressFn progress_;
  const FileSourceOptions options_;
  RecordIndex index_;
  const bool has_fields_ = data_.format == "libffm";
  FieldsSeen fields_;
  int64_t bytes_done_ = 0;
  int64_t bytes_total_ = 0;
};

// The index at `path` if it describes these files as they are; anything wrong with it is a reason
// to build it again.
absl::StatusOr<RecordIndex> Reuse(const DataSpec& data, const std::vector<IndexedFile>& files,
                                  const std::string& path) {
  RUBATO_ASSIGN_OR_RETURN(const std::string bytes, ReadWholeFile(path));
  RUBATO_ASSIGN_OR_RETURN(RecordIndex index, RecordIndex::Decode(bytes));
  const auto is_same = [](const IndexedFile& a, const IndexedFile& b) {
    return a.path == b.path && a.size == b.size && a.modified_ns == b.modified_ns;
  };
  const bool fits =
      index.format == FormatName(data) &&
      std::equal(index.files.begin(), index.files.end(), files.begin(), files.end(), is_same);
  if (!fits) return absl::NotFoundError("the files have changed");
  return index;
}

}  // namespace

absl::StatusOr<std::vector<std::string>> ExpandPatterns(const std::vector<std::string>& patterns) {
  std::vector<std::string> paths;
  std::set<std::string> seen;
  for (const std::string& pattern : patterns) {
    RUBATO_ASSIGN_OR_RETURN(const std::vector<std::string> found, ExpandPattern(pattern));
    for (const std::string& path : found) {
      if (!seen.insert(path).second) {
        return absl::InvalidArgumentError(
            absl::StrCat(path, ": is named twice; its records would count twice"));
      }
      paths.push_back(path);
    }
  }
  return paths;
}

absl::StatusOr<int64_t> BuildIndex(const DataSpec& data, const std::vector<std::string>& patterns,
                                   const std::string& index_path, ProgressFn progress,
                                   const FileSourceOptions& options) {
  RUBATO_ASSIGN_OR_RETURN(const std::vector<std::string> paths, ExpandPatterns(patterns));
  std::vector<IndexedFile> files;
  for (const std::string& path : paths) {
    RUBATO_ASSIGN_OR_RETURN(IndexedFile file, InspectFile(path));
    if (absl::EndsWith(path, ".gz") && !file.gzip) {
      return absl::DataLossError(absl::StrCat(path, ": is called .gz but is not gzip"));
    }
    files.push_back(std::move(file));
  }
  absl::StatusOr<RecordIndex> index = Reuse(data, files, index_path);
  if (index.ok()) {
    RUBATO_RETURN_IF_ERROR(CheckSchema(data, index->schema, options));
    return index->records();
  }
  if (data.format == "idx") {
    index = BuildIdxIndex(std::move(files));
  } else if (data.format == "recordio") {
    index = IndexRecordsFiles(std::move(files));
    if (index.ok()) RUBATO_RETURN_IF_ERROR(CheckSchema(data, index->schema, options));
  } else {
    index = IndexBuilder(data, std::move(files), progress, options).Build();
  }
  if (!index.ok()) return index.status();
  RUBATO_RETURN_IF_ERROR(WriteFileAtomically(index_path, index->Encode()));
  return index->records();
}

}  // namespace rubato
