#include "rubato/adapters/files/gzip_writer.h"

#include "rubato/base/status.h"

namespace rubato {

GzipWriter::GzipWriter(int level) {
  constexpr int kGzipBits = 15 + 16, kMemory = 8;
  RUBATO_CHECK(deflateInit2(&z_, level, Z_DEFLATED, kGzipBits, kMemory, Z_DEFAULT_STRATEGY) ==
               Z_OK);
}

GzipWriter::~GzipWriter() { deflateEnd(&z_); }

void GzipWriter::Deflate(absl::string_view bytes, int flush, std::string* out) {
  z_.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(bytes.data()));
  z_.avail_in = static_cast<uInt>(bytes.size());
  char buffer[1 << 14];
  do {
    z_.next_out = reinterpret_cast<Bytef*>(buffer);
    z_.avail_out = sizeof(buffer);
    RUBATO_CHECK(deflate(&z_, flush) != Z_STREAM_ERROR);
    out->append(buffer, sizeof(buffer) - z_.avail_out);
  } while (z_.avail_out == 0);
}

std::string GzipBytes(absl::string_view bytes) {
  std::string out;
  GzipWriter writer;
  writer.Write(bytes, &out);
  writer.Finish(&out);
  return out;
}

}  // namespace rubato
