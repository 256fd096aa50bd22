#include "rubato/data/sniff.h"

#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "rubato/base/status.h"
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

// What lines are as rows of libfm, libsvm or libffm.
struct EntriesGuess {
  std::string format;  // "" if they are none of these.
  std::string fault;   // Of the first line that is none, or not to be read, if most others are.
};

// The words of a line before its comment, if it has one.
std::vector<absl::string_view> WordsOf(absl::string_view line) {
  return absl::StrSplit(line.substr(0, line.find('#')), absl::ByAnyChar(" \t"), absl::SkipEmpty());
}

// How many colons each word has behind the label: 1 or 2. 0 for a label alone, -1 if it is no row.
std::ptrdiff_t ColonsOf(const std::vector<absl::string_view>& words) {
  double label = 0;
  if (words.empty() || !absl::SimpleAtod(words[0], &label)) return -1;
  std::ptrdiff_t colons = 0;
  for (size_t w = 1; w < words.size(); ++w) {
    const auto found = std::count(words[w].begin(), words[w].end(), ':');
    if ((found != 1 && found != 2) || (colons != 0 && found != colons)) return -1;
    colons = found;
  }
  return colons;
}

// By the number of colons in a word. A label without entries is a row too, if most have some.
EntriesGuess GuessEntries(absl::string_view text, const Lines& lines) {
  size_t rows = 0, words_before = 0;
  std::ptrdiff_t colons = 0;
  bool is_even = true, all_are = true;
  EntriesGuess guess;
  const auto blame = [&](size_t i, absl::string_view what) {
    if (!guess.fault.empty()) return;
    const auto line = 1 + std::count(text.data(), lines[i].data(), '\n');
    guess.fault = absl::StrCat("line ", line, what);
  };
  for (size_t i = 0; i < lines.size(); ++i) {
    const std::vector<absl::string_view> words = WordsOf(lines[i]);
    const bool has_comment = lines[i].find('#') != absl::string_view::npos;
    if (has_comment) {
      blame(i, " has a comment, which is not read; cut comments off, as by sed 's/ *#.*//; /^$/d'");
    }
    if (words.empty() && has_comment) continue;
    const std::ptrdiff_t found = ColonsOf(words);
    const bool is_one = found >= 0 && (found == 0 || colons == 0 || found == colons);
    if (!is_one) blame(i, " is no row of libsvm, libfm or libffm, as most others are");
    all_are = all_are && is_one;
    if (is_one && found > 0) ++rows, colons = found;
    if (words.size() > 1 && absl::StartsWith(words[1], "qid:")) {
      blame(i,
            " has a qid, the query of data for ranking, which is not learned here; cut it out, "
            "as by sed 's/ qid:[^ ]*//'");
    }
    is_even = is_even && (words_before == 0 || words.size() == words_before);
    words_before = words.size();
  }
  if (2 * rows <= lines.size()) return {};
  if (all_are) guess.format = colons == 2 ? "libffm" : is_even ? "libfm" : "libsvm";
  return guess;
}

// Whether so few of these are not as the others that they are bad rows of a file, which whoever
// reads it counts.
bool AreFew(size_t others, size_t all) {
  constexpr size_t kMany = 100;  // One row in so many.
  return kMany * others <= all;
}

bool IsCriteo(const Lines& lines) {
  const CriteoParser parser;
  Batch batch;
  size_t others = 0;
  for (const absl::string_view line : lines) {
    if (parser.Parse(line, &batch).ok()) continue;
    // The first may be a header.
    if (line.data() == lines[0].data() || !AreFew(++others, lines.size())) return false;
  }
  return true;
}

