#include "rubato/adapters/posix/params_server_store.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "rubato/adapters/posix/checkpoint_files.h"
#include "rubato/adapters/posix/log_replay.h"
#include "rubato/adapters/posix/mend_log.h"
#include "rubato/base/status.h"
#include "rubato/params/checkpoint_reader.h"

namespace rubato {

absl::StatusOr<std::unique_ptr<ParamsStore>> ParamsStore::Open(const ParamsServerOptions& options) {
  auto store = std::unique_ptr<ParamsStore>(new ParamsStore);
  store->options_ = options;
  RUBATO_RETURN_IF_ERROR(MakeDirectories(options.directory));
  RUBATO_RETURN_IF_ERROR(MakeDirectories(options.checkpoints));
  RUBATO_ASSIGN_OR_RETURN(store->lock_, LockDirectory(options.directory));
  // A power cut leaves pages of two ages in a file that is written over; one that promises to
  // survive it has new ones.
  store->spares_ = std::make_shared<LogSpares>(options.directory,
                                               options.sync_log ? 0 : options.spare_log_bytes);
  RUBATO_RETURN_IF_ERROR(store->spares_->Open());
  return store;
}

absl::StatusOr<std::unique_ptr<Shard>> ParamsStore::Recover(Memory& memory) {
  RUBATO_ASSIGN_OR_RETURN(segments_, ListSegments(options_.directory));
  RUBATO_RETURN_IF_ERROR(MeasureSegments());
  absl::Status damage;
  int64_t first_segment = 0;
  RUBATO_ASSIGN_OR_RETURN(std::unique_ptr<Shard> shard,
                          LoadNewest(memory, &first_segment, &damage));
  if (options_.mend_log) {
    RUBATO_ASSIGN_OR_RETURN(const std::string mended, Mend(first_segment, *shard));
    shard.reset();  // It may have moved by half a round.
    RUBATO_ASSIGN_OR_RETURN(shard, LoadNewest(memory, &first_segment, &damage));
    if (!mended.empty()) damage_.push_back(mended);
  }
  segment_ = segments_.empty() ? 0 : segments_.rbegin()->first;
  absl::Status replayed = Replay(first_segment, *shard);
  // If the log does not reach back far enough, the first thing that was wrong is the one to know.
  if (!replayed.ok()) return damage.ok() ? replayed : damage;
  if (!damage.ok() && cuts_.empty() && segments_.empty()) return damage;
  // A log that came from another's copy may end before the cut: what follows it comes after.
  segment_ = std::max(segment_, first_segment - 1);
  RUBATO_RETURN_IF_ERROR(StartSegment());
  return shard;
}

absl::StatusOr<std::unique_ptr<Shard>> ParamsStore::LoadNewest(Memory& memory,
                                                               int64_t* first_segment,
                                                               absl::Status* damage) {
  const int64_t server = options_.server.value();
  const auto fresh = [&] {
    return std::make_unique<Shard>(
        memory,
        ShardOptions{.server = server, .servers = options_.servers, .rows_max = options_.rows_max});
  };
  RUBATO_ASSIGN_OR_RETURN(const std::vector<int64_t> versions,
                          ListCheckpoints(options_.checkpoints, server));
  std::unique_ptr<Shard> shard = fresh();
  *damage = absl::OkStatus();
  damage_.clear();
  RUBATO_ASSIGN_OR_RETURN(const int64_t beginning, LastBeginning());
  *first_segment = std::max<int64_t>(1, beginning);
  for (auto version = versions.rbegin(); version != versions.rend(); ++version) {
    absl::StatusOr<CheckpointName> name = Load(*version, *shard);
    if (name.ok() && name->first_segment <= beginning) {  // What it holds went to others since.
      shard = fresh();
      newest_ = {};
      break;
    }
    if (name.ok()) {
      *first_segment = name->first_segment;
      cuts_[*version] = *first_segment;
      break;
    }
    if (!absl::IsDataLoss(name.status())) return name.status();
    if (damage->ok()) *damage = name.status();
    damage_.emplace_back(name.status().message());
    shard = fresh();
  }
  return shard;
}

absl::StatusOr<CheckpointName> ParamsStore::Load(int64_t version, Shard& shard) {
  RUBATO_ASSIGN_OR_RETURN(
      MappedChain chain, MappedChain::Open(options_.checkpoints, version, options_.server.value()));
  if (options_.progress != nullptr) {
    options_.progress->all = options_.progress->done + chain.full_bytes() + chain.delta_bytes();
    chain.Watch(&options_.progress->done);
  }
  RUBATO_RETURN_IF_ERROR(RestoreChain(shard, chain.files()));
  newest_ = chain.name();
  cut_ = version;
  cut_rounds_ = shard.rounds();
  full_bytes_ = chain.full_bytes();
  delta_bytes_ = chain.delta_bytes();
  return chain.name();
}

absl::Status ParamsStore::Replay(int64_t first_segment, Shard& shard) {
  std::vector<std::string> paths;
  for (int64_t segment = first_segment; segment <= segment_; ++segment) {
    paths.push_back(SegmentPath(options_.directory, segment));
    if (!segments_.contains(segment)) {
      return absl::DataLossError(absl::StrCat(
          paths.back(), " is missing: pushes since the checkpoint cannot be replayed"));
    }
  }
  return ReplayLog(paths, shard, &replayed_, {.applied = ExpectLog(first_segment)});
}

absl::StatusOr<std::string> ParamsStore::Mend(int64_t first_segment, Shard& shard) {
  std::atomic<int64_t>* const applied = ExpectLog(first_segment);
  return MendLog(options_.directory, first_segment, &segments_,
                 [&](RecordKind kind, absl::string_view body) {
                   if (applied != nullptr) *applied += static_cast<int64_t>(body.size());
                   return ReplayRecord(kind, body, shard);
                 });
}

std::atomic<int64_t>* ParamsStore::ExpectLog(int64_t first_segment) const {
  if (options_.progress == nullptr) return nullptr;
  int64_t bytes = 0;
  for (auto it = segments_.lower_bound(first_segment); it != segments_.end(); ++it) {
    bytes += it->second;
  }
  options_.progress->all = options_.progress->done + bytes;
  return &options_.progress->done;
}

absl::StatusOr<int64_t> ParamsStore::LastBeginning() const {
  for (auto segment = segments_.rbegin(); segment != segments_.rend(); ++segment) {
    const std::string path = SegmentPath(options_.directory, segment->first);
    RUBATO_ASSIGN_OR_RETURN(const MappedFile file, MappedFile::Open(path));
    bool begins = false;
    // Whatever else is wrong with it, Replay will say.
    (void)ReadRecords(path, file.bytes(), [&](RecordKind kind, absl::string_view body) {
      const absl::StatusOr<PartitionMap> map = PartitionMap::Decode(body);
      begins = kind == RecordKind::kOwn && map.ok() && !map->Owns(options_.server.value());
      return absl::CancelledError("the first is enough");
    });
    if (begins) return segment->first;
  }
  return 0;
}

absl::StatusOr<std::vector<int64_t>> ParamsStore::BeginAnew(const PartitionMap& map) {
  RUBATO_RETURN_IF_ERROR(StartSegment());
  RUBATO_RETURN_IF_ERROR(Append(RecordKind::kOwn, map.Encode()));
  std::vector<int64_t> needless;
  for (const auto& [segment, bytes] : segments_) needless.push_back(segment);
  segments_.clear();
  if (watcher_ != nullptr) watcher_->DroppedBefore(segment_);
  return needless;
}

absl::Status ParamsStore::MeasureSegments() {
  for (auto& [segment, bytes] : segments_) {
    const std::string path = SegmentPath(options_.directory, segment);
    RUBATO_ASSIGN_OR_RETURN(const MappedFile file, MappedFile::Open(path));
    // One under another's name would be read as if nothing were wrong.
    const std::optional<int64_t> number = SegmentNumber(file.bytes());
    if (number.has_value() && *number != segment) {
      return absl::DataLossError(absl::StrCat(path, " is segment ", *number, ", not ", segment));
    }
    bytes = SkimRecords(file.bytes(), [](RecordKind, absl::string_view) {}).used(file.bytes());
  }
  return absl::OkStatus();
}

absl::Status ParamsStore::StartSegment(std::unique_ptr<LogFile> next) {
  const bool fits = next != nullptr && next->segment() == segment_ + 1;
  if (!fits || !next->Place().ok()) next = spares_->Take(segment_ + 1);
  if (next == nullptr) {
    RUBATO_ASSIGN_OR_RETURN(
        next, LogFile::Create(SegmentPath(options_.directory, segment_ + 1), segment_ + 1));
  }
  if (log_ != nullptr) segments_[segment_] = log_->bytes();
  log_ = std::move(next);
  ++segment_;
  if (watcher_ != nullptr) watcher_->Grew(segment_, log_->bytes());
  return absl::OkStatus();
}

absl::Status ParamsStore::Append(RecordKind kind, absl::string_view body) {
  const auto append = [&] {
    return options_.sync_log ? log_->AppendSynced(kind, body) : log_->Append(kind, body);
  };
  absl::Status status = append();
  // What is kept for speed goes before a push is refused.
  if (absl::IsResourceExhausted(status) && spares_->Clear()) status = append();
  if (status.ok() && watcher_ != nullptr) watcher_->Grew(segment_, log_->bytes());
  return status;
}

bool ParamsStore::fresh() const {
  return log_ != nullptr && log_->bytes() == static_cast<int64_t>(kFileHeaderBytes) &&
         segment_ > newest_.first_segment;
}

absl::StatusOr<CheckpointName> ParamsStore::Cut(const CheckpointOrder& order, const Shard& shard,
                                                std::unique_ptr<LogFile> ahead) {
  if (!fresh()) RUBATO_RETURN_IF_ERROR(StartSegment(std::move(ahead)));
  cut_ = order.version;
  cut_rounds_ = shard.rounds();
  CheckpointName name = {.version = order.version,
                         .first_segment = segment_,
                         .server = options_.server.value(),
                         .servers = options_.servers};
  // A chain longer than half of a full one costs more to restore than it saves.
  const bool worth = 2 * delta_bytes_ <= full_bytes_;
  if (order.base > 0 && order.base == newest_.version && shard.changes_known() && worth) {
    name.base = newest_.version;
    name.base_segment = newest_.first_segment;
  }
  return name;
}

void ParamsStore::Checkpointed(const CheckpointName& name, int64_t bytes) {
  cuts_[name.version] = name.first_segment;
  newest_ = name;
  if (name.base == 0) full_bytes_ = delta_bytes_ = 0;
  (name.base == 0 ? full_bytes_ : delta_bytes_) += bytes;
}

std::vector<int64_t> ParamsStore::DropLogBefore(int64_t version) {
  std::vector<int64_t> needless;
  const auto cut = cuts_.find(version);
  if (cut == cuts_.end()) return needless;
  while (!segments_.empty() && segments_.begin()->first < cut->second) {
    needless.push_back(segments_.begin()->first);
    segments_.erase(segments_.begin());
  }
  // Whoever reads a segment for its copy hears of it before it is written over.
  if (watcher_ != nullptr && !needless.empty()) watcher_->DroppedBefore(cut->second);
  return needless;
}

LogSizes ParamsStore::log() const {
  LogSizes log = segments_;
  if (log_ != nullptr) log[segment_] = log_->bytes();
  return log;
}

int64_t ParamsStore::replay_bytes() const {
  int64_t bytes = log_ == nullptr ? 0 : log_->bytes();
  const int64_t first = cuts_.empty() ? 0 : cuts_.rbegin()->second;
  for (auto it = segments_.lower_bound(first); it != segments_.end(); ++it) bytes += it->second;
  return bytes;
}

int64_t ParamsStore::log_bytes() const {
  int64_t bytes = log_ == nullptr ? 0 : log_->bytes();
  for (const auto& [segment, size] : segments_) bytes += size;
  return bytes;
}

}  // namespace rubato
