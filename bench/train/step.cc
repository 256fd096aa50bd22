// One step on one thread, without servers: what the compute of a worker costs. Prints JSON.
//   step [model=NAME] [model_option=value]... e.g. step dim=16 hidden=256,128; DeepFM unless told
#include <time.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "rubato/adapters/torch_loader/load_trainer.h"
#include "rubato/base/rng.h"
#include "rubato/base/status.h"
#include "rubato/worker/unique.h"

namespace rubato {
namespace {

constexpr int64_t kRows = 512;
constexpr int64_t kDense = 13;
constexpr int64_t kFields = 39;
constexpr int kBatches = 64;
constexpr int kRounds = 5;

double CpuSeconds() {
  timespec now;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

// Ids as in click logs: few fields with many values, many with few, all skewed.
Batch MakeBatch(Rng& rng) {
  Batch batch;
  batch.rows = kRows;
  for (int64_t row = 0; row < kRows; ++row) {
    batch.labels.push_back(rng.Chance(0.25) ? 1.0f : 0.0f);
    for (int64_t i = 0; i < kDense; ++i) batch.dense.push_back(static_cast<float>(rng.Uniform()));
    for (int64_t f = 0; f < kFields; ++f) {
      const double cardinality = std::pow(10.0, 1.0 + static_cast<double>(f % 6));
      const auto value = static_cast<uint64_t>(std::pow(cardinality, rng.Uniform()));
      batch.ids.push_back(static_cast<uint64_t>(f) << 56 | (Mix(value) >> 8));
    }
  }
  return batch;
}

int Run(int argc, char** argv) {
  JobSpec spec;
  spec.model = "deepfm";
  for (int i = 1; i < argc; ++i) {
    const std::pair<std::string, std::string> option = absl::StrSplit(argv[i], '=');
    if (option.first == "model") {
      spec.model = option.second;
    } else {
      spec.model_options.insert(option);
    }
  }
  BatchShape shape;
  for (int64_t i = 0; i < kDense; ++i) shape.dense.push_back(absl::StrCat("i", i));
  for (int64_t i = 0; i < kFields; ++i) shape.ids.push_back(absl::StrCat("c", i));
  auto loaded = LoadTrainer(spec, shape);
  if (!loaded.ok()) {
    std::fprintf(stderr, "%s\n", loaded.status().ToString().c_str());
    return 2;
  }
  Trainer& trainer = **loaded;
  const TableSpec& table = trainer.signature().tables[0];
  const std::vector<float> dense = trainer.InitialDense(7);
  Rng rng(1);
  std::vector<Batch> batches;
  for (int i = 0; i < kBatches; ++i) batches.push_back(MakeBatch(rng));
  std::vector<float> rows(static_cast<size_t>(kRows * kFields * table.dim));
  for (float& value : rows) value = static_cast<float>(rng.Uniform(-0.01, 0.01));

  Unique unique;
  UniqueIds ids;
  StepOutput out;
  double best_unique = 1e9, best_step = 1e9;
  int64_t distinct = 0;
  for (int round = 0; round < kRounds; ++round) {
    double unique_seconds = 0, step_seconds = 0;
    distinct = 0;
    for (const Batch& batch : batches) {
      const double start = CpuSeconds();
      unique.Find(batch, kFields, table.fields, &ids);
      const double found = CpuSeconds();
      const size_t floats = ids.ids.size() * static_cast<size_t>(table.dim);
      const StepInput in{.batch = &batch,
                         .dense = dense,
                         .tables = {{absl::MakeSpan(rows).first(floats), ids.position}},
                         .seed = 1};
      RUBATO_CHECK_OK(trainer.Step(in, &out));
      step_seconds += CpuSeconds() - found;
      unique_seconds += found - start;
      distinct += static_cast<int64_t>(ids.ids.size());
    }
    best_unique = std::min(best_unique, unique_seconds);
    best_step = std::min(best_step, step_seconds);
  }
  std::printf(
      "{\"engine\": \"%s\", \"batch\": %ld, \"distinct_ids\": %.0f, \"step_ms\": %.3f, "
      "\"rows_per_cpu_second\": %.0f, \"unique_ns_per_id\": %.2f, \"loss\": %.6f}\n",
      trainer.engine().c_str(), kRows, static_cast<double>(distinct) / kBatches,
      best_step / kBatches * 1e3, kRows * kBatches / (best_step + best_unique),
      best_unique * 1e9 / (kBatches * kRows * kFields), out.loss);
  return 0;
}

}  // namespace
}  // namespace rubato

int main(int argc, char** argv) { return rubato::Run(argc, argv); }
