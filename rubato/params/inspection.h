// What one server says about itself when asked: `rubato params` and Prometheus read it.
#ifndef RUBATO_PARAMS_INSPECTION_H_
#define RUBATO_PARAMS_INSPECTION_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "rubato/params/hot_ids.h"

namespace rubato {

struct TableInspection {
  std::string name;
  int64_t dim = 0;
  std::string optimizer;
  int64_t rows = 0;
  int64_t counted = 0;  // Ids that have no row yet.
  int64_t bytes = 0;    // Index and all.
  // Since the job began: see ServerInspection::uncounted.
  int64_t admitted = 0;
  int64_t refused = 0;
  int64_t evicted = 0;
  // What it goes by: -1 if the server is of an earlier build.
  double learning_rate = -1;
  int64_t admit_count = -1;
  double admit_probability = -1;
  int64_t ttl_steps = -1;
  int64_t capacity = -1;
};

struct ServerInspection {
  int64_t server = 0;
  std::vector<TableInspection> tables;
  int64_t dense = 0;       // Weights.
  int64_t bytes = 0;       // Tables and dense weights in memory.
  int64_t partitions = 0;  // How many it holds.
  int64_t steps = 0;       // Pushes applied, ever.
  int64_t view = 0;
  // Since the process started.
  double seconds = 0;
  int64_t pulls = 0, rows_pulled = 0;
  int64_t pushes = 0, rows_pushed = 0;
  int64_t duplicates = 0, fenced = 0, not_finite = 0;
  int64_t refused_stale = 0;  // Too far behind: computed again.
  int64_t stale_pushes = 0, staleness_sum = 0, staleness_max = 0;
  int64_t clients = 0;
  int64_t log_bytes = 0;
  int64_t checkpoint = 0;  // The newest version on disk here.
  int64_t uncounted = 0;   // 1: what tables counted before some checkpoint is not known.
  // The longest, in microseconds, for which writing one kept pushes waiting at a time: in CPU time,
  // which a busy machine does not stretch, and by the clock.
  int64_t checkpoint_hold_us = 0, checkpoint_wait_us = 0;
  int64_t follower = -1;     // Who keeps a copy of the push log; -1: nobody.
  int64_t log_uncopied = 0;  // Bytes of the log that it lacks.
  std::vector<HotId> hottest;
};

std::string EncodeInspection(const ServerInspection& inspection);
// INVALID_ARGUMENT if the bytes are none, or of another release.
absl::StatusOr<ServerInspection> DecodeInspection(absl::string_view body);

// As Prometheus reads it.
std::string PrometheusText(const ServerInspection& inspection, absl::string_view job);

}  // namespace rubato

#endif  // RUBATO_PARAMS_INSPECTION_H_
