#include "rubato/adapters/posix/frame_links.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "rubato/base/status.h"

namespace rubato {

FrameLinks::FrameLinks(absl::string_view secret)
    : tls_(secret.empty() ? nullptr : std::make_unique<const TlsLinks>(secret)) {}

absl::Status FrameLinks::Check(const SocketAddress& address) const {
  if (address.StaysHere() || tls_ != nullptr) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(address.ToString(), " leaves this machine, and there is no secret to keep ",
                   "strangers out: give one, as rubato keeps in group.secret of the job directory, "
                   "or an address that stays here, 127.0.0.1 or unix:/path"));
}

std::shared_ptr<FrameSocket> FrameLinks::Open(StreamSocket socket, const SocketAddress& address,
                                              TlsSide side, size_t body_bytes_max) const {
  std::unique_ptr<Stream> stream;
  if (!address.StaysHere()) {
    RUBATO_CHECK(tls_ != nullptr);
    stream = tls_->Secure(std::make_unique<PlainStream>(socket.native_handle()), side);
  }
  return std::make_shared<FrameSocket>(std::move(socket), std::move(stream), body_bytes_max);
}

}  // namespace rubato
