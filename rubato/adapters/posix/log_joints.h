// Where the segments of a server's push log end, in its folder.
//
//     DIRECTORY/push-000007.log     zeros behind its records are the end (params/log_segment.h)
//     DIRECTORY/push-000008.log     from a copy that ended within a record: there is none
//     DIRECTORY/joints              "8 70016": that one, and its bytes (params/log_replica.h)
//
// So a segment that ends otherwise was cut off, and is as damaged as one with other bytes.
#ifndef RUBATO_ADAPTERS_POSIX_LOG_JOINTS_H_
#define RUBATO_ADAPTERS_POSIX_LOG_JOINTS_H_

#include <cstdint>
#include <string>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "rubato/params/log_replica.h"
#include "rubato/params/record_file.h"

namespace rubato {

std::string JointsPath(const std::string& directory);
// The segments at which lives began from a copy; none without the file.
absl::StatusOr<LogSizes> ReadJoints(const std::string& directory);
absl::Status AddJoint(const std::string& directory, LogPosition end);

// As ReadRecords, of the segment of a log at `path`. DATA_LOSS naming it, too, once all its records
// were visited, if it was cut off. Of the format before, which has no end, one may be torn: there a
// process died.
absl::Status ReadSegment(
    const std::string& path, absl::string_view bytes,
    absl::FunctionRef<absl::Status(RecordKind kind, absl::string_view body)> visit);

// The file at `path` is what a copy has of a segment that is to be in the log in `directory`: puts
// the end behind it, or makes it a joint.
absl::Status EndCopy(const std::string& directory, int64_t segment, const std::string& path);

}  // namespace rubato

#endif  // RUBATO_ADAPTERS_POSIX_LOG_JOINTS_H_
