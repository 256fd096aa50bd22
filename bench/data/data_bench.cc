// How fast records are found, read and parsed, in rows a second of one core, against the least that
// any reader must do: look for the end of every line.
#include <benchmark/benchmark.h>

#include <cstring>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "rubato/adapters/files/file_source.h"
#include "rubato/adapters/files/files.h"
#include "rubato/adapters/files/gzip_writer.h"
#include "rubato/adapters/files/testing.h"
#include "rubato/base/rng.h"
#include "rubato/base/status.h"
#include "rubato/data/criteo_generator.h"
#include "rubato/data/criteo_parser.h"
#include "rubato/data/delimited_parser.h"
#include "rubato/data/record_splitter.h"

namespace rubato {
namespace {

constexpr int64_t kRows = 100000;

// 24 MB of rows, in memory and in files.
struct Rows {
  std::string text;
  TestFolder folder;

  Rows() {
    const CriteoGenerator generator({});
    Rng rng(1);
    for (int64_t i = 0; i < kRows; ++i) generator.AppendRow(rng, &text);
    RUBATO_CHECK_OK(WriteFileAtomically(folder.File("plain"), text, Durability::kProcess));
    RUBATO_CHECK_OK(
        WriteFileAtomically(folder.File("gzip"), GzipBytes(text), Durability::kProcess));
  }
};

Rows& GetRows() {
  static Rows rows;
  return rows;
}

void Count(benchmark::State& state) {
  state.SetItemsProcessed(state.iterations() * kRows);
  state.SetBytesProcessed(state.iterations() * static_cast<int64_t>(GetRows().text.size()));
}

absl::Status NoProgress(int64_t, int64_t) { return absl::OkStatus(); }

void LineScan(benchmark::State& state) {
  const std::string& text = GetRows().text;
  for (auto _ : state) {
    int64_t lines = 0;
    const char* at = text.data();
    const char* const end = at + text.size();
    while (at < end) {
      at = static_cast<const char*>(std::memchr(at, '\n', static_cast<size_t>(end - at))) + 1;
      ++lines;
    }
    benchmark::DoNotOptimize(lines);
  }
  Count(state);
}
BENCHMARK(LineScan);

void CriteoParse(benchmark::State& state) {
  const std::string& text = GetRows().text;
  const CriteoParser parser;
  Batch batch;
  for (auto _ : state) {
    size_t at = 0;
    while (at < text.size()) {
      const size_t end = text.find('\n', at);
      if (batch.rows == 512) batch.Clear();
      RUBATO_CHECK_OK(parser.Parse({text.data() + at, end - at}, &batch));
      at = end + 1;
    }
  }
  Count(state);
}
BENCHMARK(CriteoParse);

// The same rows as csv, cut into records and these into cells; with every text in quotes, or none.
void CsvFields(benchmark::State& state, bool quotes) {
  std::string text;
  for (const absl::string_view row : absl::StrSplit(GetRows().text, '\n', absl::SkipEmpty())) {
    int column = 0;
    for (const absl::string_view cell : absl::StrSplit(row, '\t')) {
      const char* quote = quotes && column > kCriteoIntegers ? "\"" : "";
      absl::StrAppend(&text, column++ > 0 ? "," : "", quote, cell, quote);
    }
    text.push_back('\n');
  }
  for (auto _ : state) {
    absl::string_view rest = text;
    size_t bytes = 0;
    while (const auto record = FirstRecord(rest, /*at_end=*/true, RecordRule::kQuoted)) {
      RUBATO_CHECK(VisitFields(record->bytes, ',', [&](absl::string_view cell) {
        bytes += cell.size();
        return true;
      }));
      rest.remove_prefix(record->size);
    }
    benchmark::DoNotOptimize(bytes);
  }
  Count(state);
}
BENCHMARK_CAPTURE(CsvFields, plain, false);
BENCHMARK_CAPTURE(CsvFields, quoted, true);

void IndexFile(benchmark::State& state, const char* name) {
  const TestFolder& folder = GetRows().folder;
  for (auto _ : state) {
    RUBATO_CHECK_OK(RemoveTree(folder.File("index")));
    RUBATO_CHECK(*BuildIndex({}, {folder.File(name)}, folder.File("index"), NoProgress) == kRows);
  }
  Count(state);
}
BENCHMARK_CAPTURE(IndexFile, plain, "plain");
BENCHMARK_CAPTURE(IndexFile, gzip, "gzip");

// Tasks of 4096 records in random order, as a worker reads them, parsed or not.
void ReadFile(benchmark::State& state, const char* name, bool parse) {
  const TestFolder& folder = GetRows().folder;
  const std::string index = folder.File("index");
  RUBATO_CHECK_OK(BuildIndex({}, {folder.File(name)}, index, NoProgress).status());
  const OpenedData data = *OpenData({}, index);
  std::vector<int64_t> tasks;
  for (int64_t begin = 0; begin < kRows; begin += 4096) tasks.push_back(begin);
  Rng rng(2);
  rng.Shuffle(tasks);
  Batch batch;
  for (auto _ : state) {
    for (const int64_t begin : tasks) {
      RUBATO_CHECK_OK(data.source->Read(begin, std::min(kRows, begin + 4096),
                                        [&](int64_t, absl::string_view record) {
                                          if (!parse) return absl::OkStatus();
                                          if (batch.rows == 512) batch.Clear();
                                          return data.parser->Parse(record, &batch);
                                        }));
    }
  }
  Count(state);
}
BENCHMARK_CAPTURE(ReadFile, plain, "plain", false);
BENCHMARK_CAPTURE(ReadFile, plain_parsed, "plain", true);
BENCHMARK_CAPTURE(ReadFile, gzip_parsed, "gzip", true);

void Generate(benchmark::State& state) {
  const CriteoGenerator generator({});
  Rng rng(3);
  std::string text;
  for (auto _ : state) {
    text.clear();
    for (int64_t i = 0; i < kRows; ++i) generator.AppendRow(rng, &text);
  }
  Count(state);
}
BENCHMARK(Generate);

}  // namespace
}  // namespace rubato

int main(int argc, char** argv) {
  std::vector<char*> arguments(argv, argv + argc);
  std::string json = "--benchmark_format=json";
  arguments.insert(arguments.begin() + 1, json.data());  // Later flags win.
  int count = static_cast<int>(arguments.size());
  benchmark::Initialize(&count, arguments.data());
  benchmark::RunSpecifiedBenchmarks();
}
