// What a server keeps for others: copies of their push logs (params/log_replica.h).
//
//     DIRECTORY/of-S/push-000007.log    the same bytes as in server S's own folder, or a part
#ifndef RUBATO_ADAPTERS_POSIX_REPLICA_VAULT_H_
#define RUBATO_ADAPTERS_POSIX_REPLICA_VAULT_H_

#include <cstdint>
#include <map>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "rubato/adapters/files/files.h"
#include "rubato/base/mutex.h"
#include "rubato/params/log_replica.h"
#include "rubato/params/wire.h"

namespace rubato {

struct ReplicaVaultOptions {
  std::string directory;
  std::string job;     // Whose it is: others are turned away.
  int64_t server = 0;  // Of that.
};

// Thread-safe.
class ReplicaVault {
 public:
  explicit ReplicaVault(ReplicaVaultOptions options) : options_(std::move(options)) {}

  // A number for a line that begins; answers with what is here of its leader's log.
  int64_t NextLine();
  // FAILED_PRECONDITION if the leader means another server.
  absl::StatusOr<LogSizes> Follow(const FollowRequest& request, int64_t line);
  // An order for the copy of `leader`, and the bytes that came with it.
  absl::Status Take(int64_t leader, int64_t line, absl::string_view body);
  // Some bytes of a copy, as the order's `segment`, `offset` and `bytes` say; fewer at its end.
  absl::StatusOr<std::string> Read(int64_t leader, int64_t line, absl::string_view body);

  int64_t bytes();  // Of all copies.

 private:
  struct Copy {
    ReplicaCopy state;
    int64_t segment = -1;  // The one that is open.
    FileDescriptor file;
  };
  std::string Folder(int64_t leader) const;
  absl::Status Write(Copy& copy, int64_t leader, const ReplicaOrder& order, absl::string_view bytes)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  const ReplicaVaultOptions options_;
  Mutex mu_;
  int64_t lines_ ABSL_GUARDED_BY(mu_) = 0;
  std::map<int64_t, Copy> copies_ ABSL_GUARDED_BY(mu_);  // By leader.
};

// A leader's line to a vault, whatever carries it. Not thread-safe.
class VaultLine {
 public:
  // What to say to kFollow, which comes first, kReplicate and kReplicaRead.
  absl::StatusOr<std::string> Answer(ReplicaVault& vault, ParamsOp op, absl::string_view body);

 private:
  int64_t leader_ = -1;  // Whose log comes here to be copied, or is read; -1: nobody's.
  int64_t line_ = 0;
};

}  // namespace rubato

#endif  // RUBATO_ADAPTERS_POSIX_REPLICA_VAULT_H_
