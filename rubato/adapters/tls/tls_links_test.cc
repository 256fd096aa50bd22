// Two ends of one connection in this process; what is between them is recorded.
#include "rubato/adapters/tls/tls_links.h"

#include <gtest/gtest.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "rubato/base/rng.h"

namespace rubato {
namespace {

// A wire that keeps what goes over it, moves a few bytes at a time, and can be cut.
struct Tap {
  std::string bytes;
  size_t at_once = 1 << 30;
  int64_t left = -1;  // After so many bytes it breaks; -1: never.
};

class TappedStream : public Stream {
 public:
  TappedStream(Fd socket, Tap& tap) : plain_(std::move(socket)), tap_(tap) {}
  int64_t Read(absl::Span<const iovec> pieces) override {
    const iovec piece{pieces[0].iov_base, std::min(pieces[0].iov_len, tap_.at_once)};
    return plain_.Read({&piece, 1});
  }
  int64_t Write(absl::Span<const iovec> pieces) override {
    if (tap_.left == 0) return kBroken;
    iovec piece{pieces[0].iov_base, std::min(pieces[0].iov_len, tap_.at_once)};
    if (tap_.left > 0) piece.iov_len = std::min<size_t>(piece.iov_len, tap_.left);
    const int64_t n = plain_.Write({&piece, 1});
    if (n > 0) tap_.bytes.append(static_cast<const char*>(piece.iov_base), n);
    if (n > 0 && tap_.left > 0) tap_.left -= n;
    if (tap_.left == 0) plain_.Finish();
    return n;
  }
  bool Flush() override { return plain_.Flush(); }
  void Finish() override { plain_.Finish(); }
  int16_t wants() const override { return plain_.wants(); }
  int fd() const override { return plain_.fd(); }
  bool gone() const override { return plain_.gone(); }
  bool trusted() const override { return true; }

 private:
  PlainStream plain_;
  Tap& tap_;
};

// Both ends of a connection; each may be made secure, or not.
struct Pair {
  Tap out, in;
  std::unique_ptr<Stream> client, server;

  Pair(const TlsLinks* connects, const TlsLinks* accepts) {
    int ends[2];
    EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, ends), 0);
    client = std::make_unique<TappedStream>(Fd(ends[0]), out);
    server = std::make_unique<TappedStream>(Fd(ends[1]), in);
    if (connects) client = connects->Secure(std::move(client), TlsSide::kConnects);
    if (accepts) server = accepts->Secure(std::move(server), TlsSide::kAccepts);
  }
  // Moves `text` from the client to the server, as far as it goes.
  std::string Carry(const std::string& text) {
    std::string got;
    std::string buffer(100000, '\0');
    size_t sent = 0;
    while (got.size() < text.size()) {
      int64_t n = 0;
      if (sent < text.size()) {
        n = client->WriteBytes(text.data() + sent, text.size() - sent);
        sent += std::max<int64_t>(n, 0);
      }
      const bool flushed = client->Flush() && server->Flush();
      const int64_t m = server->ReadBytes(buffer.data(), buffer.size());
      if (m > 0) got.append(buffer, 0, m);
      if (n < 0 || m < 0) break;
      if (n == 0 && m == 0 && flushed && Idle()) break;
    }
    return got;
  }
  // Nothing is on its way in either direction.
  bool Idle() const {
    pollfd fds[2] = {{client->fd(), POLLIN, 0}, {server->fd(), POLLIN, 0}};
    return poll(fds, 2, 0) == 0;
  }
};

std::string Pattern(size_t bytes) {
  std::string text;
  while (text.size() < bytes) text += "these are weights " + std::to_string(text.size());
  return text.substr(0, bytes);
}

