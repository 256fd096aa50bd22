#include "rubato/roles/prediction_file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "absl/strings/str_cat.h"
#include "rubato/adapters/posix/params_server_files.h"
#include "rubato/base/json_seal.h"
#include "rubato/base/json_text.h"
#include "rubato/base/status.h"

namespace rubato {

absl::StatusOr<std::unique_ptr<PredictionFile>> PredictionFile::Open(const std::string& path,
                                                                     const std::string& work,
                                                                     bool replace) {
  auto file = std::unique_ptr<PredictionFile>(new PredictionFile(path, work));
  if (!replace && PathExists(path) && file->Saved().is_null()) {
    return absl::AlreadyExistsError(absl::StrCat(path, " is there; --force replaces it"));
  }
  RUBATO_ASSIGN_OR_RETURN(file->fd_, OpenFile(file->partial(), O_RDWR | O_CREAT));
  if (flock(file->fd_.get(), LOCK_EX | LOCK_NB) != 0) {
    return absl::FailedPreconditionError(
        absl::StrCat(file->partial(), ": another process is writing there"));
  }
  RUBATO_RETURN_IF_ERROR(file->Resume());
  return file;
}

nlohmann::json PredictionFile::Saved() const {
  const absl::StatusOr<std::string> text = ReadWholeFile(state());
  nlohmann::json saved = nlohmann::json::parse(text.ok() ? *text : "", nullptr, false);
  const bool ours = saved.is_object() && saved.value("work", "") == work_;
  // Earlier builds wrote no checksum. What was changed says nothing of the lines that are there.
  const bool early = ours && !saved.contains("format") && !saved.contains("checksum");
  return early || (ours && SealOf(*text) == Seal::kSound) ? saved : nlohmann::json();
}

absl::Status PredictionFile::Resume() {
  const nlohmann::json saved = Saved();
  struct stat now = {};
  if (fstat(fd_.get(), &now) != 0) return PathError(errno, "read", partial());
  if (!saved.is_null() && saved.value("bytes", int64_t{-1}) <= now.st_size) {
    records_ = saved.value("records", int64_t{0});
    bytes_ = saved.value("bytes", int64_t{0});
  }
  // What was written after the last Keep() may be torn; it is written again.
  if (ftruncate(fd_.get(), bytes_) != 0) return PathError(errno, "truncate", partial());
  if (lseek(fd_.get(), bytes_, SEEK_SET) < 0) return PathError(errno, "seek", partial());
  return Keep();
}

absl::Status PredictionFile::Append(absl::string_view lines, int64_t records) {
  RUBATO_RETURN_IF_ERROR(WriteAll(fd_.get(), lines, partial()));
  bytes_ += static_cast<int64_t>(lines.size());
  records_ += records;
  return absl::OkStatus();
}

absl::Status PredictionFile::Keep() {
  if (fdatasync(fd_.get()) != 0) return PathError(errno, "write", partial());
  const nlohmann::ordered_json document = {
      {"format", 2}, {"work", work_}, {"records", records_}, {"bytes", bytes_}};
  return WriteFileAtomically(state(), Sealed(JsonText(document)));
}

absl::Status PredictionFile::Finish() {
  RUBATO_RETURN_IF_ERROR(Keep());
  RUBATO_RETURN_IF_ERROR(Publish(partial(), path_));
  return RemoveTree(state());
}

}  // namespace rubato
