// How many ids a log will bring that a shard does not know yet, from one look at it.
//
// A table that grows while a log is replayed moves its index again and again, and waits for memory
// page by page. The ids of all pushes would say how large it is to become; one of 64, chosen by
// their points, says it within a percent, whatever repeats how often.
#ifndef RUBATO_PARAMS_LOG_FORECAST_H_
#define RUBATO_PARAMS_LOG_FORECAST_H_

#include <cstdint>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "rubato/params/record_file.h"

namespace rubato {

class LogForecast {
 public:
  static constexpr uint64_t kOneOf = 64;

  // The records of the log in order; SkimRecords finds them.
  void Add(RecordKind kind, absl::string_view body);

  // By table, the sampled ids, each once. Never iterated where the order matters.
  const std::vector<absl::flat_hash_set<uint64_t>>& sample() const { return sample_; }
  // Whether partitions came or went meanwhile: then nobody knows what was there when.
  bool moves() const { return moves_; }

 private:
  std::vector<absl::flat_hash_set<uint64_t>> sample_;
  std::vector<absl::Span<const uint64_t>> ids_;  // Reused.
  bool moves_ = false;
};

}  // namespace rubato

#endif  // RUBATO_PARAMS_LOG_FORECAST_H_
