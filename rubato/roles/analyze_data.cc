#include "rubato/roles/analyze_data.h"

#include <deque>
#include <memory>
#include <optional>
#include <thread>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "rubato/adapters/files/byte_stream.h"
#include "rubato/adapters/files/file_source.h"
#include "rubato/adapters/files/record_scanner.h"
#include "rubato/adapters/files/recordio.h"
#include "rubato/adapters/source_loader/custom_data.h"
#include "rubato/adapters/sql/sql_source.h"
#include "rubato/adapters/sql/sql_uri.h"
#include "rubato/base/mutex.h"
#include "rubato/base/status.h"
#include "rubato/data/cell_reader.h"
#include "rubato/data/formats.h"
#include "rubato/data/record_blocks.h"
#include "rubato/data/sniff.h"
#include "rubato/features/propose_label.h"
#include "rubato/job/plugin_name.h"

namespace rubato {
namespace {

constexpr size_t kChunkBytes = 1 << 20;
constexpr size_t kBlockBytes = 1 << 18;
constexpr size_t kBlocksWaiting = 4;
// A number of its own, not the machine's: who reads which block decides nothing but the speed,
// except for texts beyond the capacity of a sketch, and there it must be the same every time.
constexpr size_t kReaders = 4;

// Records one after the other.
struct Block {
  std::string bytes;
  std::vector<size_t> ends;
  int64_t first = 0;           // Of all records.
  std::string path;            // Of the file they are in, if it is one with lines.
  std::vector<int64_t> lines;  // Where each begins; empty without a path.
};

// One reader: takes blocks in order, and keeps the statistics of what it has seen.
class Reader {
 public:
  Reader(const CellReader& cells, const Analysis& empty)
      : cells_(cells), analysis_(empty), thread_([this] { Run(); }) {}

  void Give(Block block) {
    MutexLock lock(mu_);
    while (blocks_.size() >= kBlocksWaiting) changed_.Wait(mu_);
    blocks_.push_back(std::move(block));
    changed_.NotifyAll();
  }

  // Reads what is left; nothing may be given after it.
  const Analysis& Finish() {
    End();
    return analysis_;
  }

  ~Reader() { End(); }

 private:
  void End() {
    {
      MutexLock lock(mu_);
      ended_ = true;
      changed_.NotifyAll();
    }
    if (thread_.joinable()) thread_.join();
  }

  std::optional<Block> Take() {
    MutexLock lock(mu_);
    while (blocks_.empty() && !ended_) changed_.Wait(mu_);
    if (blocks_.empty()) return std::nullopt;
    Block block = std::move(blocks_.front());
    blocks_.pop_front();
    changed_.NotifyAll();
    return block;
  }

  void Run() {
    Cells cells;
    while (std::optional<Block> block = Take()) {
      size_t begin = 0;
      for (size_t i = 0; i < block->ends.size(); ++i) {
        const absl::string_view record(block->bytes.data() + begin, block->ends[i] - begin);
        begin = block->ends[i];
        const absl::Status status = cells_.Read(record, &cells);
        if (status.ok()) {
          analysis_.Add(cells.views);
          continue;
        }
        if (analysis_.bad_rows++ == 0) NoteFirstBad(*block, i, status);
      }
    }
  }

  void NoteFirstBad(const Block& block, size_t i, const absl::Status& status) {
    analysis_.first_bad_at = block.first + static_cast<int64_t>(i);
    analysis_.first_bad =
        absl::StrCat(block.path, block.path.empty() ? "" : absl::StrCat(":", block.lines[i], ": "),
                     status.message());
  }

  const CellReader& cells_;
  Analysis analysis_;  // The thread's, until it is joined.
  Mutex mu_;
  CondVar changed_;
  std::deque<Block> blocks_ ABSL_GUARDED_BY(mu_);
  bool ended_ ABSL_GUARDED_BY(mu_) = false;
  std::thread thread_;
};

// The pass over the files.
class Pass {
 public:
  Pass(const DataSpec& data,
       const std::function<absl::Status(int64_t done, int64_t total)>& progress)
      : data_(data), progress_(progress) {}

