#include "rubato/adapters/posix/mend_log.h"

#include <unistd.h>

#include <cerrno>
#include <cstdio>

#include "absl/strings/str_cat.h"
#include "rubato/adapters/posix/params_server_files.h"
#include "rubato/base/status.h"
#include "rubato/params/record_file.h"

namespace rubato {
namespace {

std::string AsideOf(const std::string& path) { return path + ".damaged"; }

absl::Status SetAside(const std::string& path) {
  if (rename(path.c_str(), AsideOf(path).c_str()) == 0) return absl::OkStatus();
  return PathError(errno, "rename", path);
}

// Puts a file with the records before the damage in the place of the one at `path`.
absl::StatusOr<int64_t> KeepWhatIsSound(const std::string& path) {
  RUBATO_ASSIGN_OR_RETURN(const MappedFile file, MappedFile::Open(path));
  const std::string temporary = path + ".tmp";
  RUBATO_ASSIGN_OR_RETURN(const std::unique_ptr<RecordFile> sound, RecordFile::Create(temporary));
  absl::Status written;
  (void)ReadRecords(path, file.bytes(), [&](RecordKind kind, absl::string_view body) {
    return written = sound->Append(kind, body);
  });
  RUBATO_RETURN_IF_ERROR(written);
  RUBATO_RETURN_IF_ERROR(sound->Sync());
  std::remove(AsideOf(path).c_str());
  if (link(path.c_str(), AsideOf(path).c_str()) != 0) return PathError(errno, "link", path);
  RUBATO_RETURN_IF_ERROR(Publish(temporary, path));
  return sound->bytes();
}

}  // namespace

absl::StatusOr<std::string> MendLog(const std::string& directory, int64_t first,
                                    std::map<int64_t, int64_t>* segments) {
  std::string damage;
  int64_t end = first;  // The first that is not wholly sound.
  for (; damage.empty() && segments->contains(end); ++end) {
    const std::string path = SegmentPath(directory, end);
    RUBATO_ASSIGN_OR_RETURN(const MappedFile file, MappedFile::Open(path));
    const absl::Status status = ReadRecords(path, file.bytes(), [](RecordKind, absl::string_view) {
                                  return absl::OkStatus();
                                }).status();
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
    RUBATO_ASSIGN_OR_RETURN(last->second, KeepWhatIsSound(SegmentPath(directory, end)));
  }
  return damage;
}

}  // namespace rubato
