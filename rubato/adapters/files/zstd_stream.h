// Unpacks a zstd file, from its start or from the start of any of its frames.
//
// A frame cannot be entered in its middle. Files of many frames (pzstd, `zstd` run on parts that
// were put together) are read from the nearest; one of a single frame from its start every time.
#ifndef RUBATO_ADAPTERS_FILES_ZSTD_STREAM_H_
#define RUBATO_ADAPTERS_FILES_ZSTD_STREAM_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "rubato/adapters/files/byte_stream.h"
#include "rubato/adapters/files/raw_file.h"
#include "rubato/data/record_index.h"

struct ZSTD_DCtx_s;

namespace rubato {

// Whether the file begins as zstd files do.
absl::StatusOr<bool> IsZstd(const RawFile& file);

class ZstdStream : public ByteStream {
 public:
  explicit ZstdStream(RawFile file);
  ~ZstdStream() override;

  // Before the first Read(), each at most once: begins at a frame, remembers where frames begin.
  void StartAt(const GzipPoint& point);
  void RecordPoints(std::vector<GzipPoint>* points, int64_t spacing);

  absl::StatusOr<size_t> Read(char* out, size_t size) override;
  int64_t file_position() const override;
  absl::Status CheckUnchanged() const override { return file_.CheckUnchanged(); }
  // The unpacked byte that comes next.
  int64_t output() const { return output_; }

 private:
  RawFile file_;
  std::unique_ptr<ZSTD_DCtx_s, size_t (*)(ZSTD_DCtx_s*)> context_;
  std::string input_;
  size_t begin_ = 0, end_ = 0;  // Of input_, not yet used.
  int64_t input_offset_ = 0;    // Of the file, after what was read into input_.
  int64_t output_ = 0;
  bool within_frame_ = false;
  std::vector<GzipPoint>* points_ = nullptr;
  int64_t spacing_ = 0;
};

}  // namespace rubato

#endif  // RUBATO_ADAPTERS_FILES_ZSTD_STREAM_H_
