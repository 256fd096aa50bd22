// Gather and update of rows in memory: our table against a flat array that knows every row's place
// (the limit; "far" asks for rows into the second cache, as the table does) and absl::flat_hash_map
// (what people use). With two threads each has a table of half the rows, as a server's threads do.
// And what a row costs, and the slowest push while growing.
//
//   params_table_bench [--rows 1e7] [--dim 16] [--rounds 5] [--batches 300] [--grow 2e7]
//                      [--threads 1|2] [--adam 0|1]
//                      [--memory 1 (prepared by another thread, as a server does) | 2 (not) |
//                                3 (touched beforehand)]
#include <sys/resource.h>

#include <cstdio>
#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <thread>

#include "absl/container/flat_hash_map.h"
#include "bench/params/measure.h"
#include "rubato/base/mutex.h"
#include "rubato/base/status.h"
#include "rubato/params/embedding_table.h"

namespace rubato::bench {
namespace {

constexpr size_t kBatch = 13312;  // 512 records of 26 fields.

struct Keys {
  std::vector<uint64_t> ids;
  std::vector<uint32_t> places;  // Where the flat array keeps each.
};

uint64_t IdOfRank(uint64_t rank) { return Mix(rank, 99); }

Keys Draw(uint64_t rows, size_t batches, bool zipf, uint64_t seed) {
  Rng rng(Mix(seed, zipf));
  Keys keys;
  for (size_t i = 0; i < kBatch * batches; ++i) {
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
      : dim_(dim), floats_(dim + optimizer.row_state_floats(dim)), optimizer_(optimizer) {
    auto region = Region::Reserve(memory, rows * floats_ * sizeof(float));
    RUBATO_CHECK(region.ok());
    region_ = *std::move(region);
    std::memset(region_.data(), 0, region_.size());
  }
  template <int kCache = 3>  // Where rows are asked to: the nearest cache, or (1) the second.
  void Gather(absl::Span<const uint32_t> places, float* out) const {
    for (size_t i = 0; i < places.size(); ++i) {
      if (i + 32 < places.size()) Fetch<kCache>(Row(places[i + 32]), dim_);
      std::memcpy(out + i * dim_, Row(places[i]), dim_ * sizeof(float));
    }
  }
  void Update(absl::Span<const uint32_t> places, const float* gradients) {
    RowUpdate updates[8];
    for (size_t i = 0; i < places.size(); ++i) {
      if (i + 32 < places.size()) Fetch<3>(Row(places[i + 32]), floats_);
      updates[i % 8] = {Row(places[i]), gradients + i * dim_};
      if (i % 8 == 7) optimizer_.UpdateRows(updates, RowPart::Whole(dim_), now_);
    }
  }
  // By the loop that our table has, too: what is left of it is the price of looking up.
  void UpdateFar(absl::Span<const uint32_t> places, const float* gradients) {
    optimizer_.UpdateNumbered({.weights = Row(0),
                               .state = Row(0) + dim_,
                               .stride = floats_ * sizeof(float),
                               .row_bytes = floats_ * sizeof(float),
                               .numbers = places.data(),
                               .numbers_count = places.size(),
                               .gradients = gradients},
                              RowPart::Whole(dim_), now_);
  }

 private:
  float* Row(uint32_t place) const {
    return reinterpret_cast<float*>(region_.data()) + place * floats_;
  }
  template <int kCache>
  static void Fetch(const float* row, size_t floats) {
    for (size_t i = 0; i < floats; i += 16) __builtin_prefetch(row + i, 0, kCache);
  }
  size_t dim_, floats_;
  const Optimizer& optimizer_;
  const OptimizerConstants now_ = optimizer_.At({.number = 1, .learning_rate = 0.01});
  Region region_;
};

// Where each id's row is, by absl::flat_hash_map; the rows are a flat array's.
class Hashed {
 public:
  explicit Hashed(uint64_t rows) {
    map_.reserve(rows);
    for (uint64_t rank = 0; rank < rows; ++rank) {
      map_[IdOfRank(rank)] = static_cast<uint32_t>(rank);
    }
  }
  absl::Span<const uint32_t> Resolve(absl::Span<const uint64_t> ids) {
    places_.resize(ids.size());
    for (size_t i = 0; i < ids.size(); ++i) places_[i] = map_.find(ids[i])->second;
    return places_;
  }

 private:
  absl::flat_hash_map<uint64_t, uint32_t> map_;
  std::vector<uint32_t> places_;
};

std::unique_ptr<EmbeddingTable> MakeTable(Memory& memory, size_t dim, const OptimizerSpec& spec,
                                          uint64_t rows) {
  EmbeddingTableOptions options;
  options.spec.name = "deep";
  options.spec.dim = static_cast<int64_t>(dim);
  options.optimizer = spec;
  options.rows_max = 2 * rows + 100000;
  return *EmbeddingTable::Make(memory, options);
}

// Makes memory real on a thread apart, as a server does.
class Zeros {
 public:
  ~Zeros() {
    {
      MutexLock lock(mu_);
      done_ = true;
      changed_.NotifyOne();
    }
    thread_.join();
  }
  void Post(absl::Span<const MemoryRange> ranges) {
    MutexLock lock(mu_);
    ranges_.insert(ranges_.end(), ranges.begin(), ranges.end());
    changed_.NotifyOne();
  }

 private:
  void Run() {
    for (;;) {
      MemoryRange range;
      {
        MutexLock lock(mu_);
        while (ranges_.empty() && !done_) changed_.Wait(mu_);
        if (done_) return;
        range = ranges_.front();
        ranges_.pop_front();
      }
      Populate(range);
    }
  }
  Mutex mu_;
  CondVar changed_;
  std::deque<MemoryRange> ranges_ ABSL_GUARDED_BY(mu_);
  bool done_ ABSL_GUARDED_BY(mu_) = false;
  std::thread thread_{[this] { Run(); }};
};

struct Growth {
  double cpu = 0, wall = 0;  // Of the slowest push, in seconds.
  int slow = 0;              // Pushes that took more than 5 ms of CPU time,
  int slow_by_faults = 0;    // and those of them that met a page that was not there yet.

  void Add(double push_cpu, double push_wall, bool faults) {
    cpu = std::max(cpu, push_cpu);
    wall = std::max(wall, push_wall);
    if (push_cpu <= 5e-3) return;
    ++slow;
    slow_by_faults += faults;
  }
};

int64_t PageFaults() {
  rusage used;
  RUBATO_CHECK(getrusage(RUSAGE_THREAD, &used) == 0);
  return used.ru_minflt;
}

// Makes rows `from` to `to`, `batch` with each push.
void Grow(EmbeddingTable& table, uint64_t from, uint64_t to, size_t batch, Zeros* zeros,
          Growth* growth) {
  std::vector<MemoryRange> ahead;
  const std::vector<float> gradients(batch * table.dim(), 0.01f);
  std::vector<uint64_t> ids;
  for (uint64_t rank = from; rank < to;) {
    ids.clear();
    for (; ids.size() < batch && rank < to; ++rank) ids.push_back(IdOfRank(rank));
    const int64_t faults = PageFaults();
    const double cpu = ThreadCpu(), wall = Wall();
    RUBATO_CHECK_OK(table.Update(ids, gradients.data()));
    if (zeros != nullptr) {
      table.TakeAhead(&ahead);
      if (!ahead.empty()) zeros->Post(ahead);
      ahead.clear();
    }
    growth->Add(ThreadCpu() - cpu, Wall() - wall, PageFaults() > faults);
  }
}

struct Setting {
  std::string optimizer;
  uint64_t rows = 0;
  size_t dim = 0;
  int rounds = 0;
  size_t batches = 0;  // Few would stay in the last cache.
  size_t threads = 0;
  bool zipf = false;
};

// One thread's world: million rows a second of its own time, by kind of work.
std::map<std::string, double> Measure(const OptimizerSpec& spec, const Setting& setting,
                                      uint64_t seed) {
  const uint64_t rows = setting.rows / setting.threads;
  const size_t dim = setting.dim, batches = setting.batches;
  SystemMemory memory;
  const auto optimizer = Optimizer::Make(spec);
  RUBATO_CHECK_OK(optimizer.status());
  const auto table = MakeTable(memory, dim, spec, rows);
  Growth unused;
  Grow(*table, 0, rows, kBatch, nullptr, &unused);
  Flat flat(memory, rows, dim, *optimizer);
  Hashed hashed(rows);
  std::vector<float> out(kBatch * dim), gradients(kBatch * dim, 0.01f);
  const Keys keys = Draw(rows, batches, setting.zipf, seed);
  const auto ids = [&](size_t b) {
    return absl::MakeConstSpan(keys.ids).subspan(b * kBatch, kBatch);
  };
  const auto places = [&](size_t b) {
    return absl::MakeConstSpan(keys.places).subspan(b * kBatch, kBatch);
  };
  const std::map<std::string, std::function<void(size_t)>> work = {
      {"gather_flat", [&](size_t b) { flat.Gather(places(b), out.data()); }},
      {"gather_flat_far", [&](size_t b) { flat.Gather<1>(places(b), out.data()); }},
      {"gather_rubato", [&](size_t b) { table->Gather(ids(b), out.data()); }},
      {"gather_absl", [&](size_t b) { flat.Gather(hashed.Resolve(ids(b)), out.data()); }},
      {"update_flat", [&](size_t b) { flat.Update(places(b), gradients.data()); }},
      {"update_flat_far", [&](size_t b) { flat.UpdateFar(places(b), gradients.data()); }},
      {"update_rubato",
       [&](size_t b) { RUBATO_CHECK_OK(table->Update(ids(b), gradients.data())); }},
      {"update_absl", [&](size_t b) { flat.Update(hashed.Resolve(ids(b)), gradients.data()); }}};
  std::map<std::string, std::vector<double>> seconds;
  for (int round = 0; round < setting.rounds; ++round) {
    for (const auto& [name, run] : work) {
      const double began = ThreadCpu();
      for (size_t b = 0; b < batches; ++b) run(b);
      seconds[name].push_back(ThreadCpu() - began);
    }
  }
  std::map<std::string, double> rates;
  for (const auto& [name, times] : seconds) {
    rates[name] = static_cast<double>(kBatch * batches) / Median(times) / 1e6;
  }
  return rates;
}

Json Report(const Setting& setting) {
  OptimizerSpec spec;
  spec.name = setting.optimizer;
  std::vector<std::map<std::string, double>> rates(setting.threads);
  std::vector<std::thread> threads;
  for (size_t t = 0; t < setting.threads; ++t) {
    threads.emplace_back([&, t] { rates[t] = Measure(spec, setting, t); });
  }
  for (std::thread& thread : threads) thread.join();
  std::map<std::string, double> all;
  for (const auto& part : rates) {
    for (const auto& [name, rate] : part) all[name] += rate;
  }
  Json json;
  for (const auto& [name, rate] : all) json.Number(name + "_mrows_s", rate);
  json.Number("gather_of_limit", all["gather_rubato"] / all["gather_flat"]);
  json.Number("update_of_limit", all["update_rubato"] / all["update_flat"]);
  json.Number("gather_of_far_limit", all["gather_rubato"] / all["gather_flat_far"]);
  json.Number("update_of_far_limit", all["update_rubato"] / all["update_flat_far"]);
  json.Number("gather_over_absl", all["gather_rubato"] / all["gather_absl"]);
  json.Number("update_over_absl", all["update_rubato"] / all["update_absl"]);
  return json;
}

// Memory that is all there from the start: what is left of a slow push is the table's doing.
class TouchedMemory : public SystemMemory {
 public:
  absl::StatusOr<char*> Reserve(size_t bytes) override {
    absl::StatusOr<char*> begin = SystemMemory::Reserve(bytes);
    if (begin.ok()) Populate({*begin, bytes});
    return begin;
  }
};

// dim 8 with Adagrad: 64 bytes of payload. Bytes are averaged over the growth, since they depend on
// where in a stretch the index is.
Json ReportGrowth(Memory& memory, uint64_t rows, bool prepare) {
  constexpr size_t kPush = 1000;
  OptimizerSpec spec;
  spec.name = "adagrad";
  const auto table = MakeTable(memory, 8, spec, rows);
  const uint64_t start = std::min<uint64_t>(1'000'000, rows / 2);
  std::optional<Zeros> zeros;
  if (prepare) zeros.emplace();
  Zeros* const beside = prepare ? &*zeros : nullptr;
  Growth beginning, growth;
  Grow(*table, 0, start, kPush, beside, &beginning);
  double bytes = 0, most = 0;
  constexpr int kParts = 100;
  for (int part = 0; part < kParts; ++part) {
    const uint64_t from = start + (rows - start) * static_cast<uint64_t>(part) / kParts;
    const uint64_t to = start + (rows - start) * static_cast<uint64_t>(part + 1) / kParts;
    Grow(*table, from, to, kPush, beside, &growth);
    const double now = static_cast<double>(table->bytes()) / static_cast<double>(table->rows());
    bytes += now / kParts;
    most = std::max(most, now);
  }
  Json json;
  json.Number("rows", static_cast<double>(rows)).Number("keys_a_push", kPush);
  json.Number("slowest_push_cpu_ms", growth.cpu * 1e3);
  json.Number("slowest_push_wall_ms", growth.wall * 1e3);
  json.Number("pushes_over_5_ms_cpu", growth.slow);
  json.Number("of_them_with_page_faults", growth.slow_by_faults);
  json.Number("bytes_per_row_mean", bytes).Number("bytes_per_row_most", most);
  json.Number("of_payload_mean", bytes / 64).Number("of_payload_most", most / 64);
  return json;
}

int Main(int argc, char** argv) {
  CheckFlags(argc, argv, {"rows", "dim", "rounds", "batches", "grow", "threads", "adam", "memory"});
  Setting setting = {.rows = static_cast<uint64_t>(Flag(argc, argv, "rows", 10e6)),
                     .dim = static_cast<size_t>(Flag(argc, argv, "dim", 16)),
                     .rounds = static_cast<int>(Flag(argc, argv, "rounds", 5)),
                     .batches = static_cast<size_t>(Flag(argc, argv, "batches", 300))};
  const auto grow = static_cast<uint64_t>(Flag(argc, argv, "grow", 20e6));
  const auto only_threads = static_cast<size_t>(Flag(argc, argv, "threads", 0));
  const double adam = Flag(argc, argv, "adam", 1);
  Json report;
  report.Number("rows", static_cast<double>(setting.rows));
  report.Number("dim", static_cast<double>(setting.dim));
  if (grow > 0) {
    SystemMemory system;
    const double memory = Flag(argc, argv, "memory", 0);
    Json growth;
    if (memory == 0 || memory == 1) growth.Object("prepared", ReportGrowth(system, grow, true));
    if (memory == 0 || memory == 2) growth.Object("as_it_is", ReportGrowth(system, grow, false));
    if (memory == 0 || memory == 3) {
      TouchedMemory touched;
      growth.Object("touched_before", ReportGrowth(touched, grow, false));
    }
    report.Object("growth", growth);
  }
  for (const char* optimizer : {"adagrad", "adam"}) {
    for (const size_t threads : {1, 2}) {
      for (const bool zipf : {false, true}) {
        if (setting.rows == 0 || (only_threads != 0 && threads != only_threads)) continue;
        if (adam == 0 && optimizer == std::string("adam")) continue;
        setting.optimizer = optimizer;
        setting.threads = threads;
        setting.zipf = zipf;
        report.Object(absl::StrCat(optimizer, "_", threads, zipf ? "_zipf" : "_uniform"),
                      Report(setting));
      }
    }
  }
  std::printf("%s\n", report.Text().c_str());
  return 0;
}

}  // namespace
}  // namespace rubato::bench

int main(int argc, char** argv) { return rubato::bench::Main(argc, argv); }
