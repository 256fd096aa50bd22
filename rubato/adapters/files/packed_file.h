// A file written a piece at a time, plain or gzip, that is there as a whole or not at all.
#ifndef RUBATO_ADAPTERS_FILES_PACKED_FILE_H_
#define RUBATO_ADAPTERS_FILES_PACKED_FILE_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "rubato/adapters/files/files.h"
#include "rubato/adapters/files/gzip_writer.h"

namespace rubato {

class PackedFile {
 public:
  static absl::StatusOr<PackedFile> Create(const std::string& path, bool gzip);

  // Pieces of a megabyte are written, smaller ones gathered.
  absl::Status Write(absl::string_view bytes);
  // At most once; nothing may be written after it. Returns the size on disk.
  absl::StatusOr<int64_t> Commit();
  const std::string& path() const { return file_.path(); }

 private:
  PackedFile(AtomicFile file, bool gzip)
      : file_(std::move(file)), packer_(gzip ? std::make_unique<GzipWriter>(1) : nullptr) {}
  absl::Status Flush();

  AtomicFile file_;
  std::unique_ptr<GzipWriter> packer_;  // Null for a plain file.
  std::string chunk_;                   // Not packed yet.
  std::string packed_;
};

}  // namespace rubato

#endif  // RUBATO_ADAPTERS_FILES_PACKED_FILE_H_
