// Rows a second of one core through a pipeline, against fields that are only cut and read,
// and against the parser that knows Criteo by heart.
#include <benchmark/benchmark.h>

#include <charconv>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "rubato/base/rng.h"
#include "rubato/base/status.h"
#include "rubato/data/cell_reader.h"
#include "rubato/data/criteo_generator.h"
#include "rubato/data/criteo_parser.h"
#include "rubato/data/find_byte.h"
#include "rubato/features/analysis.h"
#include "rubato/features/feature_parser.h"

namespace rubato {
namespace {

constexpr int kRows = 20000;

const std::vector<std::string>& Rows() {
  static const auto& rows = *[] {
    auto* rows = new std::vector<std::string>(kRows);
    const CriteoGenerator generator({});
    Rng rng(1);
    for (std::string& row : *rows) {
      generator.AppendRow(rng, &row);
      row.pop_back();
    }
    return rows;
  }();
  return rows;
}

Analysis AnalyzeRows() {
  const CellReader reader = *CellReader::Make({.format = "criteo"}, "");
  Analysis analysis = {.format = "criteo", .columns = reader.columns()};
  analysis.stats.resize(analysis.columns.size());
  Cells cells;
  for (const std::string& row : Rows()) {
    RUBATO_CHECK_OK(reader.Read(row, &cells));
    analysis.Add(cells.views);
  }
  return analysis;
}

void ParseAll(benchmark::State& state, const RecordParser& parser,
              const std::vector<std::string>& rows = Rows()) {
  const std::unique_ptr<RecordParser::Block> block = parser.NewBlock();
  Batch batch;
  for (auto _ : state) {
    for (const std::string& row : rows) RUBATO_CHECK_OK(block->Add(row));
    block->Finish(&batch);
    benchmark::DoNotOptimize(batch.ids.data());
  }
  state.SetItemsProcessed(state.iterations() * kRows);
}

// The least that any pipeline must do: cut a row into its 40 fields, and read those that are
// numbers.
void PlainParse(benchmark::State& state) {
  for (auto _ : state) {
    int64_t sum = 0;
    size_t bytes = 0;
    for (const absl::string_view row : Rows()) {
      int column = 0;
      for (size_t at = 0; at <= row.size(); ++column) {
        const size_t end = static_cast<size_t>(
            FindByte(row.data() + at, row.data() + row.size(), '\t') - row.data());
        const absl::string_view field = row.substr(at, end - at);
        int number = 0;
        if (column <= kCriteoIntegers &&
            std::from_chars(field.data(), field.data() + field.size(), number).ec == std::errc()) {
          sum += number;
        }
        bytes += field.size();
        at = end + 1;
      }
    }
    benchmark::DoNotOptimize(sum);
    benchmark::DoNotOptimize(bytes);
  }
  state.SetItemsProcessed(state.iterations() * kRows);
}
BENCHMARK(PlainParse);

// As a job without features reads Criteo: logarithms, bins and hashes as well.
void BuiltInParse(benchmark::State& state) { ParseAll(state, CriteoParser()); }
BENCHMARK(BuiltInParse);

void ParseFeatures(benchmark::State& state, const FeaturesSpec& spec) {
  const auto parser = FeatureParser::Create({.format = "criteo"}, "", spec);
  RUBATO_CHECK_OK(parser.status());
  ParseAll(state, **parser);
}

// The very columns of the built-in parser.
void SameFeatures(benchmark::State& state) {
  FeaturesSpec spec;
  const auto add = [&](const char* transform, const char* letter, int columns) {
    for (int i = 1; i <= columns; ++i) {
      const std::string column = absl::StrCat(letter, i);
      spec.features.push_back({.name = column, .transform = transform, .columns = {column}});
    }
  };
  add("log", "I", kCriteoIntegers);
  add("criteo", "I", kCriteoIntegers);
  add("hash", "C", kCriteoTexts);
  ParseFeatures(state, spec);
}
BENCHMARK(SameFeatures);

// As `rubato analyze` proposes: vocabularies instead of plain hashes.
void ProposedFeatures(benchmark::State& state) {
  const absl::StatusOr<FeaturesSpec> spec = ProposeFeatures(AnalyzeRows(), "label");
  RUBATO_CHECK_OK(spec.status());
  ParseFeatures(state, *spec);
}
BENCHMARK(ProposedFeatures);

// A number, two words of a thousand, three of them in one cell, and a time.
const std::vector<std::string>& MixedRows() {
  static const auto& rows = *[] {
    auto* rows = new std::vector<std::string>(kRows);
    Rng rng(2);
    const auto word = [&] { return absl::StrCat("word", rng.Below(1000)); };
    for (std::string& row : *rows) {
      row = absl::StrCat(rng.Below(2), ",", rng.Below(100), ".25,", word(), ",", word(), ",",
                         word(), "|", word(), "|", word(), ",2026-11-18 0", rng.Below(10), ":09");
    }
    return rows;
  }();
  return rows;
}

// The number, and what is made of the other columns by one kind of feature.
void OneKind(benchmark::State& state, const std::string& kind) {
  FeaturesSpec spec;
  spec.label = "y";
  spec.features.push_back({.name = "n", .transform = "number", .columns = {"n"}});
  const auto add = [&](FeatureSpec feature) { spec.features.push_back(std::move(feature)); };
  const bool is_many = kind == "cross" || kind == "concatenate";
  for (const std::string column : {"a", "b"}) {
    if (kind == "lookup" || kind == "concatenate") {
      add({.name = column, .transform = "lookup", .columns = {column}});
      for (int i = 0; i < 1000; ++i)
        spec.features.back().vocabulary.push_back(absl::StrCat("word", i));
    } else if (kind == "hash" || is_many) {
      add({.name = column, .transform = "hash", .columns = {column}, .buckets = 10000});
    }
  }
  if (is_many) add({.name = "ab", .transform = kind, .columns = {"a", "b"}});
  if (kind == "cross") spec.features.back().buckets = 100000;
  if (kind == "bag") {
    add({.name = "l", .transform = "hash", .columns = {"l"}, .buckets = 10000, .separator = "|"});
  }
  if (kind == "time") {
    add({.name = "t", .transform = "time_part", .columns = {"t"}, .read = "time", .part = "hour"});
  }
  const auto parser = FeatureParser::Create({.format = "csv"}, "y,n,a,b,l,t", spec);
  RUBATO_CHECK_OK(parser.status());
  ParseAll(state, **parser, MixedRows());
}
BENCHMARK_CAPTURE(OneKind, none, "none");
BENCHMARK_CAPTURE(OneKind, hash, "hash");
BENCHMARK_CAPTURE(OneKind, lookup, "lookup");
BENCHMARK_CAPTURE(OneKind, cross, "cross");
BENCHMARK_CAPTURE(OneKind, concatenate, "concatenate");
BENCHMARK_CAPTURE(OneKind, bag, "bag");
BENCHMARK_CAPTURE(OneKind, time, "time");

void Statistics(benchmark::State& state) {
  for (auto _ : state) benchmark::DoNotOptimize(AnalyzeRows().rows);
  state.SetItemsProcessed(state.iterations() * kRows);
}
BENCHMARK(Statistics);

}  // namespace
}  // namespace rubato

BENCHMARK_MAIN();
