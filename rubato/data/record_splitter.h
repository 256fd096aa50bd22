// Where one record ends and the next begins, over plain memory.
#ifndef RUBATO_DATA_RECORD_SPLITTER_H_
#define RUBATO_DATA_RECORD_SPLITTER_H_

#include <cstddef>
#include <cstdint>
#include <optional>

#include "absl/strings/string_view.h"

namespace rubato {

// Some editors put it at the start of a file of UTF-8; it is no part of the first record.
constexpr absl::string_view kByteOrderMark = "\xef\xbb\xbf";

enum class RecordRule {
  kLines,  // A record ends with its line: criteo, libsvm.
  // As csv: a field in double quotes, and blanks around them, may hold line breaks, if it ends with
  // its quote.
  kQuoted,
  // The same with other delimiters than commas.
  kQuotedTabs,
  kQuotedSemicolons,
  kQuotedBars,
};

// What may stand between a delimiter and a quote without being of a cell; a delimiter never is.
inline bool IsBlank(char c, char delimiter) { return (c == ' ' || c == '\t') && c != delimiter; }

struct SplitRecord {
  absl::string_view bytes;  // Without the line break, "\n" or "\r\n". Empty: a blank line.
  size_t size = 0;          // Of the text it takes up, line break included.
  int64_t lines = 1;        // It takes up; more than one if line breaks are quoted.
  bool open_quote = false;  // The text ends within quotes: something is wrong with this record.
};

// The first record of `text`, or nothing if it may go on after the end. With `at_end` nothing
// follows: a last line needs no line break, and the answer is nothing only if `text` is empty.
std::optional<SplitRecord> FirstRecord(absl::string_view text, bool at_end, RecordRule rule);

}  // namespace rubato

#endif  // RUBATO_DATA_RECORD_SPLITTER_H_
