// A worker's line to all parameter servers of its job.
//
// Which server owns what may change at any time. A server that owns something else than the client
// believes says so, with the newest map it knows, and the request is split anew and sent to all
// again: what they have applied before they recognise.
//
// Requests are asynchronous; several may be in flight. A request that a dying server left
// unanswered is sent again when the server is back, at its old address or at a new one: servers
// recognise a push they have already applied, so a repeat is harmless. Nothing times out; a caller
// that loses patience calls Stop.
//
// Thread-safe. Callbacks run on the client's own thread: they may start further requests, and must
// not block or call Stop.
#ifndef RUBATO_ADAPTERS_POSIX_PARAMS_CLIENT_H_
#define RUBATO_ADAPTERS_POSIX_PARAMS_CLIENT_H_

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "rubato/net/frame.h"
#include "rubato/net/wire_format.h"
#include "rubato/params/declaration.h"
#include "rubato/params/partition.h"

namespace rubato {

struct ParamsClientOptions {
  std::string job;      // Must be the servers'.
  std::string secret;   // Theirs; empty: only addresses that stay on this machine.
  int64_t servers = 1;  // How many there are at the job's start, who share everything evenly.
  WireFormat wire = WireFormat::kFp32;                // Of weights and gradients, there and back.
  absl::Duration reconnect = absl::Milliseconds(20);  // Between attempts to reach a server.
  // Of a request's part for one server. A larger one is refused here: the server would close the
  // connection, and it would be sent again for ever.
  size_t request_bytes_max = kFrameBytesMax;
  // Over Unix sockets large requests and answers go through memory that is shared with the servers
  // (shared_area.h): so many bytes for requests, and for answers as many a server. Taken as they
  // are used; what finds no room, and all if this is 0, goes through the socket.
  size_t shared_bytes = size_t{64} << 20;
};

class ParamsClient {
 public:
  static std::unique_ptr<ParamsClient> Start(ParamsClientOptions options);
  virtual ~ParamsClient() = default;  // Stops.

  // Addresses by server, "unix:/path" or "host:port"; empty while a server is down. A changed
  // address drops the old connection. There may be more of them than at the start.
  virtual void SetServers(std::vector<std::string> addresses) = 0;
  // Who owns what. Ignored unless newer than the map it has.
  virtual void SetMap(const PartitionMap& map) = 0;

  // Tells every server what the model is made of: call it once, before the first Pull.
  // FAILED_PRECONDITION if a server was told something else before.
  virtual void Declare(const Declaration& declaration, std::function<void(absl::Status)> done) = 0;

  // Reads rows and dense weights. A row never pushed reads as its initial value and is not made by
  // reading it, so evaluation leaves no trace. `request.tables[t].ids` are copied before the call
  // returns; the memory to be filled must live until `done` is called.
  virtual void Pull(const PullRequest& request, std::function<void(absl::Status)> done) = 0;

  // Sends a batch's gradients to every server that owns something, an empty part to those with
  // nothing to do. What the
  // spans show is copied before the call returns. `done` hears kFenced if any server says so, else
  // kApplied if any server applied its part, else kDuplicate; or the first error. One with a NaN or
  // an infinity, as it travels, goes only to the servers that will refuse it for that, which is
  // OUT_OF_RANGE: it moves no weight anywhere.
  virtual void Push(const PushRequest& request,
                    std::function<void(absl::StatusOr<PushOutcome>)> done) = 0;

  // Which servers answer now: true after the greeting, false once the connection is lost.
  virtual std::vector<bool> Connected() = 0;

  // Every unanswered request hears CANCELLED, then the thread is joined. Idempotent.
  virtual void Stop() = 0;
};

}  // namespace rubato

#endif  // RUBATO_ADAPTERS_POSIX_PARAMS_CLIENT_H_
