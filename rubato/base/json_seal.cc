#include "rubato/base/json_seal.h"

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/strip.h"
#include "rubato/base/bytes.h"

namespace rubato {
namespace {

constexpr absl::string_view kBefore = ",\n \"checksum\": \"", kAfter = "\"\n}\n";
constexpr absl::string_view kAbove = "checksum ";

std::string Hex(absl::string_view bytes) { return absl::StrFormat("%016x", Checksum(bytes)); }

}  // namespace

std::string Sealed(absl::string_view object) {
  object = absl::StripTrailingAsciiWhitespace(object);
  absl::ConsumeSuffix(&object, "}");
  object = absl::StripTrailingAsciiWhitespace(object);
  return absl::StrCat(object, kBefore, Hex(object), kAfter);
}

Seal SealOf(absl::string_view text) {
  constexpr size_t kHex = 16;
  if (!absl::ConsumeSuffix(&text, kAfter) || text.size() < kHex) return Seal::kNone;
  const absl::string_view checksum = text.substr(text.size() - kHex);
  text.remove_suffix(kHex);
  if (!absl::ConsumeSuffix(&text, kBefore)) return Seal::kNone;
  return checksum == Hex(text) ? Seal::kSound : Seal::kBroken;
}

std::string SealedLine(absl::string_view text) { return absl::StrCat(text, " ", Hex(text), "\n"); }

bool ReadSealedLine(absl::string_view line, std::string* text) {
  if (!absl::ConsumeSuffix(&line, "\n")) return false;
  const size_t space = line.rfind(' ');
  *text = std::string(line.substr(0, space));
  return space == absl::string_view::npos || line.substr(space + 1) == Hex(*text);
}

std::string SealedLines(absl::string_view lines) {
  return absl::StrCat(kAbove, Hex(lines), "\n", lines);
}

bool ReadSealedLines(absl::string_view text, std::string* lines) {
  const size_t end = absl::StartsWith(text, kAbove) ? text.find('\n') + 1 : 0;
  *lines = std::string(text.substr(end));
  return !absl::StartsWith(text, kAbove) || text == SealedLines(*lines);
}

}  // namespace rubato
