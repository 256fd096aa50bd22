#include "rubato/adapters/posix/log_replay.h"

#include <algorithm>
#include <atomic>
#include <deque>
#include <optional>
#include <system_error>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "rubato/adapters/posix/log_joints.h"
#include "rubato/adapters/posix/params_server_files.h"
#include "rubato/base/mutex.h"
#include "rubato/base/status.h"
#include "rubato/params/log_forecast.h"

namespace rubato {
namespace {

// Records that change threads together, and how many such lots may wait. The bytes stay where they
// are mapped; the second bounds how far the pages that were read lie before their use.
constexpr size_t kLotBytes = size_t{1} << 20;
constexpr size_t kLotRecords = 1024;
constexpr size_t kLotsMax = 16;
// Memory made real in one call: the thread can be stopped in between.
constexpr size_t kPopulateBytes = size_t{32} << 20;

// False if the system has no thread to give: too many there are, or no room for its stack.
template <typename Work>
bool TryStart(std::thread* thread, Work work) {
  try {
    *thread = std::thread(std::move(work));
    return true;
  } catch (const std::system_error&) {
    return false;
  }
}

struct Segment {
  std::string path;
  MappedFile file;
};

struct LogRecord {
  RecordKind kind;
  absl::string_view body;
  const Segment* segment;
};
using Lot = std::vector<LogRecord>;

// Where a replay is counted.
struct Counts {
  int64_t* pushes;
  std::atomic<int64_t>* bytes;
};

absl::Status Apply(const LogRecord& record, Shard& shard, const Counts& counts) {
  *counts.pushes += record.kind == RecordKind::kPush;
  if (counts.bytes != nullptr) *counts.bytes += static_cast<int64_t>(record.body.size());
  return ReplayRecord(record.kind, record.body, shard);
}

// As ReadRecords says it.
absl::Status Named(const absl::Status& status, const LogRecord& record) {
  const auto at = record.body.data() - record.segment->file.bytes().data();
  return Annotate(status, absl::StrCat(record.segment->path, ": record at byte ",
                                       at - static_cast<ptrdiff_t>(kRecordHeaderBytes)));
}

// Lots on their way from the thread that reads to the one that applies.
class Lots {
 public:
  // Waits for room. False: nobody wants more.
  bool Put(Lot lot) {
    const MutexLock lock(mu_);
    while (waiting_.size() >= kLotsMax && !unwanted_) changed_.Wait(mu_);
    if (unwanted_) return false;
    waiting_.push_back(std::move(lot));
    changed_.NotifyAll();
    return true;
  }
  // No more will come, for this reason.
  void End(absl::Status status) {
    const MutexLock lock(mu_);
    end_ = std::move(status);
    changed_.NotifyAll();
  }

  // Waits for one. Nothing after the last: end() then says why.
  std::optional<Lot> Take() {
    const MutexLock lock(mu_);
    while (waiting_.empty() && !end_.has_value()) changed_.Wait(mu_);
    if (waiting_.empty()) return std::nullopt;
    Lot lot = std::move(waiting_.front());
    waiting_.pop_front();
    changed_.NotifyAll();
    return lot;
  }
  void Refuse() {
    const MutexLock lock(mu_);
    unwanted_ = true;
    changed_.NotifyAll();
  }
  absl::Status end() {
    const MutexLock lock(mu_);
    return *end_;
  }