  absl::StatusOr<Analysis> Run(const std::vector<std::string>& patterns) {
    RUBATO_RETURN_IF_ERROR(data_.format == "sql"        ? ScanTables(patterns)
                           : data_.format == "recordio" ? ScanRecords(patterns)
                           : IsPlugin(data_.format)     ? ScanCustom(patterns)
                                                        : ScanFiles(patterns));
    Flush();
    Analysis all = empty_;
    for (const std::unique_ptr<Reader>& reader : readers_) all.Merge(reader->Finish());
    if (all.rows == 0) {
      return absl::InvalidArgumentError(
          absl::StrCat(WithoutPassword(patterns[0]), ": no row can be read",
                       all.bad_rows > 0 ? "; the first: " : "", all.first_bad));
    }
    return all;
  }

 private:
  absl::Status ScanFiles(const std::vector<std::string>& patterns) {
    RUBATO_ASSIGN_OR_RETURN(const std::vector<std::string> paths, ExpandPatterns(patterns));
    std::vector<IndexedFile> files;
    for (const std::string& path : paths) {
      RUBATO_ASSIGN_OR_RETURN(files.emplace_back(), InspectFile(path));
      total_ += files.back().size;
    }
    if (data_.format == "libffm") RUBATO_RETURN_IF_ERROR(SeeFields(files));
    for (const IndexedFile& file : files) {
      RUBATO_RETURN_IF_ERROR(Scan(file));
      Flush();  // A block is of one file.
      done_ += file.size;
    }
    return absl::OkStatus();
  }

  // Which fields there are must be known before any of them is counted: one pass more.
  absl::Status SeeFields(const std::vector<IndexedFile>& files) {
    FieldsSeen fields;
    for (const IndexedFile& file : files) {
      RUBATO_ASSIGN_OR_RETURN(auto stream, OpenStream(file, 0));
      RecordScanner scanner(file.path, std::move(stream), RecordMark(), RuleOf(data_), kChunkBytes);
      while (true) {
        RUBATO_ASSIGN_OR_RETURN(const bool found, scanner.Next());
        if (!found) break;
        fields.See(scanner.record());
      }
    }
    RUBATO_ASSIGN_OR_RETURN(const std::string schema, fields.Schema());
    return UseSchema(files[0].path, schema);
  }

  // Tables and queries, one after the other; progress is counted in rows.
  absl::Status ScanTables(const std::vector<std::string>& uris) {
    for (const std::string& uri : uris) {
      RUBATO_ASSIGN_OR_RETURN(const RecordIndex index, IndexTable(uri));
      RUBATO_ASSIGN_OR_RETURN(const auto source, OpenTable(index));
      RUBATO_RETURN_IF_ERROR(UseSchema(uri, index.schema));
      RUBATO_RETURN_IF_ERROR(TakeAll(*source));
    }
    return absl::OkStatus();
  }

  // Files of recordio; these too are counted in rows.
  absl::Status ScanRecords(const std::vector<std::string>& patterns) {
    RUBATO_ASSIGN_OR_RETURN(const std::vector<std::string> paths, ExpandPatterns(patterns));
    std::vector<IndexedFile> files;
    for (const std::string& path : paths) {
      RUBATO_ASSIGN_OR_RETURN(files.emplace_back(), InspectFile(path));
    }
    RUBATO_ASSIGN_OR_RETURN(RecordIndex index, IndexRecordsFiles(std::move(files)));
    RUBATO_RETURN_IF_ERROR(UseSchema(paths[0], index.schema));
    return TakeAll(*OpenRecordsFiles(std::move(index)));
  }

  absl::Status ScanCustom(const std::vector<std::string>& places) {
    RUBATO_ASSIGN_OR_RETURN(RecordIndex index, IndexCustomData(data_.format, places));
    RUBATO_RETURN_IF_ERROR(UseSchema(places[0], index.schema));
    return TakeAll(*OpenCustomData(std::move(index)));
  }

