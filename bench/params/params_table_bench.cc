// Gather and Adagrad update of rows in memory, one thread: our table against a flat array that
// knows every row's place (the limit) and absl::flat_hash_map (what people use).
#include <cstdio>
#include <cstring>
#include <functional>
#include <map>

#include "absl/container/flat_hash_map.h"
#include "bench/params/measure.h"
#include "rubato/base/status.h"
#include "rubato/params/embedding_table.h"

namespace rubato::bench {
namespace {

constexpr size_t kBatch = 13312;  // 512 records of 26 fields.
constexpr size_t kBatches = 300;  // Few would stay in the last cache.

struct Keys {
  std::vector<uint64_t> ids;
  std::vector<uint32_t> places;  // Where the flat array keeps each.
};

uint64_t IdOfRank(uint64_t rank) { return Mix(rank, 99); }

Keys Draw(uint64_t rows, bool zipf) {
  Rng rng(zipf ? 2 : 1);
  Keys keys;
  for (size_t i = 0; i < kBatch * kBatches; ++i) {
    const uint64_t rank = zipf ? DrawZipf(rng, rows, 1.05) : DrawUniform(rng, rows);
    keys.ids.push_back(IdOfRank(rank));
    keys.places.push_back(static_cast<uint32_t>(rank));
  }
  return keys;
}

// Rows one after the other, found by number.
class Flat {
 public:
  Flat(Memory& memory, uint64_t rows, size_t dim, const Optimizer& optimizer)
      : dim_(dim), floats_(optimizer.row_floats(dim)), optimizer_(optimizer) {
    auto region = Region::Reserve(memory, rows * floats_ * sizeof(float));
    RUBATO_CHECK(region.ok());
    region_ = *std::move(region);
    std::memset(region_.data(), 0, region_.size());
  }
  void Gather(absl::Span<const uint32_t> places, float* out) const {
    for (size_t i = 0; i < places.size(); ++i) {
      if (i + 32 < places.size()) Fetch(Row(places[i + 32]), dim_);
      std::memcpy(out + i * dim_, Row(places[i]), dim_ * sizeof(float));
    }
  }
  void Update(absl::Span<const uint32_t> places, const float* gradients) {
    float* rows[8];
    for (size_t i = 0; i < places.size(); ++i) {
      if (i + 32 < places.size()) Fetch(Row(places[i + 32]), floats_);
      rows[i % 8] = Row(places[i]);
      if (i % 8 == 7) optimizer_.UpdateRows({rows, 8}, gradients + (i - 7) * dim_, dim_, now_);
    }
  }

 private:
  float* Row(uint32_t place) const {
    return reinterpret_cast<float*>(region_.data()) + place * floats_;
  }
  static void Fetch(const float* row, size_t floats) {
    for (size_t i = 0; i < floats; i += 16) __builtin_prefetch(row + i);
  }
  size_t dim_, floats_;
  const Optimizer& optimizer_;
  const OptimizerConstants now_ = optimizer_.At({.number = 1, .learning_rate = 0.01});
  Region region_;
};

// From id to place by absl::flat_hash_map, then as above.
class Absl {
 public:
  Absl(Memory& memory, uint64_t rows, size_t dim, const Optimizer& optimizer)
      : flat_(memory, rows, dim, optimizer) {
    map_.reserve(rows);
    for (uint64_t rank = 0; rank < rows; ++rank) {
      map_[IdOfRank(rank)] = static_cast<uint32_t>(rank);
    }
  }
  void Resolve(absl::Span<const uint64_t> ids) {
    places_.resize(ids.size());
    for (size_t i = 0; i < ids.size(); ++i) places_[i] = map_.find(ids[i])->second;
  }
  void Gather(absl::Span<const uint64_t> ids, float* out) {
    Resolve(ids);
    flat_.Gather(places_, out);
  }
  void Update(absl::Span<const uint64_t> ids, const float* gradients) {
    Resolve(ids);
    flat_.Update(places_, gradients);
  }

