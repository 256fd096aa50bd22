// A full checkpoint against a delta after a share of the rows changed: bytes, seconds of CPU and of
// the clock, the longest step (for which a push may have to wait), and the time to restore both.
// Also what marking the rows costs an update.
//
//   params_checkpoint_bench [--rows 2e6] [--dim 16] [--changed 0.01] [--rounds 5]
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <memory>

#include "bench/params/measure.h"
#include "rubato/adapters/posix/params_server_files.h"
#include "rubato/base/status.h"
#include "rubato/params/checkpoint.h"
#include "rubato/params/checkpoint_reader.h"

namespace rubato::bench {
namespace {

constexpr size_t kBatch = 10000;

class Bench {
 public:
  Bench(uint64_t rows, size_t dim) : rows_(rows), dim_(dim) {
    Declaration model;
    model.signature.tables.resize(1);
    model.signature.tables[0].name = "deep";
    model.signature.tables[0].dim = static_cast<int64_t>(dim);
    model.optimizer.name = "adagrad";
    shard_ = Fresh();
    RUBATO_CHECK_OK(shard_->Declare(EncodeDeclaration(model, {}), nullptr));
    Push(rows);
  }

  // Moves the first `count` rows, of which each has its place by chance; seconds of CPU.
  double Push(uint64_t count) {
    double cpu = 0;
    for (uint64_t begin = 0; begin < count; begin += kBatch) {
      std::vector<uint64_t> ids;
      for (uint64_t i = begin; i < std::min(begin + kBatch, count); ++i) ids.push_back(Mix(i, 7));
      const std::vector<float> gradients(ids.size() * dim_, 0.25f);
      PushRequest request{.key = {.begin = pushes_, .end = pushes_ + 1}, .worker = WorkerId(1)};
      ++pushes_;
      request.tables = {{ids, gradients}};
      PushSplit split;
      split.Encode(request, PartitionMap::Even(1));
      const double start = ThreadCpu();
      RUBATO_CHECK(shard_->Push(split.body(0).view(), nullptr).ok());
      cpu += ThreadCpu() - start;
    }
    return cpu;
  }

  struct Cost {
    double bytes = 0, cpu = 0, wall = 0, step_max_ms = 0;
  };
  Cost Write(const std::string& path, const CheckpointName& name) {
    Cost cost;
    auto file = RecordFile::Create(path);
    RUBATO_CHECK(file.ok());
    const double cpu = ThreadCpu(), wall = Wall();
    double step = wall;
    CheckpointWriter writer(*shard_, name);
    while (true) {
      const auto done = writer.Step(**file);
      RUBATO_CHECK(done.ok());
      cost.step_max_ms = std::max(cost.step_max_ms, (Wall() - step) * 1e3);
      step = Wall();
      if (*done) break;
    }
    writer.Published();
    cost.cpu = ThreadCpu() - cpu;
    cost.wall = Wall() - wall;
    cost.bytes = static_cast<double>((*file)->bytes());
    return cost;
  }
  double Restore(const std::vector<std::string>& paths) {
    std::vector<MappedFile> maps;
    std::vector<CheckpointFile> files;
    for (const std::string& path : paths) {
      auto map = MappedFile::Open(path);
      RUBATO_CHECK(map.ok());
      files.push_back({path, map->bytes()});
      maps.push_back(*std::move(map));
    }
    const auto shard = Fresh();
    const double start = ThreadCpu();
    RUBATO_CHECK_OK(RestoreChain(*shard, files));
    const double seconds = ThreadCpu() - start;
    RUBATO_CHECK(shard->rows() == shard_->rows());
    return seconds;
  }

 private:
  std::unique_ptr<Shard> Fresh() {
    auto shard = std::make_unique<Shard>(memory_, ShardOptions{.rows_max = rows_ * 2});
    shard->SetView(1, {WorkerId(1)});
    return shard;
  }

  const uint64_t rows_;
  const size_t dim_;
  SystemMemory memory_;
  std::unique_ptr<Shard> shard_;
  int64_t pushes_ = 0;
};

Json Written(const Bench::Cost& cost) {
  return Json()
      .Number("bytes", cost.bytes)
      .Number("cpu_seconds", cost.cpu)
      .Number("seconds", cost.wall)
      .Number("longest_step_ms", cost.step_max_ms);
}

void Run(int argc, char** argv) {
  CheckFlags(argc, argv, {"rows", "dim", "changed", "rounds"});
  const auto rows = static_cast<uint64_t>(Flag(argc, argv, "rows", 2e6));
  const auto dim = static_cast<size_t>(Flag(argc, argv, "dim", 16));
  const double changed = Flag(argc, argv, "changed", 0.01);
  const int rounds = static_cast<int>(Flag(argc, argv, "rounds", 5));
  char folder[] = "/tmp/rubato-bench-XXXXXX";
  RUBATO_CHECK(mkdtemp(folder) != nullptr);
  const std::string full_path = absl::StrCat(folder, "/full");
  const std::string delta_path = absl::StrCat(folder, "/delta");

  Bench bench(rows, dim);
  std::vector<double> plain,
      marked;  // CPU of moving every row, without a checkpoint and since one.
  for (int round = 0; round < rounds; ++round) plain.push_back(bench.Push(rows));
  const Bench::Cost full = bench.Write(full_path, {.version = 1, .first_segment = 1});
  bench.Push(static_cast<uint64_t>(static_cast<double>(rows) * changed));
  const Bench::Cost delta =
      bench.Write(delta_path, {.version = 2, .first_segment = 2, .base = 1, .base_segment = 1});
  for (int round = 0; round < rounds; ++round) marked.push_back(bench.Push(rows));
  const double restore_full = bench.Restore({full_path});
  const double restore_chain = bench.Restore({full_path, delta_path});
  unlink(full_path.c_str());
  unlink(delta_path.c_str());
  rmdir(folder);
  const double each = 1e9 / static_cast<double>(rows);
  std::printf("%s\n", Json()
                          .Number("rows", static_cast<double>(rows))
                          .Number("dim", static_cast<double>(dim))
                          .Number("changed", changed)
                          .Object("full", Written(full))
                          .Object("delta", Written(delta))
                          .Number("bytes_ratio", delta.bytes / full.bytes)
                          .Number("cpu_ratio", delta.cpu / full.cpu)
                          .Number("restore_full_cpu_seconds", restore_full)
                          .Number("restore_chain_cpu_seconds", restore_chain)
                          .Number("push_ns_per_row", Median(plain) * each)
                          .Number("push_ns_per_row_marked", Median(marked) * each)
                          .Text()
                          .c_str());
}

}  // namespace
}  // namespace rubato::bench

int main(int argc, char** argv) {
  rubato::bench::Run(argc, argv);
  return 0;
}
