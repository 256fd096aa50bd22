// A file of records in memory, for tests.
#ifndef RUBATO_PARAMS_STRING_SINK_H_
#define RUBATO_PARAMS_STRING_SINK_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "rubato/net/frame.h"
#include "rubato/params/record_file.h"

namespace rubato {

class StringSink : public RecordSink {
 public:
  StringSink() {
    const FileHeaderBytes header = EncodeFileHeader();
    bytes_.assign(header.data(), header.size());
  }
  absl::Status Append(RecordKind kind, absl::string_view body) override {
    if (full_) return absl::ResourceExhaustedError("disk full");
    const RecordHeaderBytes header = EncodeRecordHeader(kind, body);
    bytes_.append(header.data(), header.size());
    bytes_.append(body.data(), body.size());
    bytes_.resize(Padded(bytes_.size()));
    ends_.push_back(bytes_.size());
    return absl::OkStatus();
  }
  const std::string& bytes() const { return bytes_; }
  const std::vector<size_t>& ends() const { return ends_; }
  void set_full(bool full) { full_ = full; }

 private:
  std::string bytes_;
  std::vector<size_t> ends_;  // Where each record ends.
  bool full_ = false;
};

}  // namespace rubato

#endif  // RUBATO_PARAMS_STRING_SINK_H_
