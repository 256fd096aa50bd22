#include "rubato/simulate/report_pieces.h"

#include <algorithm>
#include <cmath>

namespace rubato {
namespace {

constexpr double kTickSeconds = 0.01;
constexpr int kMeanScale = 64;  // Mean GPUs are kept to a 64th.

void AppendVarint(uint64_t value, std::string& out) {
  for (; value >= 0x80; value >>= 7) out.push_back(static_cast<char>(value | 0x80));
  out.push_back(static_cast<char>(value));
}

uint64_t Ticks(double s) {
  return static_cast<uint64_t>(std::max(0.0, std::round(s / kTickSeconds)));
}

size_t CountBars(const std::vector<std::vector<Bar>>& jobs) {
  size_t count = 0;
  for (const std::vector<Bar>& bars : jobs) count += bars.size();
  return count;
}

}  // namespace

std::vector<std::vector<Bar>> GroupByJob(const SimulationResult& result) {
  std::vector<std::vector<Bar>> jobs(result.job_results.size());
  for (const Piece& piece : result.pieces) {
    std::vector<Bar>& bars = jobs[static_cast<size_t>(piece.job.value())];
    const bool same = !bars.empty() && bars.back().to_s == piece.from_s &&
                      bars.back().gpus == piece.gpus && bars.back().pool == piece.pool;
    if (same) {
      bars.back().to_s = piece.to_s;
    } else {
      bars.push_back({piece.from_s, piece.to_s, static_cast<double>(piece.gpus), piece.pool});
    }
  }
  return jobs;
}

void Coarsen(std::vector<Bar>& bars, double width_s) {
  std::vector<Bar> joined;
  for (const Bar& bar : bars) {
    if (joined.empty() || joined.back().pool != bar.pool ||
        bar.to_s - joined.back().from_s > width_s) {
      joined.push_back(bar);
      continue;
    }
    Bar& last = joined.back();
    const double gpu_seconds =
        last.gpus * (last.to_s - last.from_s) + bar.gpus * (bar.to_s - bar.from_s);
    last.to_s = bar.to_s;
    last.gpus = gpu_seconds / (last.to_s - last.from_s);
  }
  bars = std::move(joined);
}

PackedPieces PackPieces(const SimulationResult& result, double origin_s, size_t pieces_max,
                        bool pools) {
  std::vector<std::vector<Bar>> jobs = GroupByJob(result);
  PackedPieces packed{.tick_s = kTickSeconds};
  // Never so coarse that nothing is left to see: a job keeps at least one bar.
  const size_t limit = std::max(pieces_max, 2 * jobs.size());
  while (CountBars(jobs) > limit) {
    packed.width_s = packed.width_s == 0 ? 60 : 2 * packed.width_s;
    packed.gpu_scale = kMeanScale;
    for (std::vector<Bar>& bars : jobs) Coarsen(bars, packed.width_s);
  }
  packed.count = static_cast<int64_t>(CountBars(jobs));
  for (size_t i = 0; i < jobs.size(); ++i) {
    AppendVarint(jobs[i].size(), packed.bytes);
    uint64_t at = Ticks(result.job_results[i].submit_s - origin_s);
    for (const Bar& bar : jobs[i]) {
      const uint64_t from = std::max(at, Ticks(bar.from_s - origin_s));
      const uint64_t to = std::max(from, Ticks(bar.to_s - origin_s));
      AppendVarint(from - at, packed.bytes);
      AppendVarint(to - from, packed.bytes);
      AppendVarint(static_cast<uint64_t>(std::llround(bar.gpus * packed.gpu_scale)), packed.bytes);
      if (pools) AppendVarint(static_cast<uint64_t>(bar.pool), packed.bytes);
      at = to;
    }
  }
  return packed;
}

}  // namespace rubato
