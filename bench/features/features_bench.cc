// Rows a second of one core through a pipeline, against the parser that knows Criteo by heart.
#include <benchmark/benchmark.h>

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "rubato/base/rng.h"
#include "rubato/base/status.h"
#include "rubato/data/cell_reader.h"
#include "rubato/data/criteo_generator.h"
#include "rubato/data/criteo_parser.h"
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

void ParseAll(benchmark::State& state, const RecordParser& parser) {
  const std::unique_ptr<RecordParser::Block> block = parser.NewBlock();
  Batch batch;
  for (auto _ : state) {
    for (const std::string& row : Rows()) RUBATO_CHECK_OK(block->Add(row));
    block->Finish(&batch);
    benchmark::DoNotOptimize(batch.ids.data());
  }
  state.SetItemsProcessed(state.iterations() * kRows);
}

void PlainParse(benchmark::State& state) { ParseAll(state, CriteoParser()); }
BENCHMARK(PlainParse);

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

void Statistics(benchmark::State& state) {
  for (auto _ : state) benchmark::DoNotOptimize(AnalyzeRows().rows);
  state.SetItemsProcessed(state.iterations() * kRows);
}
BENCHMARK(Statistics);

}  // namespace
}  // namespace rubato

BENCHMARK_MAIN();
