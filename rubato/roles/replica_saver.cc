#include "rubato/roles/replica_saver.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "rubato/adapters/files/files.h"

namespace rubato {

ReplicaSaver::~ReplicaSaver() { Wait(); }

void ReplicaSaver::Wait() {
  if (writer_.joinable()) writer_.join();
}

void ReplicaSaver::Copy(const Replica& replica, int64_t version, int64_t group_step,
                        std::string folder, std::string file) {
  Wait();
  done_ = false;
  copy_ = {version, replica.steps(), replica.records()};
  group_step_ = group_step;
  folder_ = absl::StrCat(folder, "/", version);
  file_ = std::move(file);
  bytes_ = replica.Encode();
}

void ReplicaSaver::Committed(int64_t group_step) {
  if (group_step_ < 0 || group_step < group_step_) return;
  group_step_ = -1;
  writer_ = std::thread([this] { Write(); });
}

void ReplicaSaver::Drop() {
  if (group_step_ < 0) return;
  group_step_ = -1;
  copy_ = {};
}

void ReplicaSaver::Write() {
  status_ = MakeDirectories(folder_);
  if (status_.ok()) status_ = WriteFileAtomically(absl::StrCat(folder_, "/", file_), bytes_);
  bytes_ = std::string();
  done_ = true;
}

absl::StatusOr<std::optional<ReplicaSaver::Saved>> ReplicaSaver::TakeSaved() {
  if (!done_.exchange(false)) return std::optional<Saved>();
  Wait();
  if (!status_.ok()) return status_;
  return std::optional<Saved>(copy_);
}

}  // namespace rubato
