// Which connections of a job's parameter servers are encrypted: those whose address leaves the
// machine. There both ends prove that they know the job's secret before either hears a frame, as
// the workers of a group do (adapters/tls); what stays on the machine goes as it is.
#ifndef RUBATO_ADAPTERS_POSIX_FRAME_LINKS_H_
#define RUBATO_ADAPTERS_POSIX_FRAME_LINKS_H_

#include <memory>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "rubato/adapters/posix/frame_socket.h"
#include "rubato/adapters/tls/tls_links.h"

namespace rubato {

// From any thread.
class FrameLinks {
 public:
  // No secret: nothing may leave the machine.
  explicit FrameLinks(absl::string_view secret);

  // INVALID_ARGUMENT if one may neither listen nor connect there, for want of a secret.
  absl::Status Check(const SocketAddress& address) const;
  // Of a connection from or to `address`, which was checked.
  std::shared_ptr<FrameSocket> Open(StreamSocket socket, const SocketAddress& address, TlsSide side,
                                    size_t body_bytes_max) const;

 private:
  const std::unique_ptr<const TlsLinks> tls_;
};

}  // namespace rubato

#endif  // RUBATO_ADAPTERS_POSIX_FRAME_LINKS_H_
