// Keys out of a secret.
#ifndef RUBATO_ADAPTERS_TLS_KEYS_H_
#define RUBATO_ADAPTERS_TLS_KEYS_H_

#include <cstddef>
#include <string>

#include "absl/strings/string_view.h"

namespace rubato {

// HKDF with SHA-256 (RFC 5869). The secret must be hard to guess, for nothing here makes guessing
// slow: 16 random bytes, not a word.
struct KeySource {
  absl::string_view secret;
  absl::string_view salt;
  absl::string_view purpose;  // Keys for different purposes tell nothing of each other.
};
std::string DeriveKey(const KeySource& source, size_t bytes);

// Bytes that nobody can guess, nor come again.
std::string RandomBytes(size_t bytes);

}  // namespace rubato

#endif  // RUBATO_ADAPTERS_TLS_KEYS_H_
