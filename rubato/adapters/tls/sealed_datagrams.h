// Packets that only those who know a key can read or make, and that count once.
//
//     version u8 · sender 16 bytes · count u64 · the packet, encrypted · tag 16 bytes
//
// `sender` is drawn once in a process's life and gives it a key of its own, under which `count` is
// never used twice: so many packets may be sent as one likes. A receiver keeps a window of the
// last counts of each sender it believed, and drops what comes again. Not thread-safe.
#ifndef RUBATO_ADAPTERS_TLS_SEALED_DATAGRAMS_H_
#define RUBATO_ADAPTERS_TLS_SEALED_DATAGRAMS_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "absl/strings/string_view.h"

struct evp_cipher_ctx_st;

namespace rubato {

class SealedDatagrams {
 public:
  static constexpr size_t kOverhead = 1 + 16 + 8 + 16;
  // The same `key`, 32 bytes, at all who shall understand each other. The sender who was silent
  // longest is forgotten when there are more than `senders_max`.
  explicit SealedDatagrams(std::string key, size_t senders_max = 4096);
  ~SealedDatagrams();

  std::string Seal(absl::string_view packet);
  // Nothing if it is no packet of one who knows the key, was changed on the way, or came before.
  std::optional<std::string> Open(absl::string_view datagram);

 private:
  struct FreeCipher {
    void operator()(evp_cipher_ctx_st* cipher) const;
  };
  using Cipher = std::unique_ptr<evp_cipher_ctx_st, FreeCipher>;
  struct Sender {
    Cipher cipher;
    uint64_t newest = 0;  // The greatest count so far,
    uint64_t seen = 0;    // and which of the 64 up to it came: bit i is newest - i.
    uint64_t heard = 0;   // When, in packets.
  };

  std::string KeyOf(absl::string_view sender) const;
  static bool CameBefore(const Sender& sender, uint64_t count);
  static void Note(Sender& sender, uint64_t count);
  void Remember(const std::string& name, Sender sender);

  const std::string key_;
  const size_t senders_max_;
  const std::string self_;
  uint64_t count_ = 0;
  uint64_t opened_ = 0;
  Cipher cipher_;
  std::map<std::string, Sender> senders_;  // Those alone who were believed.
};

}  // namespace rubato

#endif  // RUBATO_ADAPTERS_TLS_SEALED_DATAGRAMS_H_
