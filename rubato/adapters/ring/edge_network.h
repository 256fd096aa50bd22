// How TcpEdges reaches other members and waits for them: by sockets, or by what a test puts in
// their place.
#ifndef RUBATO_ADAPTERS_RING_EDGE_NETWORK_H_
#define RUBATO_ADAPTERS_RING_EDGE_NETWORK_H_

#include <poll.h>

#include <functional>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "rubato/adapters/ring/resolver.h"
#include "rubato/adapters/tls/stream.h"
#include "rubato/adapters/tls/tls_links.h"

namespace rubato {

class EdgeNetwork {
 public:
  virtual ~EdgeNetwork() = default;
  // A connection to `address`. Gives up with ABORTED when `live` says so; FAILED_PRECONDITION if
  // nobody listens there any more, DEADLINE_EXCEEDED if nothing answers for a lease, else what was
  // wrong. `event_fd` interrupts the wait.
  virtual absl::StatusOr<std::unique_ptr<Stream>> Connect(const std::string& address, int event_fd,
                                                          const std::function<bool()>& live) = 0;
  // Whether nobody listens at `address` any more.
  virtual bool Refuses(const std::string& address) = 0;
  // Whether nothing has come back on this connection for a lease, though something was to: the link
  // is dead. A process that computes, or sleeps, is not silent: its kernel answers for it.
  virtual bool IsSilent(const Stream& stream) { return false; }
  // Until one of them is ready, or a moment has passed; as poll() does.
  virtual void Wait(absl::Span<pollfd> fds) = 0;
};

class SocketNetwork : public EdgeNetwork {
 public:
  // `tls` may be null, and must live longer, as must `names`; null: it looks names up for itself.
  explicit SocketNetwork(const TlsLinks* tls, absl::Duration lease = absl::Seconds(2),
                         Resolver* names = nullptr)
      : tls_(tls), lease_(lease), names_(names != nullptr ? *names : own_names_) {}
  absl::StatusOr<std::unique_ptr<Stream>> Connect(const std::string& address, int event_fd,
                                                  const std::function<bool()>& live) override;
  bool Refuses(const std::string& address) override;
  bool IsSilent(const Stream& stream) override;
  void Wait(absl::Span<pollfd> fds) override;

 private:
  const TlsLinks* const tls_;
  const absl::Duration lease_;
  Resolver own_names_;
  Resolver& names_;
};

// Prepares a connected TCP socket for bulk data.
void TuneSocket(int socket);

}  // namespace rubato

#endif  // RUBATO_ADAPTERS_RING_EDGE_NETWORK_H_
