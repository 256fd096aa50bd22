#include "rubato/adapters/posix/mend_log.h"

#include <unistd.h>

#include <cerrno>
#include <cstdio>

#include "absl/strings/str_cat.h"
#include "rubato/adapters/files/files.h"
#include "rubato/adapters/posix/log_file.h"
#include "rubato/adapters/posix/log_joints.h"
#include "rubato/adapters/posix/params_server_files.h"
#include "rubato/base/status.h"

namespace rubato {
namespace {

std::string AsideOf(const std::string& path) { return path + ".damaged"; }

absl::Status SetAside(const std::string& path) {
  if (rename(path.c_str(), AsideOf(path).c_str()) == 0) return absl::OkStatus();
  return PathError(errno, "rename", path);
}

// Puts a file with the first `records` of them in the place of the segment at `path`.
absl::StatusOr<int64_t> KeepWhatIsSound(const std::string& path, int64_t segment, int64_t records) {
  RUBATO_ASSIGN_OR_RETURN(const MappedFile file, MappedFile::Open(path));
  RUBATO_ASSIGN_OR_RETURN(const std::unique_ptr<LogFile> sound,
                          LogFile::Make(path + ".tmp", path, segment));
  absl::Status written;
  (void)ReadRecords(path, file.bytes(), [&](RecordKind kind, absl::string_view body) {
    if (records-- == 0) return absl::CancelledError("that is all");
    return written = sound->Append(kind, body);
  });
  RUBATO_RETURN_IF_ERROR(written);
  RUBATO_RETURN_IF_ERROR(sound->Sync());
  std::remove(AsideOf(path).c_str());
  if (link(path.c_str(), AsideOf(path).c_str()) != 0) return PathError(errno, "link", path);
  RUBATO_RETURN_IF_ERROR(sound->Place());
  RUBATO_RETURN_IF_ERROR(SyncDirectory(path.substr(0, path.rfind('/'))));
  return sound->bytes();
}

}  // namespace

absl::StatusOr<std::string> MendLog(
    const std::string& directory, int64_t first, std::map<int64_t, int64_t>* segments,
    absl::FunctionRef<absl::Status(RecordKind kind, absl::string_view body)> replay) {
  std::string damage;
  int64_t end = first;  // The first that is not wholly sound,
  int64_t records = 0;  // and how many of it are.
  for (; segments->contains(end); ++end) {
    const std::string path = SegmentPath(directory, end);
    RUBATO_ASSIGN_OR_RETURN(const MappedFile file, MappedFile::Open(path));
    records = 0;
    const absl::Status status =
        ReadSegment(path, file.bytes(), [&](RecordKind kind, absl::string_view body) {
          const absl::Status replayed = replay(kind, body);
          records += replayed.ok();
          return replayed;
        });
    if (status.ok()) continue;
    if (!absl::IsDataLoss(status)) return status;
    damage = std::string(status.message());
    break;
  }
  if (segments->empty() || end > segments->rbegin()->first) return damage;
  if (damage.empty()) damage = absl::StrCat(SegmentPath(directory, end), " is missing");
  // The last first: if we die on the way, the log is only shorter.
  while (!segments->empty() && segments->rbegin()->first > end) {
    RUBATO_RETURN_IF_ERROR(SetAside(SegmentPath(directory, segments->rbegin()->first)));
    segments->erase(std::prev(segments->end()));
  }
  if (const auto last = segments->find(end); last != segments->end()) {
    RUBATO_ASSIGN_OR_RETURN(last->second,
                            KeepWhatIsSound(SegmentPath(directory, end), end, records));
  }
  return damage;
}

}  // namespace rubato
