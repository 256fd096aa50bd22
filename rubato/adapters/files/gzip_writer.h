// Bytes into the gzip format, a piece at a time.
#ifndef RUBATO_ADAPTERS_FILES_GZIP_WRITER_H_
#define RUBATO_ADAPTERS_FILES_GZIP_WRITER_H_

#include <zlib.h>

#include <string>

#include "absl/strings/string_view.h"

namespace rubato {

class GzipWriter {
 public:
  // 1 is fast, 9 is small.
  explicit GzipWriter(int level = 6);
  ~GzipWriter();
  GzipWriter(const GzipWriter&) = delete;
  GzipWriter& operator=(const GzipWriter&) = delete;

  // Appends to `out` what `bytes` became, as far as it is known yet.
  void Write(absl::string_view bytes, std::string* out) { Deflate(bytes, Z_NO_FLUSH, out); }
  // Appends the rest. Nothing may be written after it.
  void Finish(std::string* out) { Deflate("", Z_FINISH, out); }

 private:
  void Deflate(absl::string_view bytes, int flush, std::string* out);

  z_stream z_ = {};
};

// `bytes` as a whole gzip file.
std::string GzipBytes(absl::string_view bytes);

}  // namespace rubato

#endif  // RUBATO_ADAPTERS_FILES_GZIP_WRITER_H_
