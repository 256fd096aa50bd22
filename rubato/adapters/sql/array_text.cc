#include "rubato/adapters/sql/array_text.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace rubato {
namespace {

bool IsNumber(absl::string_view text) {
  return !text.empty() && absl::ascii_isdigit(static_cast<unsigned char>(text.back())) &&
         text.find_first_not_of("0123456789+-.eE") == absl::string_view::npos &&
         text.find_first_of("-+", 1) == absl::string_view::npos;
}

// A value without quotes around it, none of which holds a quote or a backslash.
std::string Plain(absl::string_view value, bool of_booleans) {
  if (value == "NULL") return "null";
  if (of_booleans) return value == "t" ? "1" : "0";
  return IsNumber(value) ? std::string(value) : absl::StrCat("\"", value, "\"");
}

// What begins with a quote, up to the one that ends it. Quotes and backslashes have a backslash
// before them, as in JSON, which alone has others for the end of a line and the like.
std::string TakeQuoted(absl::string_view* rest) {
  std::string text = "\"";
  size_t i = 1;
  for (; i < rest->size() && (*rest)[i] != '"'; ++i) {
    const char c = (*rest)[i];
    if (static_cast<unsigned char>(c) < ' ') {
      absl::StrAppendFormat(&text, "\\u%04x", c);
      continue;
    }
    text.push_back(c);
    if (c == '\\' && i + 1 < rest->size()) text.push_back((*rest)[++i]);
  }
  rest->remove_prefix(std::min(i + 1, rest->size()));
  return text + "\"";
}

}  // namespace

std::string ArrayAsJson(absl::string_view array, bool of_booleans) {
  if (!absl::StartsWith(array, "{")) return std::string(array);
  std::string json;
  while (!array.empty()) {
    const char c = array.front();
    if (c == '"') {
      json.append(TakeQuoted(&array));
      continue;
    }
    const size_t end = std::min(array.find_first_of("{},"), array.size());
    if (end > 0) {
      json.append(Plain(array.substr(0, end), of_booleans));
      array.remove_prefix(end);
      continue;
    }
    json.append(c == '{' ? "[" : c == '}' ? "]" : ", ");
    array.remove_prefix(1);
  }
  return json;
}

}  // namespace rubato
