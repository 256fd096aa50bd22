#include "rubato/adapters/posix/log_joints.h"

#include <fcntl.h>

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "rubato/adapters/files/files.h"
#include "rubato/adapters/posix/params_server_files.h"
#include "rubato/base/status.h"

namespace rubato {
namespace {

// Whether the segment at `path` is known to have had so many bytes, and no end.
bool IsJoint(const std::string& path, size_t bytes) {
  const std::string directory = path.substr(0, path.rfind('/'));
  const LogSizes joints = ReadJoints(directory).value_or(LogSizes());
  return std::any_of(joints.begin(), joints.end(), [&](const auto& joint) {
    return SegmentPath(directory, joint.first) == path &&
           joint.second == static_cast<int64_t>(bytes);
  });
}

}  // namespace

std::string JointsPath(const std::string& directory) { return directory + "/joints"; }

absl::StatusOr<LogSizes> ReadJoints(const std::string& directory) {
  const absl::StatusOr<std::string> text = ReadWholeFile(JointsPath(directory));
  if (absl::IsNotFound(text.status())) return LogSizes();
  RUBATO_RETURN_IF_ERROR(text.status());
  absl::StatusOr<LogSizes> joints = DecodeJoints(*text);
  if (!joints.ok()) return Annotate(joints.status(), JointsPath(directory));
  return joints;
}

absl::Status AddJoint(const std::string& directory, LogPosition end) {
  RUBATO_ASSIGN_OR_RETURN(LogSizes joints, ReadJoints(directory));
  joints[end.segment] = end.bytes;
  return WriteFileAtomically(JointsPath(directory), EncodeJoints(joints));
}

absl::Status ReadSegment(
    const std::string& path, absl::string_view bytes,
    absl::FunctionRef<absl::Status(RecordKind kind, absl::string_view body)> visit) {
  RUBATO_ASSIGN_OR_RETURN(const RecordsRead read, ReadRecords(path, bytes, visit));
  if (!read.cut || IsJoint(path, bytes.size())) return absl::OkStatus();
  return absl::DataLossError(
      absl::StrCat(path, ": damaged at byte ", bytes.size(), ": the file was cut off there"));
}

absl::Status EndCopy(const std::string& directory, int64_t segment, const std::string& path) {
  constexpr char kEnd[kRecordHeaderBytes] = {};
  RUBATO_ASSIGN_OR_RETURN(const MappedFile file, MappedFile::Open(path));
  const RecordsRead read = SkimRecords(file.bytes(), [](RecordKind, absl::string_view) {});
  if (!read.cut) return absl::OkStatus();  // Of the format before.
  auto at = static_cast<int64_t>(file.bytes().size());
  if (read.torn) return AddJoint(directory, {segment, at});
  RUBATO_ASSIGN_OR_RETURN(const FileDescriptor fd, OpenFile(path, O_WRONLY));
  return WriteParts(fd.get(), path, {kEnd, sizeof(kEnd)}, "", &at);
}

}  // namespace rubato
