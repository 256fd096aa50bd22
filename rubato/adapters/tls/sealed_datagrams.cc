#include "rubato/adapters/tls/sealed_datagrams.h"

#include <openssl/evp.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "rubato/adapters/tls/keys.h"
#include "rubato/base/status.h"

namespace rubato {
namespace {

constexpr char kVersion = 0x52;
constexpr size_t kSenderBytes = 16;
constexpr size_t kHeaderBytes = 1 + kSenderBytes + sizeof(uint64_t);
constexpr size_t kTagBytes = 16;
constexpr size_t kNonceBytes = 12;
constexpr uint64_t kWindow = 64;

const unsigned char* Bytes(absl::string_view text) {
  return reinterpret_cast<const unsigned char*>(text.data());
}

// The count, in the first bytes of a nonce; it follows the sender in a header, as it is.
void NonceOf(const char* header, unsigned char* nonce) {
  std::memset(nonce, 0, kNonceBytes);
  std::memcpy(nonce, header + 1 + kSenderBytes, sizeof(uint64_t));
}

}  // namespace

void SealedDatagrams::FreeCipher::operator()(evp_cipher_ctx_st* cipher) const {
  EVP_CIPHER_CTX_free(cipher);
}

SealedDatagrams::SealedDatagrams(std::string key, size_t senders_max)
    : key_(std::move(key)),
      senders_max_(senders_max),
      self_(RandomBytes(kSenderBytes)),
      cipher_(EVP_CIPHER_CTX_new()) {
  RUBATO_CHECK(EVP_EncryptInit_ex(cipher_.get(), EVP_aes_256_gcm(), nullptr, Bytes(KeyOf(self_)),
                                  nullptr) == 1);
}

SealedDatagrams::~SealedDatagrams() = default;

std::string SealedDatagrams::KeyOf(absl::string_view sender) const {
  return DeriveKey({.secret = key_, .salt = sender, .purpose = "rubato datagrams of one sender"},
                   32);
}

std::string SealedDatagrams::Seal(absl::string_view packet) {
  std::string datagram(kHeaderBytes + packet.size() + kTagBytes, '\0');
  ++count_;
  datagram[0] = kVersion;
  std::memcpy(&datagram[1], self_.data(), kSenderBytes);
  std::memcpy(&datagram[1 + kSenderBytes], &count_, sizeof(count_));
  unsigned char nonce[kNonceBytes];
  NonceOf(datagram.data(), nonce);
  auto* const out = reinterpret_cast<unsigned char*>(datagram.data());
  int n = 0;
  const bool sealed = EVP_EncryptInit_ex(cipher_.get(), nullptr, nullptr, nullptr, nonce) == 1 &&
                      EVP_EncryptUpdate(cipher_.get(), nullptr, &n, out, kHeaderBytes) == 1 &&
                      EVP_EncryptUpdate(cipher_.get(), out + kHeaderBytes, &n, Bytes(packet),
                                        static_cast<int>(packet.size())) == 1 &&
                      EVP_EncryptFinal_ex(cipher_.get(), nullptr, &n) == 1 &&
                      EVP_CIPHER_CTX_ctrl(cipher_.get(), EVP_CTRL_GCM_GET_TAG, kTagBytes,
                                          out + kHeaderBytes + packet.size()) == 1;
  RUBATO_CHECK(sealed);
  return datagram;
}

std::optional<std::string> SealedDatagrams::Open(absl::string_view datagram) {
  if (datagram.size() < kHeaderBytes + kTagBytes || datagram[0] != kVersion) return std::nullopt;
  const std::string name(datagram.substr(1, kSenderBytes));
  uint64_t count = 0;
  std::memcpy(&count, datagram.data() + 1 + kSenderBytes, sizeof(count));
  const auto known = senders_.find(name);
  if (known != senders_.end() && CameBefore(known->second, count)) return std::nullopt;
  Sender fresh;  // Remembered if it is believed, so that strangers take no memory.
  if (known == senders_.end()) {
    fresh.cipher.reset(EVP_CIPHER_CTX_new());
    RUBATO_CHECK(EVP_DecryptInit_ex(fresh.cipher.get(), EVP_aes_256_gcm(), nullptr,
                                    Bytes(KeyOf(name)), nullptr) == 1);
  }
  EVP_CIPHER_CTX* const cipher = (known == senders_.end() ? fresh : known->second).cipher.get();
  const absl::string_view body =
      datagram.substr(kHeaderBytes, datagram.size() - kHeaderBytes - kTagBytes);
  unsigned char nonce[kNonceBytes];
  NonceOf(datagram.data(), nonce);
  char tag[kTagBytes];
  std::memcpy(tag, datagram.data() + datagram.size() - kTagBytes, kTagBytes);
  std::string packet(body.size(), '\0');
  int n = 0;
  const bool believed =
      EVP_DecryptInit_ex(cipher, nullptr, nullptr, nullptr, nonce) == 1 &&
      EVP_DecryptUpdate(cipher, nullptr, &n, Bytes(datagram), kHeaderBytes) == 1 &&
      EVP_DecryptUpdate(cipher, reinterpret_cast<unsigned char*>(packet.data()), &n, Bytes(body),
                        static_cast<int>(body.size())) == 1 &&
      EVP_CIPHER_CTX_ctrl(cipher, EVP_CTRL_GCM_SET_TAG, kTagBytes, tag) == 1 &&
      EVP_DecryptFinal_ex(cipher, nullptr, &n) == 1;
  if (!believed) return std::nullopt;
  if (known == senders_.end()) Remember(name, std::move(fresh));
  Note(senders_.at(name), count);
  senders_.at(name).heard = ++opened_;
  return packet;
}

bool SealedDatagrams::CameBefore(const Sender& sender, uint64_t count) {
  if (count > sender.newest) return false;
  const uint64_t age = sender.newest - count;
  return age >= kWindow || (sender.seen >> age & 1) != 0;
}

void SealedDatagrams::Note(Sender& sender, uint64_t count) {
  if (count > sender.newest) {
    const uint64_t by = count - sender.newest;
    sender.seen = by >= kWindow ? 0 : sender.seen << by;
    sender.newest = count;
  }
  sender.seen |= uint64_t{1} << (sender.newest - count);
}

void SealedDatagrams::Remember(const std::string& name, Sender sender) {
  if (senders_.size() >= senders_max_) {
    senders_.erase(std::min_element(
        senders_.begin(), senders_.end(),
        [](const auto& a, const auto& b) { return a.second.heard < b.second.heard; }));
  }
  senders_.emplace(name, std::move(sender));
}

}  // namespace rubato
