#include "rubato/data/sniff.h"

#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "rubato/data/criteo_parser.h"
#include "rubato/data/delimited_parser.h"
#include "rubato/data/record_blocks.h"
#include "rubato/data/record_splitter.h"

namespace rubato {
namespace {

using Lines = std::vector<absl::string_view>;

Lines RecordsOf(absl::string_view text, RecordRule rule) {
  Lines lines;
  while (const std::optional<SplitRecord> record = FirstRecord(text, /*at_end=*/true, rule)) {
    if (!record->bytes.empty()) lines.push_back(record->bytes);
    text.remove_prefix(record->size);
  }
  return lines;
}

// libfm, libsvm or libffm, by the number of colons in a word; "" if the lines are none of these.
std::string EntriesFormat(const Lines& lines) {
  size_t entries = 0;
  std::ptrdiff_t colons = 0;
  bool is_even = true;
  for (size_t i = 0; i < lines.size(); ++i) {
    const std::vector<absl::string_view> words =
        absl::StrSplit(lines[i], absl::ByAnyChar(" \t"), absl::SkipEmpty());
    double label = 0;
    if (words.size() < 2 || !absl::SimpleAtod(words[0], &label)) return "";
    for (size_t w = 1; w < words.size(); ++w) {
      const auto found = std::count(words[w].begin(), words[w].end(), ':');
      if (found != 1 && found != 2) return "";
      if (colons != 0 && found != colons) return "";
      colons = found;
    }
    is_even = is_even && (i == 0 || words.size() == entries);
    entries = words.size();
  }
  if (colons == 2) return "libffm";
  return is_even ? "libfm" : "libsvm";
}

bool IsCriteo(const Lines& lines) {
  const CriteoParser parser;
  Batch batch;
  const auto parses = [&](absl::string_view line) { return parser.Parse(line, &batch).ok(); };
  return std::all_of(lines.begin(), lines.end(), parses);
}

bool IsNumber(absl::string_view cell) {
  double number = 0;
  return absl::SimpleAtod(cell, &number);
}

bool SeemsMissing(absl::string_view cell) {
  return cell.empty() || cell == "?" || absl::EqualsIgnoreCase(cell, "na") ||
         absl::EqualsIgnoreCase(cell, "n/a") || absl::EqualsIgnoreCase(cell, "null") ||
         absl::EqualsIgnoreCase(cell, "none") || cell == "\\N";
}

// Whether the first line has a name where all cells below are numbers: it can only be a header
// then, whatever its other cells are.
bool HasNameAboveNumbers(const Lines& lines, char delimiter) {
  const std::vector<std::string> first = SplitFields(lines[0], delimiter);
  std::vector<bool> may_be(first.size()), has_number(first.size());
  for (size_t i = 0; i < first.size(); ++i) {
    may_be[i] = !SeemsMissing(first[i]) && !IsNumber(first[i]);
  }
  for (size_t line = 1; line < lines.size(); ++line) {
    const std::vector<std::string> cells = SplitFields(lines[line], delimiter);
    for (size_t i = 0; i < std::min(cells.size(), first.size()); ++i) {
      if (IsNumber(cells[i])) {
        has_number[i] = true;
      } else if (!SeemsMissing(cells[i])) {
        may_be[i] = false;
      }
    }
  }
  for (size_t i = 0; i < first.size(); ++i) {
    if (may_be[i] && has_number[i]) return true;
  }
  return false;
}

// A name stands above numbers; or every cell of the first line is a name, and some cell below is a
// number, or is not above.
bool HasHeaderLine(const Lines& lines, char delimiter) {
  if (HasNameAboveNumbers(lines, delimiter)) return true;
  const std::vector<std::string> first = SplitFields(lines[0], delimiter);
  for (size_t i = 0; i < first.size(); ++i) {
    const bool is_twice = std::find(first.begin() + i + 1, first.end(), first[i]) != first.end();
    if (first[i].empty() || IsNumber(first[i]) || is_twice) return false;
  }
  for (size_t line = 1; line < lines.size(); ++line) {
    for (const std::string& cell : SplitFields(lines[line], delimiter)) {
      if (IsNumber(cell)) return true;
      // Text everywhere: a name does not come back as a value.
      if (std::find(first.begin(), first.end(), cell) != first.end()) return false;
    }
  }
  return true;
}

// How many cells every line has, or 0 if they do not agree.
size_t Columns(const Lines& lines, char delimiter) {
  const size_t columns = SplitFields(lines[0], delimiter).size();
  // The last line may have been cut by whoever read the beginning.
  for (size_t i = 0; i + 1 < lines.size(); ++i) {
    if (SplitFields(lines[i], delimiter).size() != columns) return 0;
  }
  return columns;
}

// For lines that neither tabs nor commas cut: what else does, and how to mend it.
std::string OtherSeparator(const Lines& lines) {
  for (const absl::string_view separator : {"::", ";", "|", " "}) {
    const std::vector<absl::string_view> first = absl::StrSplit(lines[0], separator);
    const auto is_alike = [&](absl::string_view line) {
      const std::vector<absl::string_view> cells = absl::StrSplit(line, separator);
      return cells.size() == first.size();
    };
    // But for the last, which may have been cut.
    if (first.size() < 2 || !std::all_of(lines.begin(), lines.end() - 1, is_alike)) continue;
    return absl::StrCat("; '", separator, "' does: write tabs instead, as by sed 's/",
                        separator == "|" ? "[|]" : separator, "/\\t/g'");
  }
  // Cells with quotes, in which separators and ends of lines may stand; sed would not see them.
  for (const char separator : {';', '|'}) {
    const size_t columns = SplitFields(lines[0], separator).size();
    const auto alike = std::count_if(lines.begin(), lines.end(), [&](absl::string_view line) {
      return SplitFields(line, separator).size() == columns;
    });
    if (columns < 2 || 2 * static_cast<size_t>(alike) < lines.size()) continue;
    return absl::StrCat("; '", std::string(1, separator), "' does: write commas instead, as by ",
                        "python3 -c 'import csv, sys; csv.writer(sys.stdout).writerows(",
                        "csv.reader(sys.stdin, delimiter=\"", std::string(1, separator),
                        "\"))' <IN.csv >OUT.csv");
  }
  return "";
}

// What is wrong with names in a first line that can only be a header; "" if nothing is, or it may
// be no header.
std::string HeaderFault(const Lines& lines, char delimiter) {
  if (!HasNameAboveNumbers(lines, delimiter)) return "";
  const std::vector<std::string> first = SplitFields(lines[0], delimiter);
  for (size_t i = 0; i < first.size(); ++i) {
    if (first[i].empty()) {
      return absl::StrCat("line 1, the header, has no name for column ", i + 1, "; give it one");
    }
    if (std::find(first.begin() + i + 1, first.end(), first[i]) != first.end()) {
      return absl::StrCat("line 1, the header, has the name '", first[i],
                          "' twice; give each column a name of its own");
    }
  }
  return "";
}

}  // namespace

absl::StatusOr<DataSpec> SniffFormat(absl::string_view beginning) {
  DataSpec data;
  absl::ConsumePrefix(&beginning, kByteOrderMark);
  if (IsRecordsFile(beginning)) {
    data.format = "recordio";
    return data;
  }
  data.header = false;
  const Lines lines = RecordsOf(beginning, RecordRule::kLines);
  if (lines.empty()) return absl::InvalidArgumentError("holds no rows");
  if (IsCriteo(lines)) {
    data.format = "criteo";
    data.header = DataSpec().header;
    return data;
  }
  if (const std::string format = EntriesFormat(lines); !format.empty()) {
    data.format = format;
    data.header = DataSpec().header;
    return data;
  }
  const Lines quoted = RecordsOf(beginning, RecordRule::kQuoted);
  const size_t by_tabs = Columns(lines, '\t'), by_commas = Columns(quoted, ',');
  if (std::max(by_tabs, by_commas) < 2) {
    return absl::InvalidArgumentError(
        absl::StrCat("neither tabs nor commas cut its lines into the same number of columns",
                     OtherSeparator(lines)));
  }
  data.format = by_tabs >= by_commas ? "tsv" : "csv";
  const Lines& records = by_tabs >= by_commas ? lines : quoted;
  const char delimiter = by_tabs >= by_commas ? '\t' : ',';
  if (const std::string fault = HeaderFault(records, delimiter); !fault.empty()) {
    return absl::InvalidArgumentError(fault);
  }
  data.header = HasHeaderLine(records, delimiter);
  return data;
}

}  // namespace rubato
