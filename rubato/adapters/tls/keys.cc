#include "rubato/adapters/tls/keys.h"

#include <openssl/core_names.h>
#include <openssl/kdf.h>
#include <openssl/params.h>
#include <openssl/rand.h>

#include <memory>

#include "rubato/base/status.h"

namespace rubato {

std::string DeriveKey(const KeySource& source, size_t bytes) {
  const std::unique_ptr<EVP_KDF, decltype(&EVP_KDF_free)> kdf(
      EVP_KDF_fetch(nullptr, "HKDF", nullptr), EVP_KDF_free);
  RUBATO_CHECK(kdf != nullptr);
  const std::unique_ptr<EVP_KDF_CTX, decltype(&EVP_KDF_CTX_free)> context(
      EVP_KDF_CTX_new(kdf.get()), EVP_KDF_CTX_free);
  RUBATO_CHECK(context != nullptr);
  const auto octets = [](const char* name, absl::string_view text) {
    return OSSL_PARAM_construct_octet_string(name, const_cast<char*>(text.data()), text.size());
  };
  char digest[] = "SHA256";
  const OSSL_PARAM params[] = {
      OSSL_PARAM_construct_utf8_string(OSSL_KDF_PARAM_DIGEST, digest, 0),
      octets(OSSL_KDF_PARAM_KEY, source.secret), octets(OSSL_KDF_PARAM_SALT, source.salt),
      octets(OSSL_KDF_PARAM_INFO, source.purpose), OSSL_PARAM_construct_end()};
  std::string key(bytes, '\0');
  RUBATO_CHECK(EVP_KDF_derive(context.get(), reinterpret_cast<unsigned char*>(key.data()), bytes,
                              params) == 1);
  return key;
}

std::string RandomBytes(size_t bytes) {
  std::string random(bytes, '\0');
  RUBATO_CHECK(
      RAND_bytes(reinterpret_cast<unsigned char*>(random.data()), static_cast<int>(bytes)) == 1);
  return random;
}

}  // namespace rubato
