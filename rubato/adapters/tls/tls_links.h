// TLS 1.3 between processes that know one secret: no certificates, no names, nothing to set up.
//
//     secret ──HKDF──▶ key ──▶ PSK of both ends + a fresh X25519 exchange ──▶ AES-128-GCM records
//
// Each end proves that it knows the secret before it is believed or hears anything; who learns the
// secret later cannot read what was recorded. The handshake rides in the first Read and Write: they
// return kWait until it is done, and kBroken if the other end is a stranger.
//
// Records are made whole before they leave, so that bytes once taken are the stream's, whatever the
// caller writes next: a frame that is cut off after a full buffer ends as it began.
#ifndef RUBATO_ADAPTERS_TLS_TLS_LINKS_H_
#define RUBATO_ADAPTERS_TLS_TLS_LINKS_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/strings/string_view.h"
#include "rubato/adapters/tls/stream.h"

struct ssl_ctx_st;

namespace rubato {

// What TLS says to those who do not speak it, and plain members to those who do.
extern const absl::string_view kNotUnderstood;

enum class TlsSide : uint8_t { kConnects, kAccepts };

class TlsLinks {
 public:
  // A sender takes a new key after so many bytes; AES-GCM should not see much more than 2^38.
  explicit TlsLinks(absl::string_view secret, uint64_t key_bytes_max = uint64_t{1} << 36);
  ~TlsLinks();

  // From any thread.
  std::unique_ptr<Stream> Secure(std::unique_ptr<Stream> wire, TlsSide side) const;

 private:
  const std::string key_;
  const uint64_t key_bytes_max_;
  ssl_ctx_st* const context_;
};

// `tls` null: as it is.
std::unique_ptr<Stream> MakeStream(const TlsLinks* tls, TlsSide side, Fd socket);

}  // namespace rubato

#endif  // RUBATO_ADAPTERS_TLS_TLS_LINKS_H_