// Also dates and amounts, "2026-01-10" and "$12,34": nobody calls a column so.
bool IsNumber(absl::string_view cell) {
  double number = 0;
  const auto is_letter = [](unsigned char c) { return c >= 0x80 || absl::ascii_isalpha(c); };
  return absl::SimpleAtod(cell, &number) ||
         (std::any_of(cell.begin(), cell.end(), absl::ascii_isdigit) &&
          std::none_of(cell.begin(), cell.end(), is_letter));
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

// Whether the first column counts the rows, as the one does that pandas writes without a name.
bool IsIndex(const Lines& lines, char delimiter) {
  for (size_t line = 1; line < lines.size(); ++line) {
    int64_t number = 0;
    const std::vector<std::string> cells = SplitFields(lines[line], delimiter);
    if (cells.size() < 2 || !absl::SimpleAtoi(cells[0], &number)) return false;
  }
  return lines.size() > 1;
}

// Whether the first line can be nothing but a header.
bool IsSurelyHeader(const Lines& lines, char delimiter, const std::string& label) {
  if (HasNameAboveNumbers(lines, delimiter)) return true;
  const std::vector<std::string> first = SplitFields(lines[0], delimiter);
  // By its place a column is called as values may be, too.
  return !label.empty() && !IsNumber(label) &&
         std::find(first.begin(), first.end(), label) != first.end();
}

// Whether every cell of the first line is a name, and some cell below is a number, or none comes
// back in its column.
bool SeemsHeader(const Lines& lines, char delimiter) {
  const std::vector<std::string> first = SplitFields(lines[0], delimiter);
  for (size_t i = 0; i < first.size(); ++i) {
    const bool is_twice = std::find(first.begin() + i + 1, first.end(), first[i]) != first.end();
    if (i == 0 && first[i].empty() && IsIndex(lines, delimiter)) continue;
    if (first[i].empty() || IsNumber(first[i]) || is_twice) return false;
  }
  for (size_t line = 1; line < lines.size(); ++line) {
    const std::vector<std::string> cells = SplitFields(lines[line], delimiter);
    for (size_t i = 0; i < std::min(cells.size(), first.size()); ++i) {
      if (IsNumber(cells[i])) return true;
      if (cells[i] == first[i]) return false;
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

struct Table {
  const char* format;
  char delimiter;
  RecordRule rule;
  const char* cut_at;
  bool is_last_resort;
};
constexpr Table kTables[] = {{"tsv", '\t', RecordRule::kQuotedTabs, "tabs", false},
                             {"csv", ',', RecordRule::kQuoted, "commas", false},
                             {"ssv", ';', RecordRule::kQuotedSemicolons, "semicolons", true},
                             {"psv", '|', RecordRule::kQuotedBars, "bars", true}};

// Whether nothing cuts any line.
bool IsOneColumn(const Lines& lines) {
  return std::none_of(lines.begin(), lines.end(), [](const auto& line) {
    return line.find_first_of("\t,;|: ") != absl::string_view::npos;
  });
}

// Lines of which most, cut at one separator, have the same number of columns.
struct MostlyCut {
  const Table* table = nullptr;
  Lines records;
  std::vector<size_t> columns;  // Of each.
  size_t usual = 0, usual_records = 0;
};

MostlyCut CutAt(const Table& table, absl::string_view text) {
  MostlyCut cut = {.table = &table, .records = RecordsOf(text, table.rule)};
  std::map<size_t, size_t> lines_with;
  for (const absl::string_view record : cut.records) {
    cut.columns.push_back(SplitFields(record, table.delimiter).size());
    ++lines_with[cut.columns.back()];
  }
  if (lines_with.empty()) return cut;
  const auto usual =
      std::max_element(lines_with.begin(), lines_with.end(),
                       [](const auto& a, const auto& b) { return a.second < b.second; });
  cut.usual = usual->first;
  cut.usual_records = usual->second;
  return cut;
}

bool AreMost(const MostlyCut& cut) {
  return cut.usual > 1 && 2 * cut.usual_records > cut.records.size();
}

// By the first separator that does so; nothing if none does.
std::optional<MostlyCut> CutMostly(absl::string_view text) {
  for (const Table& table : kTables) {
    MostlyCut cut = CutAt(table, text);
    if (AreMost(cut)) return cut;
  }
  return std::nullopt;
}

const Table* TableCalled(absl::string_view format) {
  const auto found = std::find_if(std::begin(kTables), std::end(kTables),
                                  [&](const Table& table) { return table.format == format; });
  return found == std::end(kTables) ? nullptr : found;
}

// The first line that is not cut as most others.
std::string Ragged(absl::string_view text, const MostlyCut& cut) {
  for (size_t i = 0; i < cut.records.size(); ++i) {
    if (cut.columns[i] == cut.usual) continue;
    const absl::string_view record = cut.records[i];
    const auto line = 1 + std::count(text.data(), record.data(), '\n');
    const auto more = std::count(record.begin(), record.end(), '\n');
    return absl::StrCat("cut at ", cut.table->cut_at, ", line ", line, " has ", cut.columns[i],
                        " columns, and most others have ", cut.usual,
                        more > 0 ? absl::StrCat("; it goes on over ", more + 1,
                                                " lines: is a quote left open there?")
                                 : "");
  }
  return "";
}

bool HasFewBadRows(const MostlyCut& cut) {
  const size_t others = cut.records.size() - cut.usual_records;
  return cut.columns[0] == cut.usual && AreFew(others, cut.records.size());
}

// For lines that neither tabs nor commas cut: what else does, and how to mend it.
std::string OtherSeparator(const Lines& lines) {
  for (const absl::string_view separator : {"::", " "}) {
    const std::vector<absl::string_view> first = absl::StrSplit(lines[0], separator);
    const auto is_alike = [&](absl::string_view line) {
      const std::vector<absl::string_view> cells = absl::StrSplit(line, separator);
      return cells.size() == first.size();
    };
    // But for the last, which may have been cut.
    if (first.size() < 2 || !std::all_of(lines.begin(), lines.end() - 1, is_alike)) continue;
    return absl::StrCat("; '", separator, "' does: write tabs instead, as by sed 's/", separator,
                        "/\\t/g'");
  }
  return "";
}

// What is wrong with names in a first line that can only be a header; "" if nothing is.
std::string HeaderFault(const Lines& lines, char delimiter) {
  const std::vector<std::string> first = SplitFields(lines[0], delimiter);
  for (size_t i = 0; i < first.size(); ++i) {
    if (i == 0 && first[i].empty() && IsIndex(lines, delimiter)) continue;
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

// The lines that are cut as most.
Lines Usual(const MostlyCut& cut) {
  Lines records;
  for (size_t i = 0; i < cut.records.size(); ++i) {
    if (cut.columns[i] == cut.usual) records.push_back(cut.records[i]);
  }
  return records;
}

absl::StatusOr<DataSpec> WithHeader(const Table& table, const Lines& records,
                                    const std::string& label) {
  const bool is_sure = IsSurelyHeader(records, table.delimiter, label);
  const std::string fault = is_sure ? HeaderFault(records, table.delimiter) : "";
  if (!fault.empty()) return absl::InvalidArgumentError(fault);
  return DataSpec{.format = table.format,
                  .header = is_sure || SeemsHeader(records, table.delimiter)};
}

// A file that is no table of text, by how it begins; "" if it may be one.
std::string OtherFile(absl::string_view beginning) {
  constexpr std::pair<absl::string_view, absl::string_view> kBeginnings[] = {
      {"PAR1", "is Parquet, which is not read; write it as CSV, or load it into a database"},
      {"ORC", "is ORC, which is not read; write it as CSV, or load it into a database"},
      {"Obj\x01", "is Avro, which is not read; write it as CSV, or load it into a database"},
      {"ARROW1", "is Arrow, which is not read; write it as CSV, or load it into a database"},
      {"PK\x03\x04", "is a zip archive or a spreadsheet: unpack it, or save it as CSV"},
      {"BZh", "is bzip2, which is not read; pack it by gzip or zstd, or not at all"},
      {"\xfd"
       "7zXZ",
       "is xz, which is not read; pack it by gzip or zstd, or not at all"},
      {"SQLite format 3", "is a database: name it as sqlite://PATH?table=NAME"}};
  for (const auto& [start, what] : kBeginnings) {
    if (absl::StartsWith(beginning, start)) return std::string(what);
  }
  const absl::string_view text = absl::StripLeadingAsciiWhitespace(beginning);
  const absl::string_view inner =
      absl::StripLeadingAsciiWhitespace(text.substr(std::min<size_t>(1, text.size())));
  const bool is_object = absl::StartsWith(text, "{") && absl::StartsWith(inner, "\"");
  const bool is_list = absl::StartsWith(text, "[") && absl::StartsWith(inner, "{");
  if (!is_object && !is_list) return "";
  return "is JSON, which is not read; write it as CSV, a column for each key, as by jq -r '[.a, "
         ".b] | @csv'";
}

// Where somebody says the format.
absl::StatusOr<DataSpec> SniffAs(absl::string_view beginning, const SniffHints& hints) {
  const Table* table = TableCalled(hints.format);
  if (table == nullptr) return DataSpec{.format = hints.format};
  absl::ConsumePrefix(&beginning, kByteOrderMark);
  RUBATO_RETURN_IF_ERROR(CheckText(beginning));
  const MostlyCut cut = CutAt(*table, beginning);
  if (cut.records.empty()) return absl::InvalidArgumentError("holds no rows");
  if (cut.usual < 2) {
    return absl::InvalidArgumentError(absl::StrCat("is no ", hints.format, ": ", table->cut_at,
                                                   " cut most of its lines nowhere"));
  }
  if (cut.columns[0] != cut.usual) return absl::InvalidArgumentError(Ragged(beginning, cut));
  return WithHeader(*table, Usual(cut), hints.label);
}

}  // namespace

absl::Status CheckText(absl::string_view beginning) {
  if (const std::string other = OtherFile(beginning); !other.empty()) {
    return absl::InvalidArgumentError(other);
  }
  // Of UTF-16 every other byte of western text is 0, with a mark in front or not.
  const absl::string_view start = beginning.substr(0, 1000);
  const auto zeros = std::count(start.begin(), start.end(), '\0');
  if (absl::StartsWith(start, "\xff\xfe") || absl::StartsWith(start, "\xfe\xff") ||
      4 * static_cast<size_t>(zeros) > start.size()) {
    return absl::InvalidArgumentError(
        "is UTF-16, not UTF-8; make it so, as by iconv -f UTF-16 -t UTF-8 <IN >OUT");
  }
  // Within quotes it may be anything.
  const bool has_lines = beginning.find_first_of("\n\"") != absl::string_view::npos;
  const size_t cr = beginning.find('\r');
  if (!has_lines && cr != absl::string_view::npos && cr + 1 < beginning.size()) {
    return absl::InvalidArgumentError(
        "its lines end in CR alone, as of old Macs; make it so that they end in LF, as by "
        "tr '\\r' '\\n' <IN >OUT");
  }
  return absl::OkStatus();
}

absl::StatusOr<DataSpec> SniffFormat(absl::string_view beginning, const SniffHints& hints) {
  if (!hints.format.empty()) return SniffAs(beginning, hints);
  DataSpec data;
  absl::ConsumePrefix(&beginning, kByteOrderMark);
  if (IsRecordsFile(beginning)) {
    data.format = "recordio";
    return data;
  }
  RUBATO_RETURN_IF_ERROR(CheckText(beginning));
  data.header = false;
  const Lines lines = RecordsOf(beginning, RecordRule::kLines);
  if (lines.empty()) return absl::InvalidArgumentError("holds no rows");
  if (IsCriteo(lines)) {
    data.format = "criteo";
    data.header = DataSpec().header;
    return data;
  }
  const EntriesGuess entries = GuessEntries(beginning, lines);
  if (!entries.format.empty()) {
    if (!entries.fault.empty()) return absl::InvalidArgumentError(entries.fault);
    data.format = entries.format;
    data.header = DataSpec().header;
    return data;
  }
  if (const Table* table = TableCalled(hints.named); table != nullptr && hints.named != "csv") {
    const MostlyCut cut = CutAt(*table, beginning);
    const bool is_even = Columns(cut.records, table->delimiter) > 1;
    if (is_even || (AreMost(cut) && HasFewBadRows(cut)))
      return WithHeader(*table, Usual(cut), hints.label);
  }
  size_t columns = 1;
  Lines records;
  const Table* found_table = nullptr;
  for (const Table& table : kTables) {
    // Semicolons and bars stand within cells of other tables, as in "drama|action".
    if (columns > 1 && table.is_last_resort) break;
    Lines cut = RecordsOf(beginning, table.rule);
    const size_t found = Columns(cut, table.delimiter);
    if (found <= columns) continue;
    columns = found;
    records = std::move(cut);
    found_table = &table;
  }
  if (columns < 2 && IsOneColumn(lines)) {
    return absl::InvalidArgumentError(
        absl::StrCat("has one column, as '", lines[0],
                     "'; besides a label at least one to learn from is needed"));
  }
  const std::optional<MostlyCut> mostly = columns < 2 ? CutMostly(beginning) : std::nullopt;
  if (mostly.has_value() && entries.fault.empty() && HasFewBadRows(*mostly)) {
    return WithHeader(*mostly->table, Usual(*mostly), hints.label);
  }
  if (columns < 2) {
    const std::string ragged = !entries.fault.empty() ? entries.fault
                               : mostly.has_value()   ? Ragged(beginning, *mostly)
                                                      : "";
    return absl::InvalidArgumentError(
        !ragged.empty()
            ? ragged
            : absl::StrCat("neither tabs nor commas cut its lines into the same number of columns",
                           OtherSeparator(lines)));
  }
  return WithHeader(*found_table, records, hints.label);
}

}  // namespace rubato
