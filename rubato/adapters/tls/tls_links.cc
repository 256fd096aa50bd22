#include "rubato/adapters/tls/tls_links.h"

#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <poll.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "rubato/adapters/tls/keys.h"
#include "rubato/base/status.h"

namespace rubato {
namespace {

constexpr size_t kRecordBytes = 16384;
// Records that leave in one call, and that arrive in one.
constexpr size_t kHoldBytes = 128 << 10;
constexpr size_t kReadAheadBytes = 128 << 10;
// Fatal, 10: an unexpected message, as in RFC 8446.
constexpr char kAlert[] = {0x15, 3, 3, 0, 2, 2, 10};
// Which of the keys that the two might share; there is one.
constexpr absl::string_view kIdentity = "rubato link 1";

}  // namespace

const absl::string_view kNotUnderstood(kAlert, sizeof(kAlert));

namespace {

class TlsStream : public Stream {
 public:
  TlsStream(SSL_CTX* context, std::unique_ptr<Stream> wire, TlsSide side, uint64_t key_bytes_max);
  ~TlsStream() override { SSL_free(ssl_); }

  int64_t Read(absl::Span<const iovec> pieces) override;
  int64_t Write(absl::Span<const iovec> pieces) override;
  bool Flush() override;
  void Finish() override;
  int16_t wants() const override { return static_cast<int16_t>(wants_ | (held() ? POLLOUT : 0)); }
  int fd() const override { return wire_->fd(); }
  bool gone() const override { return broken_ || wire_->gone(); }
  bool trusted() const override { return trusted_; }
  bool stranger() const override { return stranger_; }

  // OpenSSL's side: what it reads comes from the wire, what it writes is held back.
  int Pull(char* data, int bytes, BIO* bio);
  int Push(const char* data, int bytes);

 private:
  bool held() const { return held_from_ < held_.size(); }
  // Goes on with the handshake: 1 once it is done, else kWait or kBroken.
  int64_t Shake();
  int64_t Outcome(int result);
  int64_t Break();
  void TakeNewKey(size_t bytes);

  const std::unique_ptr<Stream> wire_;
  const uint64_t key_bytes_max_;
  SSL* const ssl_;
  std::string held_;  // Records on their way,
  size_t held_from_ = 0;
  uint64_t key_bytes_ = 0;  // Sent under the key in use.
  int16_t wants_ = 0;
  bool said_anything_ = false;
  bool trusted_ = false;
  bool stranger_ = false;
  bool broken_ = false;
};

// Pieces as one row of records. Small ones go together, for a record costs more than a copy.
class RecordCutter {
 public:
  explicit RecordCutter(absl::Span<const iovec> pieces) : pieces_(pieces) {}
  // Empty after the last; valid until the next call.
  absl::string_view Next() {
    size_t bytes = 0;
    while (!pieces_.empty() && bytes < kRecordBytes) {
      const char* const from = static_cast<const char*>(pieces_[0].iov_base) + done_;
      const size_t left = pieces_[0].iov_len - done_;
      const size_t taken = std::min(left, kRecordBytes - bytes);
      done_ += taken;
      if (taken == kRecordBytes) return {from, taken};
      if (taken > 0) std::memcpy(record_ + bytes, from, taken);
      bytes += taken;
      if (taken < left) break;
      pieces_.remove_prefix(1);
      done_ = 0;
    }
    return {record_, bytes};
  }

