#include "rubato/adapters/posix/params_server_checkpoints.h"

#include <cstdio>
#include <utility>

#include "absl/strings/str_cat.h"
#include "rubato/base/status.h"

namespace rubato {
namespace {

// Checkpoints are synced in pieces: a process killed while it syncs does not die before the disk is
// done, and nobody can take its place.
constexpr int64_t kSyncBytes = int64_t{4} << 20;
// Of a step at most, give or take a few rows: most take a tenth of it, but not where the host of a
// virtual machine finds each page anew.
constexpr int64_t kStepMicroseconds = 2000;

// The records of one step of a checkpoint, on their way to the thread that writes files, which also
// makes those that are still to be made.
class HeldRecords : public RecordSink {
 public:
  absl::Status Append(RecordKind kind, absl::string_view body) override {
    return Take(kind, std::string(body));
  }
  absl::Status Take(RecordKind kind, std::string body) override {
    records_.push_back({.kind = kind, .body = std::move(body)});
    return absl::OkStatus();
  }
  absl::Status TakeLater(RecordKind kind, std::function<std::string()> body) override {
    records_.push_back({.kind = kind, .later = std::move(body)});
    return absl::OkStatus();
  }
  absl::Status WriteTo(RecordSink& sink) {
    for (Record& record : records_) {
      if (const auto make = std::exchange(record.later, nullptr)) record.body = make();
      RUBATO_RETURN_IF_ERROR(sink.Append(record.kind, std::exchange(record.body, {})));
    }
    return absl::OkStatus();
  }

 private:
  struct Record {
    RecordKind kind;
    std::string body;
    std::function<std::string()> later;
  };
  std::vector<Record> records_;
};

}  // namespace

void ServerCheckpoints::Start(CheckpointOrder order, std::function<void(absl::Status)> done) {
  asio::post(io_, [this, order, done = std::move(done)]() mutable {  //
    Begin(order, std::move(done));
  });
}

void ServerCheckpoints::Begin(const CheckpointOrder& order,
                              std::function<void(absl::Status)> done) {
  bool written = false;
  {
    ReaderLock lock(state_.mu);
    written = order.version <= state_.store->checkpointed();
  }
  if (written) return done(absl::OkStatus());
  if (running_ != nullptr) {
    return done(absl::FailedPreconditionError(
        absl::StrCat("checkpoint ", running_->order.version, " is still being written")));
  }
  running_ = std::make_unique<Running>();
  running_->order = order;
  running_->path =
      CheckpointPath(state_.options.checkpoints, order.version, state_.options.server.value());
  running_->done = std::move(done);
  asio::post(files_, [this, checkpoint = running_.get()] {
    const absl::Status status = Prepare(*checkpoint);
    asio::post(io_, [this, status] { status.ok() ? Cut() : Finish(status); });
  });
}

// The folder is shared by all servers, and may be a network away: at the cut, when every push and
// pull waits, there is a file to be renamed and nothing else.
absl::Status ServerCheckpoints::Prepare(Running& checkpoint) {
  size_t floats = 0;
  int64_t segment = 0;
  std::shared_ptr<LogSpares> spares;
  {
    ReaderLock lock(state_.mu);
    floats = CheckpointWriter::RoomFor(*state_.shard);
    segment = state_.store->next_segment();
    spares = state_.store->spares();
  }
  checkpoint.room.resize(floats);
  RUBATO_RETURN_IF_ERROR(
      MakeDirectories(absl::StrCat(state_.options.checkpoints, "/", checkpoint.order.version)));
  RUBATO_ASSIGN_OR_RETURN(checkpoint.file, RecordFile::Create(checkpoint.path + ".tmp"));
  if (segment == 0) return absl::OkStatus();
  RUBATO_ASSIGN_OR_RETURN(checkpoint.segment, spares->Ahead(segment));
  return absl::OkStatus();
}

void ServerCheckpoints::Cut() {
  absl::Status status;
  {
    WriterLock lock(state_.mu);
    const HoldTime hold(longest_hold_);
    status = CutNow();
  }
  if (!status.ok()) return Finish(status);
  Step();
}

absl::Status ServerCheckpoints::CutNow() {
  if (!state_.shard->settled() || state_.shard->observed()) {
    return absl::FailedPreconditionError("partitions are on the move");
  }
  RUBATO_ASSIGN_OR_RETURN(running_->name, state_.store->Cut(running_->order, *state_.shard,
                                                            std::move(running_->segment)));
  running_->writer =
      std::make_unique<CheckpointWriter>(*state_.shard, running_->name, std::move(running_->room));
  return absl::OkStatus();
}

// Encodes a step here, has it written over there, and comes back for the next: requests that
// arrived meanwhile are served in between. Pulls go on during a step too: it only reads.
void ServerCheckpoints::Step() {
  auto records = std::make_shared<HeldRecords>();
  absl::StatusOr<bool> last;
  {
    ReaderLock lock(state_.mu);
    const HoldTime hold(longest_hold_);
    last = running_->writer->Step(*records, [&] { return hold.wall_us() >= kStepMicroseconds; });
  }
  if (!last.ok()) return Finish(last.status());
  asio::post(files_, [this, records, last = *last, checkpoint = running_.get()] {
    RecordFile& file = *checkpoint->file;
    absl::Status status = records->WriteTo(file);
    if (status.ok() && (last || file.bytes() - checkpoint->synced >= kSyncBytes)) {
      status = file.Sync();
      checkpoint->synced = file.bytes();
    }
    if (status.ok() && last) status = Publish(checkpoint->path + ".tmp", checkpoint->path);
    // VERSION is new in its folder.
    if (status.ok() && last) status = SyncDirectory(state_.options.checkpoints);
    asio::post(io_, [this, status, last] {
      if (!status.ok() || last) return Finish(status);
      Step();
    });
  });
}

void ServerCheckpoints::Finish(const absl::Status& status) {
  const std::unique_ptr<Running> finished = std::move(running_);
  std::shared_ptr<LogSpares> spares;  // Removing them takes as long as they are.
  {
    WriterLock lock(state_.mu);
    spares = state_.store->spares();
    const HoldTime hold(longest_hold_);
    if (status.ok()) finished->writer->Published();
    if (finished->writer != nullptr) finished->writer->Close();
    if (status.ok()) {
      state_.store->Checkpointed(finished->name, finished->file->bytes());
    } else if (finished->writer != nullptr) {
      state_.last_error = std::string(status.message());
    }
  }
  // A disk that is full for it may have room the next time, without what is kept for speed.
  if (absl::IsResourceExhausted(status)) spares->Clear();
  if (!status.ok()) std::remove((finished->path + ".tmp").c_str());
  finished->done(status);
}

void ServerCheckpoints::Abandon() {
  if (running_ != nullptr) std::remove((running_->path + ".tmp").c_str());
}

}  // namespace rubato
