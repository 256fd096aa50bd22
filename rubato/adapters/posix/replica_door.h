// What a server that has no log tells others before it can serve anybody.
//
// It asks all others for its log, and they may be asking for theirs: two that lost their disks
// would wait for each other, though what either lost is with somebody else. So while it asks it
// answers what it keeps of other logs, be it nothing, and hands it out. That is final: what is not
// here now does not come before the one who asks is back. Only one that is down has said nothing.
//
// All others are hung up on, and try again as if nobody were there: a client that were told "not
// yet" would give its batch up, which other servers may have applied, and compute it anew from
// weights of two ages; and who leads a log finds no follower before the server is back.
#ifndef RUBATO_ADAPTERS_POSIX_REPLICA_DOOR_H_
#define RUBATO_ADAPTERS_POSIX_REPLICA_DOOR_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "rubato/adapters/posix/replica_vault.h"

namespace rubato {

class ReplicaDoor {
 public:
  // UNAVAILABLE if the address is in use, INVALID_ARGUMENT if it leaves the machine and there is
  // no secret.
  static absl::StatusOr<std::unique_ptr<ReplicaDoor>> Open(const std::string& address,
                                                           const std::string& secret,
                                                           ReplicaVaultOptions vault);
  // Closes: whoever was reading asks again, and finds the server.
  virtual ~ReplicaDoor() = default;
  virtual const std::string& address() const = 0;  // The port filled in.
};

}  // namespace rubato

#endif  // RUBATO_ADAPTERS_POSIX_REPLICA_DOOR_H_