 private:
  Flat flat_;
  absl::flat_hash_map<uint64_t, uint32_t> map_;
  std::vector<uint32_t> places_;
};

// Grows the table to `rows` as training would, and watches the slowest batch.
void Grow(EmbeddingTable& table, uint64_t rows, const std::vector<float>& values, double* slowest) {
  std::vector<uint64_t> ids;
  for (uint64_t rank = 0; rank < rows;) {
    ids.clear();
    for (; ids.size() < kBatch && rank < rows; ++rank) ids.push_back(IdOfRank(rank));
    const double began = ThreadCpu();
    RUBATO_CHECK_OK(table.Update(ids, values.data()));
    *slowest = std::max(*slowest, ThreadCpu() - began);
  }
}

int Main(int argc, char** argv) {
  const auto rows = static_cast<uint64_t>(Flag(argc, argv, "rows", 10e6));
  const auto dim = static_cast<size_t>(Flag(argc, argv, "dim", 16));
  const auto rounds = static_cast<int>(Flag(argc, argv, "rounds", 7));
  SystemMemory memory;
  OptimizerSpec spec;
  spec.name = "adagrad";
  const auto optimizer = Optimizer::Make(spec);
  EmbeddingTableOptions options;
  options.spec.name = "deep";
  options.spec.dim = static_cast<int64_t>(dim);
  options.optimizer = spec;
  options.rows_max = 2 * rows;
  auto table = *EmbeddingTable::Make(memory, options);

  double slowest = 0;
  std::vector<float> values(kBatch * dim, 0.01f);
  const double growth_began = ThreadCpu();
  Grow(*table, rows, values, &slowest);
  const double growth = ThreadCpu() - growth_began;
  Flat flat(memory, rows, dim, *optimizer);
  Absl hashed(memory, rows, dim, *optimizer);

  Json report;
  report.Number("rows", static_cast<double>(rows)).Number("dim", static_cast<double>(dim));
  report.Number("bytes_per_row", static_cast<double>(table->bytes()) / static_cast<double>(rows));
  report.Number("payload_bytes", static_cast<double>(optimizer->row_floats(dim) * sizeof(float)));
  report.Number("make_row_ns", growth / static_cast<double>(rows) * 1e9);
  report.Number("slowest_growing_batch_ms", slowest * 1e3);
  std::vector<float> out(kBatch * dim);
  for (const bool zipf : {false, true}) {
    const Keys keys = Draw(rows, zipf);
    const auto id_batch = [&](size_t b) {
      return absl::MakeConstSpan(keys.ids).subspan(b * kBatch, kBatch);
    };
    const auto place_batch = [&](size_t b) {
      return absl::MakeConstSpan(keys.places).subspan(b * kBatch, kBatch);
    };
    const std::map<std::string, std::function<void(size_t)>> work = {
        {"gather_flat", [&](size_t b) { flat.Gather(place_batch(b), out.data()); }},
        {"gather_rubato", [&](size_t b) { table->Gather(id_batch(b), out.data()); }},
        {"gather_absl", [&](size_t b) { hashed.Gather(id_batch(b), out.data()); }},
        {"update_flat", [&](size_t b) { flat.Update(place_batch(b), values.data()); }},
        {"update_rubato",
         [&](size_t b) { RUBATO_CHECK_OK(table->Update(id_batch(b), values.data())); }},
        {"update_absl", [&](size_t b) { hashed.Update(id_batch(b), values.data()); }}};
    std::map<std::string, std::vector<double>> seconds;
    for (int round = 0; round < rounds; ++round) {
      for (const auto& [name, run] : work) {
        const double began = ThreadCpu();
        for (size_t b = 0; b < kBatches; ++b) run(b);
        seconds[name].push_back(ThreadCpu() - began);
      }
    }
    std::map<std::string, double> rate;
    Json part;
    for (const auto& [name, times] : seconds) {
      rate[name] = kBatch * kBatches / Median(times) / 1e6;
      part.Number(name + "_mrows_s", rate[name]);
    }
    part.Number("gather_of_limit", rate["gather_rubato"] / rate["gather_flat"]);
    part.Number("update_of_limit", rate["update_rubato"] / rate["update_flat"]);
    part.Number("gather_over_absl", rate["gather_rubato"] / rate["gather_absl"]);
    part.Number("update_over_absl", rate["update_rubato"] / rate["update_absl"]);
    report.Object(zipf ? "zipf" : "uniform", part);
  }
  std::printf("%s\n", report.Text().c_str());
  return 0;
}

}  // namespace
}  // namespace rubato::bench

int main(int argc, char** argv) { return rubato::bench::Main(argc, argv); }
