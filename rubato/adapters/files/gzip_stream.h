// Inflates a gzip file, from its start or from the middle.
//
// Deflate cannot be entered anywhere: a block may refer to the 32 kB of output before it. So the
// first pass keeps points, places between blocks together with that window, and later passes
// begin at the nearest one. Files of several members (as bgzip and `cat a.gz b.gz` make) are one
// stream; the start of a member needs no window.
#ifndef RUBATO_ADAPTERS_FILES_GZIP_STREAM_H_
#define RUBATO_ADAPTERS_FILES_GZIP_STREAM_H_

#include <zlib.h>

#include <cstdint>
#include <string>
#include <vector>

#include "rubato/adapters/files/byte_stream.h"
#include "rubato/adapters/files/raw_file.h"
#include "rubato/data/record_index.h"

namespace rubato {

class GzipStream : public ByteStream {
 public:
  explicit GzipStream(RawFile file);
  ~GzipStream() override;
  GzipStream(const GzipStream&) = delete;
  GzipStream& operator=(const GzipStream&) = delete;

  // Before the first Read(), each at most once.
  absl::Status StartAt(const GzipPoint& point);
  void RecordPoints(std::vector<GzipPoint>* points, int64_t spacing);

  // Checksums are verified for members read from their header on.
  absl::StatusOr<size_t> Read(char* out, size_t size) override;
  int64_t file_position() const override { return input_offset_ - z_.avail_in; }
  absl::Status CheckUnchanged() const override { return file_.CheckUnchanged(); }
  // The inflated byte that comes next.
  int64_t output() const { return output_; }

 private:
  // Tops the input up unless `need` bytes are there; fewer stay only at the end of the file.
  absl::Status Refill(size_t need);
  // What follows a member: another one, or zeros, or nothing.
  absl::Status EndMember();
  void MaybeAddPoint(bool member_start);
  absl::Status Damaged(absl::string_view how) const;

  RawFile file_;
  z_stream z_ = {};
  std::string input_;         // Holds z_'s next_in .. next_in + avail_in.
  int64_t input_offset_ = 0;  // Of the file, after what was read into input_.
  int64_t output_ = 0;
  bool raw_ = false;  // Within a member that was entered in its middle.
  bool ended_ = false;

  std::vector<GzipPoint>* points_ = nullptr;
  int64_t spacing_ = 0;
};

}  // namespace rubato

#endif  // RUBATO_ADAPTERS_FILES_GZIP_STREAM_H_
