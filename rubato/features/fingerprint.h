// FarmHash's 64-bit fingerprint: the hash behind hash buckets, chosen because its values are fixed
// for ever and other systems compute the same ones, so buckets can be compared across them.
#ifndef RUBATO_FEATURES_FINGERPRINT_H_
#define RUBATO_FEATURES_FINGERPRINT_H_

#include <cstdint>

#include "absl/strings/string_view.h"

namespace rubato {

uint64_t Fingerprint(absl::string_view text);

}  // namespace rubato

#endif  // RUBATO_FEATURES_FINGERPRINT_H_