 private:
  absl::Span<const iovec> pieces_;
  size_t done_ = 0;  // Of the first.
  char record_[kRecordBytes];
};

TlsStream* StreamOf(BIO* bio) { return static_cast<TlsStream*>(BIO_get_data(bio)); }

BIO_METHOD* Method() {
  static BIO_METHOD* const method = [] {
    BIO_METHOD* made = BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "rubato stream");
    BIO_meth_set_read(made, [](BIO* bio, char* data, int bytes) {
      return StreamOf(bio)->Pull(data, bytes, bio);
    });
    BIO_meth_set_write(made, [](BIO* bio, const char* data, int bytes) {
      return StreamOf(bio)->Push(data, bytes);
    });
    BIO_meth_set_ctrl(made, [](BIO*, int command, long, void*) -> long {
      return command == BIO_CTRL_FLUSH ? 1 : 0;
    });
    return made;
  }();
  return method;
}

TlsStream::TlsStream(SSL_CTX* context, std::unique_ptr<Stream> wire, TlsSide side,
                     uint64_t key_bytes_max)
    : wire_(std::move(wire)), key_bytes_max_(key_bytes_max), ssl_(SSL_new(context)) {
  BIO* const bio = BIO_new(Method());
  RUBATO_CHECK(ssl_ != nullptr && bio != nullptr);
  BIO_set_data(bio, this);
  BIO_set_init(bio, 1);
  SSL_set_bio(ssl_, bio, bio);
  if (side == TlsSide::kAccepts) {
    SSL_set_accept_state(ssl_);
    return;
  }
  // Nobody's certificate is good: the key alone proves who the other end is.
  SSL_set_verify(ssl_, SSL_VERIFY_PEER, nullptr);
  SSL_set_connect_state(ssl_);
}

int TlsStream::Pull(char* data, int bytes, BIO* bio) {
  BIO_clear_retry_flags(bio);
  const int64_t n = wire_->ReadBytes(data, static_cast<size_t>(bytes));
  if (n > 0) return static_cast<int>(n);
  if (n == kWait) BIO_set_retry_read(bio);
  return n == kClosed ? 0 : -1;
}

int TlsStream::Push(const char* data, int bytes) {
  said_anything_ = true;
  held_.append(data, static_cast<size_t>(bytes));
  return bytes;
}

bool TlsStream::Flush() {
  while (held()) {
    const int64_t n = wire_->WriteBytes(held_.data() + held_from_, held_.size() - held_from_);
    if (n == kWait) return false;
    if (n < 0) {
      Break();
      break;
    }
    held_from_ += static_cast<size_t>(n);
  }
  held_.clear();
  held_from_ = 0;
  return true;
}

int64_t TlsStream::Break() {
  broken_ = true;
  trusted_ = false;
  return kBroken;
}

// What a call to OpenSSL that moved nothing means.
int64_t TlsStream::Outcome(int result) {
  const int error = SSL_get_error(ssl_, result);
  const bool waits = error == SSL_ERROR_WANT_READ;
  const bool closed = error == SSL_ERROR_ZERO_RETURN;
  // OpenSSL has nothing to say to those who do not speak TLS; they shall hear what this is.
  if (!waits && !closed && !said_anything_) Push(kAlert, sizeof(kAlert));
  if (error == SSL_ERROR_SSL && !trusted_) stranger_ = true;  // A cut is SSL_ERROR_SYSCALL.
  Flush();  // The handshake's next words, or why there are none.
  if (closed) return kClosed;
  if (!waits || broken_) return Break();
  wants_ = POLLIN;
  return kWait;
}

int64_t TlsStream::Shake() {
  if (broken_) return kBroken;
  if (trusted_) return 1;
  ERR_clear_error();
  const int result = SSL_do_handshake(ssl_);
  if (result != 1) return Outcome(result);
  // Whoever has no such key would have had to show a certificate, which is refused already.
  if (SSL_session_reused(ssl_) != 1) {
    stranger_ = true;
    return Break();
  }
  trusted_ = true;
  Flush();
  return 1;
}

int64_t TlsStream::Read(absl::Span<const iovec> pieces) {
  if (const int64_t shaken = Shake(); shaken <= 0) return shaken;
  int64_t total = 0;
  for (const iovec& piece : pieces) {
    size_t got = 0;
    while (got < piece.iov_len) {
      size_t n = 0;
      ERR_clear_error();
      const int result =
          SSL_read_ex(ssl_, static_cast<char*>(piece.iov_base) + got, piece.iov_len - got, &n);
      if (result != 1) return total > 0 ? total : Outcome(result);
      got += n;
      total += static_cast<int64_t>(n);
    }
  }
  return total;
}

int64_t TlsStream::Write(absl::Span<const iovec> pieces) {
  wants_ = 0;
  if (!broken_ && !Flush()) return kWait;
  if (const int64_t shaken = Shake(); shaken <= 0) return shaken;
  int64_t total = 0;
  RecordCutter records(pieces);
  while (held_.size() < kHoldBytes) {
    const absl::string_view record = records.Next();
    if (record.empty()) break;
    TakeNewKey(record.size());
    ERR_clear_error();
    size_t n = 0;
    if (SSL_write_ex(ssl_, record.data(), record.size(), &n) != 1) return Break();
    total += static_cast<int64_t>(n);
  }
  Flush();
  return total;
}

void TlsStream::TakeNewKey(size_t bytes) {
  key_bytes_ += bytes;
  if (key_bytes_ <= key_bytes_max_) return;
  RUBATO_CHECK(SSL_key_update(ssl_, SSL_KEY_UPDATE_NOT_REQUESTED) == 1);
  key_bytes_ = bytes;
}

void TlsStream::Finish() {
  if (trusted_) SSL_shutdown(ssl_);
  Flush();
  wire_->Finish();
}

SSL_SESSION* SessionOf(SSL* ssl, const std::string& key) {
  constexpr unsigned char kAes128GcmSha256[] = {0x13, 0x01};
  SSL_SESSION* const session = SSL_SESSION_new();
  const bool made =
      session != nullptr &&
      SSL_SESSION_set1_master_key(session, reinterpret_cast<const unsigned char*>(key.data()),
                                  key.size()) == 1 &&
      SSL_SESSION_set_cipher(session, SSL_CIPHER_find(ssl, kAes128GcmSha256)) == 1 &&
      SSL_SESSION_set_protocol_version(session, TLS1_3_VERSION) == 1;
  RUBATO_CHECK(made);
  return session;
}

const std::string& KeyOf(SSL* ssl) {
  return *static_cast<const std::string*>(SSL_CTX_get_app_data(SSL_get_SSL_CTX(ssl)));
}

int OfferKey(SSL* ssl, const EVP_MD*, const unsigned char** identity, size_t* bytes,
             SSL_SESSION** session) {
  *identity = reinterpret_cast<const unsigned char*>(kIdentity.data());
  *bytes = kIdentity.size();
  *session = SessionOf(ssl, KeyOf(ssl));
  return 1;
}

int FindKey(SSL* ssl, const unsigned char* identity, size_t bytes, SSL_SESSION** session) {
  const absl::string_view named(reinterpret_cast<const char*>(identity), bytes);
  *session = named == kIdentity ? SessionOf(ssl, KeyOf(ssl)) : nullptr;
  return 1;
}

}  // namespace

