// A piece of a record inside a message: short, in quotes, and safe for a terminal.
#ifndef RUBATO_DATA_QUOTE_H_
#define RUBATO_DATA_QUOTE_H_

#include <string>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace rubato {

inline std::string Quote(absl::string_view text) {
  constexpr size_t kShown = 40;
  const absl::string_view more = text.size() > kShown ? "..." : "";
  return absl::StrCat("'", absl::CHexEscape(text.substr(0, kShown)), more, "'");
}

}  // namespace rubato

#endif  // RUBATO_DATA_QUOTE_H_
