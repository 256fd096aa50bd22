// A JSON document that tells whether it is as it was written: its last member is a checksum of all
// that comes before it. People read and edit JSON, and a digit that changed on the disk looks like
// any other.
#ifndef RUBATO_BASE_JSON_SEAL_H_
#define RUBATO_BASE_JSON_SEAL_H_

#include <string>

#include "absl/strings/string_view.h"

namespace rubato {

// `object`, the text of one with at least one member, with "checksum" as its last.
std::string Sealed(absl::string_view object);

enum class Seal {
  kNone,    // Not one that Sealed wrote, or damaged at its end.
  kSound,   // As it was.
  kBroken,  // It was changed.
};
Seal SealOf(absl::string_view text);

// The same for a word or two in a line of its own.
std::string SealedLine(absl::string_view text);
// What was sealed, or nothing if it was changed. A line without a seal, of an earlier build, is
// what it says, up to its end of line.
bool ReadSealedLine(absl::string_view line, std::string* text);

// The same for many lines, in one of its own before them: what has lost its end is then not taken
// for lines without a seal.
std::string SealedLines(absl::string_view lines);
// As above. A damaged seal may be taken for the first of the lines, so whoever reads them looks at
// each.
bool ReadSealedLines(absl::string_view text, std::string* lines);

}  // namespace rubato

#endif  // RUBATO_BASE_JSON_SEAL_H_
