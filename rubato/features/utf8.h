// Text that YAML and JSON can hold as it is.
#ifndef RUBATO_FEATURES_UTF8_H_
#define RUBATO_FEATURES_UTF8_H_

#include "absl/strings/string_view.h"

namespace rubato {

// Whether `text` is UTF-8 in its shape: right lengths and continuation bytes.
inline bool IsUtf8(absl::string_view text) {
  size_t i = 0;
  while (i < text.size()) {
    const auto lead = static_cast<unsigned char>(text[i++]);
    if (lead < 0x80) continue;
    const int more = lead >= 0xc2 && lead <= 0xdf   ? 1
                     : lead >= 0xe0 && lead <= 0xef ? 2
                     : lead >= 0xf0 && lead <= 0xf4 ? 3
                                                    : 0;
    if (more == 0) return false;
    for (int k = 0; k < more; ++k, ++i) {
      if (i >= text.size() || (static_cast<unsigned char>(text[i]) & 0xc0) != 0x80) return false;
    }
  }
  return true;
}

}  // namespace rubato

#endif  // RUBATO_FEATURES_UTF8_H_