TlsLinks::TlsLinks(absl::string_view secret, uint64_t key_bytes_max)
    : key_(DeriveKey({.secret = secret, .salt = "rubato", .purpose = "rubato tls"}, 32)),
      key_bytes_max_(key_bytes_max),
      context_(SSL_CTX_new(TLS_method())) {
  const bool made = context_ != nullptr &&
                    SSL_CTX_set_min_proto_version(context_, TLS1_3_VERSION) == 1 &&
                    SSL_CTX_set_max_proto_version(context_, TLS1_3_VERSION) == 1 &&
                    SSL_CTX_set_ciphersuites(context_, "TLS_AES_128_GCM_SHA256") == 1 &&
                    SSL_CTX_set1_groups_list(context_, "X25519") == 1 &&
                    SSL_CTX_set_num_tickets(context_, 0) == 1;
  RUBATO_CHECK(made);
  SSL_CTX_set_session_cache_mode(context_, SSL_SESS_CACHE_OFF);
  SSL_CTX_set_read_ahead(context_, 1);
  SSL_CTX_set_default_read_buffer_len(context_, kReadAheadBytes);
  SSL_CTX_set_app_data(context_, const_cast<std::string*>(&key_));
  SSL_CTX_set_psk_use_session_callback(context_, OfferKey);
  SSL_CTX_set_psk_find_session_callback(context_, FindKey);
}

TlsLinks::~TlsLinks() { SSL_CTX_free(context_); }

std::unique_ptr<Stream> TlsLinks::Secure(std::unique_ptr<Stream> wire, TlsSide side) const {
  return std::make_unique<TlsStream>(context_, std::move(wire), side, key_bytes_max_);
}

std::unique_ptr<Stream> MakeStream(const TlsLinks* tls, TlsSide side, Fd socket) {
  auto plain = std::make_unique<PlainStream>(std::move(socket));
  if (tls == nullptr) return plain;
  return tls->Secure(std::move(plain), side);
}

}  // namespace rubato
