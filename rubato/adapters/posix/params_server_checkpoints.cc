#include "rubato/adapters/posix/params_server_checkpoints.h"

#include <cstdio>
#include <utility>

#include "absl/strings/str_cat.h"
#include "rubato/adapters/posix/cpu_hold.h"
#include "rubato/base/status.h"

namespace rubato {
namespace {

// Checkpoints are synced in pieces: a process killed while it syncs does not die before the disk is
// done, and nobody can take its place.
constexpr int64_t kSyncBytes = int64_t{4} << 20;

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
  // First room for what pushes will set aside, where nobody waits for it.
  asio::post(files_, [this, order, done = std::move(done)]() mutable {
    size_t floats = 0;
    {
      ReaderLock lock(state_.mu);
      floats = CheckpointWriter::RoomFor(*state_.shard);
    }
    CheckpointWriter::Room room(floats);
    asio::post(io_, [this, order, room = std::move(room), done = std::move(done)]() mutable {
      Cut(order, std::move(room), std::move(done));
    });
  });
}

void ServerCheckpoints::Cut(const CheckpointOrder& order, CheckpointWriter::Room room,
                            std::function<void(absl::Status)> done) {
  absl::Status status;
  bool written = false;
  std::shared_ptr<LogSpares> spares;  // Removing them takes as long as they are.
  {
    WriterLock lock(state_.mu);
    spares = state_.store->spares();
    const CpuHold hold(hold_us_);
    written = order.version <= state_.store->checkpointed();
    if (!written) status = Begin(order, std::move(room), &done);
  }
  // A disk that is full for it may have room the next time, without what is kept for speed.
  if (absl::IsResourceExhausted(status)) spares->Clear();
  if (written || !status.ok()) return done(status);
  Step();
}

absl::Status ServerCheckpoints::Begin(const CheckpointOrder& order, CheckpointWriter::Room room,
                                      std::function<void(absl::Status)>* done) {
  if (running_ != nullptr) {
    return absl::FailedPreconditionError(
        absl::StrCat("checkpoint ", running_->name.version, " is still being written"));
  }
  if (!state_.shard->settled() || state_.shard->observed()) {
    return absl::FailedPreconditionError("partitions are on the move");
  }
  const std::string& folder = state_.options.checkpoints;
  auto checkpoint = std::make_unique<Running>();
  checkpoint->path = CheckpointPath(folder, order.version, state_.options.server.value());
  RUBATO_RETURN_IF_ERROR(MakeDirectories(absl::StrCat(folder, "/", order.version)));
  RUBATO_ASSIGN_OR_RETURN(checkpoint->file, RecordFile::Create(checkpoint->path + ".tmp"));
  RUBATO_ASSIGN_OR_RETURN(checkpoint->name, state_.store->Cut(order, *state_.shard));
  checkpoint->writer =
      std::make_unique<CheckpointWriter>(*state_.shard, checkpoint->name, std::move(room));
  checkpoint->done = std::move(*done);
  running_ = std::move(checkpoint);
  return absl::OkStatus();
}

// Encodes a step here, has it written over there, and comes back for the next: requests that
// arrived meanwhile are served in between. Pulls go on during a step too: it only reads.
void ServerCheckpoints::Step() {
  auto records = std::make_shared<HeldRecords>();
  absl::StatusOr<bool> last;
  {
    ReaderLock lock(state_.mu);
    const CpuHold hold(hold_us_);
    last = running_->writer->Step(*records);
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
  std::shared_ptr<LogSpares> spares;
  {
    WriterLock lock(state_.mu);
    spares = state_.store->spares();
    const CpuHold hold(hold_us_);
    if (status.ok()) finished->writer->Published();
    finished->writer->Close();
    if (status.ok()) {
      state_.store->Checkpointed(finished->name, finished->file->bytes());
    } else {
      state_.last_error = std::string(status.message());
    }
  }
  if (absl::IsResourceExhausted(status)) spares->Clear();
  if (!status.ok()) std::remove((finished->path + ".tmp").c_str());
  finished->done(status);
}

void ServerCheckpoints::Abandon() {
  if (running_ != nullptr) std::remove((running_->path + ".tmp").c_str());
}

}  // namespace rubato
