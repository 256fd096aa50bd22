// Texts that mean a word of a vocabulary without being it, so that a value is the same one on
// whatever way it comes: from a file, from a column char(10) of a database, as JSON.
#ifndef RUBATO_FEATURES_SPELLINGS_H_
#define RUBATO_FEATURES_SPELLINGS_H_

#include <optional>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/string_view.h"

namespace rubato {

// Blanks around a word do not count; where all words are integers, neither does ".0" behind them:
// pandas writes 17 as "17.0" in a column with gaps, and JSON has 17.
class Spellings {
 public:
  explicit Spellings(const std::vector<std::string>& words);

  // For `text`, which has no blanks around it and is no word of the vocabulary: what is one, if
  // anything is. It lives as long as both.
  absl::string_view Respell(absl::string_view text) const;

 private:
  bool are_integers_ = false;
  absl::flat_hash_map<std::string, std::string>
      words_;  // Those spelt otherwise, by the plain text.
};

// What a vocabulary has for true or false, as TRUE, True, t, yes, on or 1 for true; for the one of
// them that it lacks, as the other is spelt. Nothing if it has no such words, or others too of
// which one happens to look like that.
std::optional<std::string> SpellBoolean(const std::vector<std::string>& words, bool value);

}  // namespace rubato

#endif  // RUBATO_FEATURES_SPELLINGS_H_
