// A policy's pieces packed for the report: grouped by job, coarser where there are too many.
#ifndef RUBATO_SIMULATE_REPORT_PIECES_H_
#define RUBATO_SIMULATE_REPORT_PIECES_H_

#include <cstdint>
#include <string>
#include <vector>

#include "rubato/simulate/result.h"

namespace rubato {

// Like Piece, but its GPUs may be a mean.
struct Bar {
  double from_s = 0;
  double to_s = 0;
  double gpus = 0;
  int pool = 0;
};

// By job, each job's by time; neighbours of the same size are one.
std::vector<std::vector<Bar>> GroupByJob(const SimulationResult& result);

// Joins each run of bars that together span at most `width_s`, gaps included, keeping the GPU
// time. A bar longer than that stays as it is.
void Coarsen(std::vector<Bar>& bars, double width_s);

struct PackedPieces {
  std::string bytes;  // As report.h describes.
  int64_t count = 0;
  double tick_s = 0;
  int gpu_scale = 1;
  double width_s = 0;  // How coarse it is; 0: exact.
};

// `origin_s` is the time that tick 0 stands for; `pools` says whether to write them.
PackedPieces PackPieces(const SimulationResult& result, double origin_s, size_t pieces_max,
                        bool pools);

}  // namespace rubato

#endif  // RUBATO_SIMULATE_REPORT_PIECES_H_
