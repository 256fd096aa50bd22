#include "rubato/base/bytes.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "absl/strings/str_cat.h"

namespace rubato {

absl::Status ByteReader::Check(absl::string_view what) const {
  if (ok_) return absl::OkStatus();
  return absl::DataLossError(
      absl::StrCat(what, ": cut short at byte ", at_, " of ", bytes_.size()));
}

absl::string_view ByteReader::GetBytes(size_t n) {
  if (!ok_ || n > remaining()) {
    ok_ = false;
    return {};
  }
  const absl::string_view result = bytes_.substr(at_, n);
  at_ += n;
  return result;
}

uint64_t HashText(absl::string_view text, uint64_t seed) {
  return XXH3_64bits_withSeed(text.data(), text.size(), seed);
}

}  // namespace rubato
