#include "rubato/roles/replica_saver.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "rubato/adapters/files/files.h"

namespace rubato {

ReplicaSaver::~ReplicaSaver() {
  Drop();
  Wait();
}

void ReplicaSaver::Wait() {
  if (group_step_ < 0 && writer_.joinable()) writer_.join();
}

void ReplicaSaver::Copy(const Replica& replica, std::shared_ptr<StateSnapshot> snapshot,
                        int64_t version, std::string folder, std::string file) {
  Drop();
  Wait();
  done_ = false;
  busy_ = true;
  copy_ = {version, replica.steps(), replica.records()};
  group_step_ = snapshot->step();
  folder_ = absl::StrCat(folder, "/", version);
  file_ = std::move(file);
  head_ = replica.EncodeHead();
  snapshot_ = std::move(snapshot);
  decision_ = std::promise<bool>();
  writer_ = std::thread([this, stays = decision_.get_future()]() mutable {
    snapshot_->Finish();
    if (stays.get()) Write();
    snapshot_.reset();
    busy_ = false;
  });
}

void ReplicaSaver::Decide(bool stays) {
  group_step_ = -1;
  decision_.set_value(stays);
}

void ReplicaSaver::Committed(int64_t group_step) {
  if (group_step_ >= 0 && group_step >= group_step_) Decide(true);
}

void ReplicaSaver::Drop() {
  if (group_step_ < 0) return;
  copy_ = {};
  Decide(false);
}

std::string ReplicaSaver::Encode() {
  std::string bytes = std::move(head_);
  bytes.reserve(bytes.size() + snapshot_->bytes());
  for (size_t i = 0; i < snapshot_->pieces(); ++i) bytes += snapshot_->TakePiece(i);
  Replica::EncodeRest(bytes);
  return bytes;
}

void ReplicaSaver::Write() {
  const std::string bytes = Encode();
  status_ = MakeDirectories(folder_);
  if (status_.ok()) status_ = WriteFileAtomically(absl::StrCat(folder_, "/", file_), bytes);
  done_ = true;
}

absl::StatusOr<std::optional<ReplicaSaver::Saved>> ReplicaSaver::TakeSaved() {
  if (!done_.exchange(false)) return std::optional<Saved>();
  Wait();
  if (!status_.ok()) return status_;
  return std::optional<Saved>(copy_);
}

}  // namespace rubato
