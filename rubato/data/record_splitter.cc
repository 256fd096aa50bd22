#include "rubato/data/record_splitter.h"

#include <algorithm>
#include <cstring>

namespace rubato {
namespace {

constexpr size_t kNone = absl::string_view::npos;

size_t Find(absl::string_view text, char c, size_t from = 0) {
  const void* found = std::memchr(text.data() + from, c, text.size() - from);
  return found == nullptr ? kNone
                          : static_cast<size_t>(static_cast<const char*>(found) - text.data());
}

// The record whose line break is at `end`, or that is all of `text` if `end` is kNone.
SplitRecord Cut(absl::string_view text, size_t end) {
  absl::string_view bytes = text.substr(0, end);
  if (!bytes.empty() && bytes.back() == '\r') bytes.remove_suffix(1);
  return {.bytes = bytes, .size = end == kNone ? text.size() : end + 1};
}

struct QuotedEnd {
  size_t end = kNone;       // Of the line break outside quotes.
  bool open_quote = false;  // The text ended within quotes.
};

// Whether something other than blanks stands between a closing quote and the end of its field.
bool ClosesWithin(absl::string_view text, size_t after, char delimiter) {
  while (after < text.size() && (IsBlank(text[after], delimiter) || text[after] == '\r')) ++after;
  return after < text.size() && text[after] != delimiter && text[after] != '\n';
}

// Quotes count only at the start of a field, behind blanks at most; inside, two of them stand for
// one. One that would close in another line, and there within a field, closes nothing: both are
// stray, as where nobody quotes, and the record ends with its line, lest all between them be one
// cell. `line_end` is the first line break.
QuotedEnd FindQuotedEnd(absl::string_view text, char delimiter, size_t line_end) {
  for (size_t i = 0; i < text.size(); ++i) {  // A field each.
    while (i < text.size() && IsBlank(text[i], delimiter)) ++i;
    if (i < text.size() && text[i] == '"') {
      const size_t open = i;
      do {
        i = i + 1 < text.size() ? Find(text, '"', i + 1) : kNone;
        if (i == kNone) return {.open_quote = true};
        ++i;
      } while (i < text.size() && text[i] == '"');
      // Now behind the closing quote.
      if (i - 1 > line_end && ClosesWithin(text, i, delimiter)) {
        const size_t end = Find(text, '\n', open);
        if (end < i) return {.end = end};
      }
    }
    while (i < text.size() && text[i] != delimiter && text[i] != '\n') ++i;
    if (i < text.size() && text[i] == '\n') return {.end = i};
  }
  return {};
}

char DelimiterOf(RecordRule rule) {
  switch (rule) {
    case RecordRule::kLines:
    case RecordRule::kQuoted:
      return ',';
    case RecordRule::kQuotedTabs:
      return '\t';
    case RecordRule::kQuotedSemicolons:
      return ';';
    case RecordRule::kQuotedBars:
      return '|';
  }
  return ',';
}

}  // namespace

std::optional<SplitRecord> FirstRecord(absl::string_view text, bool at_end, RecordRule rule) {
  if (text.empty()) return std::nullopt;
  const size_t line_end = Find(text, '\n');
  const bool is_plain = rule == RecordRule::kLines || Find(text.substr(0, line_end), '"') == kNone;
  if (is_plain) {
    if (line_end == kNone && !at_end) return std::nullopt;
    return Cut(text, line_end);
  }
  const QuotedEnd quoted = FindQuotedEnd(text, DelimiterOf(rule), line_end);
  if (quoted.end == kNone && !at_end) return std::nullopt;
  SplitRecord record = Cut(text, quoted.end);
  record.open_quote = quoted.open_quote;
  record.lines = 1 + std::count(record.bytes.begin(), record.bytes.end(), '\n');
  return record;
}

}  // namespace rubato