 private:
  Mutex mu_;
  CondVar changed_;
  std::deque<Lot> waiting_ ABSL_GUARDED_BY(mu_);
  std::optional<absl::Status> end_ ABSL_GUARDED_BY(mu_);
  bool unwanted_ ABSL_GUARDED_BY(mu_) = false;
};

// Until the records end, one is damaged, or nobody wants more.
absl::Status ReadInto(Lots& lots, const std::vector<Segment>& segments) {
  Lot lot;
  size_t bytes = 0;
  const auto hand_over = [&] {
    bytes = 0;
    return lots.Put(std::exchange(lot, {})) ? absl::OkStatus() : absl::CancelledError("unwanted");
  };
  absl::Status status;
  for (const Segment& segment : segments) {
    status = ReadSegment(segment.path, segment.file.bytes(),
                         [&](RecordKind kind, absl::string_view body) {
                           lot.push_back({kind, body, &segment});
                           bytes += body.size();
                           const bool full = bytes >= kLotBytes || lot.size() >= kLotRecords;
                           return full ? hand_over() : absl::OkStatus();
                         });
    if (!status.ok()) break;
  }
  const absl::Status handed = hand_over();  // What was sound before the damage, too.
  return status.ok() ? handed : status;
}

// Makes memory real beside its use, until told to stop.
class Populator {
 public:
  ~Populator() {
    stop_ = true;
    if (thread_.joinable()) thread_.join();
  }
  void Start(std::vector<MemoryRange> memory) {
    // Without a thread whoever uses the memory makes it real.
    (void)TryStart(&thread_, [this, memory = std::move(memory)] {
      // From behind: rows are used from the front, and two who ask for one page pay twice. The
      // first range, an index, is used everywhere at once.
      for (const MemoryRange& range : memory) {
        for (size_t left = range.bytes; left > 0 && !stop_;) {
          const size_t some = std::min(left, kPopulateBytes);
          left -= some;
          Populate({range.begin + left, some});
        }
      }
    });
  }

 private:
  std::atomic<bool> stop_ = false;
  std::thread thread_;
};

absl::Status ReplayInLine(const std::vector<Segment>& segments, Shard& shard,
                          const Counts& counts) {
  for (const Segment& segment : segments) {
    RUBATO_RETURN_IF_ERROR(ReadSegment(segment.path, segment.file.bytes(),
                                       [&](RecordKind kind, absl::string_view body) {
                                         return Apply({kind, body, &segment}, shard, counts);
                                       }));
  }
  return absl::OkStatus();
}

absl::Status ReplayAhead(const std::vector<Segment>& segments, Shard& shard, const Counts& counts) {
  LogForecast forecast;
  for (const Segment& segment : segments) {
    SkimRecords(segment.file.bytes(),
                [&](RecordKind kind, absl::string_view body) { forecast.Add(kind, body); });
  }
  Populator populator;
  Lots lots;
  std::thread reader;
  if (!TryStart(&reader, [&] { lots.End(ReadInto(lots, segments)); })) {
    return ReplayInLine(segments, shard, counts);
  }
  absl::Status status;
  bool expected = false;
  while (status.ok()) {
    const std::optional<Lot> lot = lots.Take();
    if (!lot.has_value()) break;
    for (const LogRecord& record : *lot) {
      if (!expected && shard.declared()) {
        populator.Start(shard.Expect(forecast));
        expected = true;
      }
      status = Apply(record, shard, counts);
      if (status.ok()) continue;
      status = Named(status, record);
      break;
    }
  }
  lots.Refuse();
  reader.join();
  return status.ok() ? lots.end() : status;
}

}  // namespace

absl::Status ReplayLog(const std::vector<std::string>& paths, Shard& shard, int64_t* pushes,
                       const LogReplayOptions& options) {
  std::vector<Segment> segments;
  int64_t bytes = 0;
  for (const std::string& path : paths) {
    RUBATO_ASSIGN_OR_RETURN(MappedFile file, MappedFile::Open(path));
    bytes += static_cast<int64_t>(file.bytes().size());
    segments.push_back({path, std::move(file)});
  }
  const Counts counts = {pushes, options.applied};
  return bytes >= options.ahead_from_bytes ? ReplayAhead(segments, shard, counts)
                                           : ReplayInLine(segments, shard, counts);
}

absl::Status ReplayRecord(RecordKind kind, absl::string_view body, Shard& shard) {
  const absl::Status status = shard.Replay(kind, body);
  // It was taken once, so what it needs was there and is gone.
  const bool misses = absl::IsFailedPrecondition(status) || absl::IsAborted(status);
  return misses ? absl::DataLossError(status.message()) : status;
}

}  // namespace rubato
