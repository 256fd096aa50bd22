// A push log that is damaged, or lacks a segment, made one that ends before that.
//
//     push-000007.log            sound
//     push-000008.log            its sound records; as it was: push-000008.log.damaged
//     push-000009.log.damaged    what came after, which cannot follow any more
//
// Nothing is thrown away. What the server lacks then was acknowledged: its master finds out, and
// has it trained again.
#ifndef RUBATO_ADAPTERS_POSIX_MEND_LOG_H_
#define RUBATO_ADAPTERS_POSIX_MEND_LOG_H_

#include <cstdint>
#include <map>
#include <string>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "rubato/params/record_file.h"

namespace rubato {

// Of the log in `directory` that is to be replayed from segment `first` on; `segments`, number to
// bytes, are then those that are left. `replay` is told of each record, and what it calls DATA_LOSS
// is damage too. Returns what was wrong, naming file and byte, or nothing. May be interrupted
// anywhere and done again.
absl::StatusOr<std::string> MendLog(
    const std::string& directory, int64_t first, std::map<int64_t, int64_t>* segments,
    absl::FunctionRef<absl::Status(RecordKind kind, absl::string_view body)> replay);

}  // namespace rubato

#endif  // RUBATO_ADAPTERS_POSIX_MEND_LOG_H_