TEST(TlsLinksTest, WhoKnowsTheSecretIsUnderstoodAndNobodyElse) {
  const TlsLinks links("between us");
  Pair pair(&links, &links);
  EXPECT_FALSE(pair.client->trusted());
  const std::string text = Pattern(3'000'000);
  EXPECT_TRUE(pair.Carry(text) == text);
  EXPECT_TRUE(pair.client->trusted() && pair.server->trusted());
  EXPECT_GT(pair.out.bytes.size(), text.size());
  EXPECT_EQ(pair.out.bytes.find("weights"), std::string::npos);
  // And the other way.
  std::swap(pair.client, pair.server);
  EXPECT_TRUE(pair.Carry(text) == text);
  EXPECT_EQ(pair.in.bytes.find("weights"), std::string::npos);
}

TEST(TlsLinksTest, RecordsMayComeInPiecesOfAnySize) {
  const TlsLinks links("between us");
  for (const size_t at_once : {1, 7, 1000}) {
    Pair pair(&links, &links);
    pair.out.at_once = pair.in.at_once = at_once;
    const std::string text = Pattern(40'000);
    EXPECT_TRUE(pair.Carry(text) == text) << at_once;
  }
}

TEST(TlsLinksTest, SmallPiecesGoTogether) {
  const TlsLinks links("between us");
  Pair pair(&links, &links);
  ASSERT_EQ(pair.Carry("x"), "x");
  const std::string text = Pattern(50'000);
  // Empty ones, and one that ends and begins in the midst of a record.
  const size_t cuts[] = {0, 0, 24, 30, 30, 16'000, 16'400, 49'996, 50'000};
  std::vector<iovec> pieces;
  for (size_t i = 1; i < std::size(cuts); ++i) {
    pieces.push_back({const_cast<char*>(text.data()) + cuts[i - 1], cuts[i] - cuts[i - 1]});
  }
  const size_t before = pair.out.bytes.size();
  ASSERT_EQ(pair.client->Write(pieces), static_cast<int64_t>(text.size()));
  EXPECT_EQ(pair.out.bytes.size() - before, text.size() + 4 * 22) << "four records";
  std::string got(text.size(), '\0');
  ASSERT_TRUE(ReadAll(*pair.server, got.data(), got.size(), 10000));
  EXPECT_TRUE(got == text);
}

// Whatever was taken stays what it was, though it could not leave, and other bytes came next.
TEST(TlsLinksTest, WhatWasTakenCannotBeReplaced) {
  const TlsLinks links("between us");
  Pair pair(&links, &links);
  ASSERT_EQ(pair.Carry("x"), "x");
  std::string old = Pattern(100'000), taken;
  while (true) {  // Until the socket is full, and some is held back.
    const int64_t n = pair.client->WriteBytes(old.data(), old.size());
    ASSERT_GE(n, 0);
    if (n == Stream::kWait) break;
    taken.append(old, 0, n);
  }
  EXPECT_FALSE(pair.client->Flush());
  EXPECT_EQ(pair.client->wants(), POLLOUT);
  std::fill(old.begin(), old.end(), '-');
  std::string got(taken.size(), '\0'), next(5, '\0');
  size_t at = 0;
  int64_t sent = 0;
  while (at < got.size() || sent <= 0) {
    if (sent <= 0) sent = pair.client->WriteBytes("hello", 5);
    if (at < got.size()) {
      at += std::max<int64_t>(0, pair.server->ReadBytes(&got[at], got.size() - at));
    }
  }
  ASSERT_TRUE(WriteAll(*pair.client, "", 0, 1000));
  EXPECT_TRUE(got == taken);
  ASSERT_TRUE(ReadAll(*pair.server, next.data(), next.size(), 10000));
  EXPECT_EQ(next, "hello");
}

// Whoever does not know the secret proves nothing, at either end.
TEST(TlsLinksTest, AnotherSecretIsRefused) {
  const TlsLinks ours("between us"), theirs("between me");
  Pair pair(&ours, &theirs);
  EXPECT_EQ(pair.Carry("weights"), "");
  EXPECT_FALSE(pair.client->trusted() || pair.server->trusted());
  EXPECT_EQ(pair.server->ReadBytes(&pair, 1), Stream::kBroken);
  EXPECT_EQ(pair.client->WriteBytes("weights", 7), Stream::kBroken);
  EXPECT_TRUE(pair.client->stranger() && pair.server->stranger());
  EXPECT_EQ(pair.out.bytes.find("weights"), std::string::npos);
}

TEST(TlsLinksTest, WhoDoesNotSpeakTlsIsRefused) {
  const TlsLinks links("between us");
  Pair plain_client(nullptr, &links);
  EXPECT_EQ(plain_client.Carry(Pattern(1000)), "");
  char alert[64];
  EXPECT_GT(plain_client.client->ReadBytes(alert, sizeof(alert)), 0) << "and is told";
  EXPECT_EQ(alert[0], 0x15);
  EXPECT_FALSE(plain_client.server->trusted());
  Pair plain_server(&links, nullptr);
  ASSERT_GT(plain_server.server->WriteBytes("what was that?", 14), 0);
  plain_server.Carry("weights");
  EXPECT_EQ(plain_server.client->WriteBytes("weights", 7), Stream::kBroken);
  EXPECT_TRUE(plain_server.client->stranger());
  EXPECT_EQ(plain_server.out.bytes.find("weights"), std::string::npos);
}

// Speaks TLS with a certificate of its own making, as one in the middle would who has no key.
class Impostor {
 public:
  explicit Impostor(Fd socket) : socket_(std::move(socket)) {
    key_.reset(EVP_EC_gen("P-256"));
    certificate_.reset(X509_new());
    X509_gmtime_adj(X509_getm_notBefore(certificate_.get()), 0);
    X509_gmtime_adj(X509_getm_notAfter(certificate_.get()), 3600);
    X509_set_pubkey(certificate_.get(), key_.get());
    X509_sign(certificate_.get(), key_.get(), EVP_sha256());
    context_.reset(SSL_CTX_new(TLS_server_method()));
    SSL_CTX_use_certificate(context_.get(), certificate_.get());
    SSL_CTX_use_PrivateKey(context_.get(), key_.get());
    ssl_.reset(SSL_new(context_.get()));
    SSL_set_fd(ssl_.get(), socket_.get());
  }
  // Goes on with the handshake; what it got to know, once there is something.
  std::string Accept() {
    char buffer[64];
    ERR_clear_error();
    if (SSL_accept(ssl_.get()) != 1) return "";
    const int n = SSL_read(ssl_.get(), buffer, sizeof(buffer));
    return std::string(buffer, std::max(n, 0));
  }

 private:
  template <auto free>
  struct Free {
    template <typename T>
    void operator()(T* what) const {
      free(what);
    }
  };
  Fd socket_;
  std::unique_ptr<EVP_PKEY, Free<EVP_PKEY_free>> key_;
  std::unique_ptr<X509, Free<X509_free>> certificate_;
  std::unique_ptr<SSL_CTX, Free<SSL_CTX_free>> context_;
  std::unique_ptr<SSL, Free<SSL_free>> ssl_;
};

TEST(TlsLinksTest, ACertificateIsNoProof) {
  const TlsLinks links("between us");
  int ends[2];
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, ends), 0);
  Impostor impostor{Fd(ends[1])};
  const auto client = MakeStream(&links, TlsSide::kConnects, Fd(ends[0]));
  int64_t n = 0;
  for (int turn = 0; turn < 10 && n == 0; ++turn) {
    n = client->WriteBytes("weights", 7);
    EXPECT_EQ(impostor.Accept(), "");
  }
  EXPECT_EQ(n, Stream::kBroken);
  EXPECT_FALSE(client->trusted());
  EXPECT_TRUE(client->stranger());
}

// At any byte of the handshake or after it: closed, never data, never a wait for ever.
TEST(TlsLinksTest, ACutConnectionIsNoEnd) {
  const TlsLinks links("between us");
  Pair whole(&links, &links);
  ASSERT_EQ(whole.Carry("weights"), "weights");
  whole.client->Finish();
  char byte;
  EXPECT_EQ(whole.server->ReadBytes(&byte, 1), Stream::kClosed);
  const int64_t all = static_cast<int64_t>(whole.out.bytes.size());
  for (int64_t cut = 1; cut < all; ++cut) {
    Pair pair(&links, &links);
    pair.out.left = cut;
    const std::string got = pair.Carry("weights");
    EXPECT_TRUE(got.empty() || got == "weights") << cut;
    pair.client->Finish();
    EXPECT_EQ(pair.server->ReadBytes(&byte, 1), Stream::kBroken) << "cut after " << cut;
    EXPECT_FALSE(pair.server->stranger()) << "it has said nothing wrong";
  }
}

TEST(TlsLinksTest, ChangedBytesAreNotBelieved) {
  const TlsLinks links("between us");
  for (uint64_t seed = 0; seed < 50; ++seed) {
    Pair pair(&links, &links);
    ASSERT_EQ(pair.Carry("x"), "x");
    pair.out.bytes.clear();
    ASSERT_EQ(pair.client->WriteBytes("weights", 7), 7);
    std::string record(pair.out.bytes.size(), '\0');
    ASSERT_EQ(recv(pair.server->fd(), record.data(), record.size(), 0),
              static_cast<ssize_t>(record.size()));
    const uint64_t bit = Mix(seed, 1) % ((record.size() - 5) * 8) + 40;
    record[bit / 8] = static_cast<char>(record[bit / 8] ^ (1 << bit % 8));
    ASSERT_EQ(send(pair.client->fd(), record.data(), record.size(), 0),
              static_cast<ssize_t>(record.size()));
    char byte;
    EXPECT_EQ(pair.server->ReadBytes(&byte, 1), Stream::kBroken) << "bit " << bit;
  }
}

// What was recorded of one connection says nothing to another.
TEST(TlsLinksTest, ARecordingIsNotBelieved) {
  const TlsLinks links("between us");
  Pair first(&links, &links);
  ASSERT_EQ(first.Carry("weights"), "weights");
  Pair second(nullptr, &links);
  second.client->WriteBytes(first.out.bytes.data(), first.out.bytes.size());
  char byte;
  int64_t n = 0;
  for (int i = 0; i < 10 && n == 0; ++i) n = second.server->ReadBytes(&byte, 1);
  EXPECT_EQ(n, Stream::kBroken);
}

TEST(TlsLinksTest, KeysAreChangedInTime) {
  const TlsLinks links("between us", /*key_bytes_max=*/100'000);
  Pair pair(&links, &links);
  const std::string text = Pattern(2'000'000);
  EXPECT_TRUE(pair.Carry(text) == text);
  const TlsLinks lasting("between us");
  Pair unchanged(&lasting, &lasting);
  EXPECT_TRUE(unchanged.Carry(text) == text);
  EXPECT_GE(pair.out.bytes.size(), unchanged.out.bytes.size() + 15 * 27) << "no key was changed";
}

TEST(TlsLinksTest, ADeadEndIsNoticedAndKillsNobody) {
  const TlsLinks links("between us");
  Pair pair(&links, &links);
  ASSERT_EQ(pair.Carry("x"), "x");
  EXPECT_FALSE(pair.client->gone());
  pair.server.reset();
  EXPECT_TRUE(pair.client->gone());
  EXPECT_EQ(pair.client->WriteBytes("x", 1), 1) << "taken, and nobody has it";
  EXPECT_EQ(pair.client->WriteBytes("x", 1), Stream::kBroken);
  EXPECT_TRUE(pair.client->Flush()) << "nothing is left that anyone would take";
}

}  // namespace
}  // namespace rubato