  absl::Status TakeAll(RecordSource& source) {
    return source.Read(0, source.records(), [&](int64_t record, absl::string_view bytes) {
      return Take(bytes) ? progress_(record, source.records()) : absl::OkStatus();
    });
  }

  absl::Status Scan(const IndexedFile& file) {
    RUBATO_ASSIGN_OR_RETURN(auto stream, OpenStream(file, 0));
    RecordScanner scanner(file.path, std::move(stream), RecordMark(), RuleOf(data_), kChunkBytes);
    bool is_first = true;
    while (true) {
      RUBATO_ASSIGN_OR_RETURN(const bool found, scanner.Next());
      if (!found) return absl::OkStatus();
      const absl::string_view record = scanner.record();
      if (is_first) RUBATO_RETURN_IF_ERROR(SeeFirst(file, record));
      const bool is_header = is_first && HasHeader(data_);
      is_first = false;
      if (is_header) continue;
      block_.path = file.path;
      block_.lines.push_back(scanner.mark().line);
      if (!Take(record)) continue;
      RUBATO_RETURN_IF_ERROR(progress_(done_ + scanner.stream().file_position(), total_));
    }
  }

  // True if that made a block full.
  bool Take(absl::string_view record) {
    block_.bytes.append(record.data(), record.size());
    block_.ends.push_back(block_.bytes.size());
    if (block_.bytes.size() < kBlockBytes) return false;
    Flush();
    return true;
  }

  absl::Status SeeFirst(const IndexedFile& file, absl::string_view record) {
    RUBATO_RETURN_IF_ERROR(Annotate(CheckText(record), file.path));
    const std::string schema = SchemaOf(data_, record);
    if (cells_ != nullptr && !HasHeader(data_)) return absl::OkStatus();
    return UseSchema(file.path, schema);
  }

  absl::Status UseSchema(const std::string& place, const std::string& schema) {
    if (cells_ != nullptr) {
      if (schema == schema_) return absl::OkStatus();
      return absl::InvalidArgumentError(
          absl::StrCat(place, ": its columns, '", schema, "', are not '", schema_, "'"));
    }
    schema_ = schema;
    RUBATO_ASSIGN_OR_RETURN(CellReader cells, CellReader::Make(data_, schema));
    cells_ = std::make_unique<CellReader>(std::move(cells));
    empty_.format = UnwrapSchema(data_, schema).first.format;
    empty_.columns = cells_->columns();
    RUBATO_RETURN_IF_ERROR(CheckLabel());
    empty_.stats.resize(empty_.columns.size());
    for (size_t i = 0; i < kReaders; ++i) {
      readers_.push_back(std::make_unique<Reader>(*cells_, empty_));
    }
    return absl::OkStatus();
  }

  // Before all rows are read for nothing.
  absl::Status CheckLabel() const {
    const std::vector<std::string>& columns = empty_.columns;
    if (data_.label.empty() || absl::c_linear_search(columns, data_.label)) return absl::OkStatus();
    return NoSuchLabel(data_.label, columns);
  }

  void Flush() {
    if (block_.ends.empty()) return;
    const int64_t next = block_.first + static_cast<int64_t>(block_.ends.size());
    readers_[next_++ % kReaders]->Give(std::exchange(block_, Block{.first = next}));
  }

  const DataSpec& data_;
  const std::function<absl::Status(int64_t done, int64_t total)>& progress_;
  std::string schema_;
  std::unique_ptr<CellReader> cells_;
  Analysis empty_;
  std::vector<std::unique_ptr<Reader>> readers_;
  Block block_;
  size_t next_ = 0;
  int64_t done_ = 0, total_ = 0;
};

}  // namespace

absl::StatusOr<Analysis> AnalyzeData(
    const DataSpec& data, const std::vector<std::string>& patterns,
    const std::function<absl::Status(int64_t done, int64_t total)>& progress) {
  return Pass(data, progress).Run(patterns);
}

}  // namespace rubato
