// A log in memory, for tests and simulated disks.
#ifndef RUBATO_PARAMS_RECORD_LIST_H_
#define RUBATO_PARAMS_RECORD_LIST_H_

#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "rubato/params/record_file.h"
#include "rubato/params/shard.h"

namespace rubato {

struct RecordList : RecordSink {
  absl::Status Append(RecordKind kind, absl::string_view body) override {
    records.emplace_back(kind, std::string(body));
    return absl::OkStatus();
  }
  absl::Status ReplayInto(Shard& shard) const {
    for (const auto& [kind, body] : records) {
      if (absl::Status status = shard.Replay(kind, body); !status.ok()) return status;
    }
    return absl::OkStatus();
  }

  std::vector<std::pair<RecordKind, std::string>> records;
};

}  // namespace rubato

#endif  // RUBATO_PARAMS_RECORD_LIST_H_
