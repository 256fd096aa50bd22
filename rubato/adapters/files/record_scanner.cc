#include "rubato/adapters/files/record_scanner.h"

#include <cstring>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "rubato/base/status.h"

namespace rubato {
RecordScanner::RecordScanner(std::string path, std::unique_ptr<ByteStream> stream, RecordMark start,
                             RecordRule rule, size_t chunk_bytes)
    : path_(std::move(path)),
      stream_(std::move(stream)),
      rule_(rule),
      buffer_(chunk_bytes, 0),
      next_(start) {}

absl::StatusOr<bool> RecordScanner::Next() {
  while (true) {
    const absl::string_view rest(buffer_.data() + begin_, end_ - begin_);
    if (next_.offset == 0) {
      if (rest.size() < kByteOrderMark.size() && !at_end_) {
        RUBATO_RETURN_IF_ERROR(Refill());
        continue;
      }
      // Before records are cut: behind it a field may begin with a quote.
      if (absl::StartsWith(rest, kByteOrderMark)) {
        begin_ += kByteOrderMark.size();
        next_.offset += static_cast<int64_t>(kByteOrderMark.size());
        continue;
      }
    }
    const std::optional<SplitRecord> split = FirstRecord(rest, at_end_, rule_);
    if (!split.has_value()) {
      if (at_end_) return false;
      RUBATO_RETURN_IF_ERROR(Refill());
      continue;
    }
    if (split->open_quote) {
      return absl::InvalidArgumentError(absl::StrCat(
          path_, ":", next_.line, ": a quote that opens in this record is never closed"));
    }
    record_ = split->bytes;
    mark_ = next_;
    begin_ += split->size;
    next_.offset += static_cast<int64_t>(split->size);
    next_.line += split->lines;
    if (!record_.empty()) return true;
  }
}

absl::Status RecordScanner::Refill() {
  if (begin_ > 0) {
    std::memmove(buffer_.data(), buffer_.data() + begin_, end_ - begin_);
    end_ -= begin_;
    begin_ = 0;
  }
  if (end_ == buffer_.size()) {
    if (buffer_.size() >= kRecordBytesMax) {
      return absl::InvalidArgumentError(
          absl::StrCat(path_, ":", next_.line, ": a record of more than ", kRecordBytesMax >> 20,
                       " MB", rule_ != RecordRule::kLines ? "; is a quote left open?" : ""));
    }
    buffer_.resize(2 * buffer_.size());
  }
  // To the brim, since a record that is still not whole is looked through from its start again.
  while (end_ < buffer_.size() && !at_end_) {
    RUBATO_ASSIGN_OR_RETURN(const size_t n,
                            stream_->Read(buffer_.data() + end_, buffer_.size() - end_));
    end_ += n;
    at_end_ = n == 0;
  }
  return absl::OkStatus();
}

}  // namespace rubato
