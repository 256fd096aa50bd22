#include "rubato/features/spellings.h"

#include <algorithm>
#include <array>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"

namespace rubato {
namespace {

// "17" of "17.0", "17." and "17"; nothing of what is no integer, or has a 0 in front that may mean
// something, as in "01020".
std::optional<absl::string_view> IntegerOf(absl::string_view text) {
  const absl::string_view whole = text.substr(0, text.find('.'));
  const absl::string_view behind = text.substr(std::min(text.size(), whole.size() + 1));
  if (behind.find_first_not_of('0') != absl::string_view::npos) return std::nullopt;
  const absl::string_view digits = whole.substr(!whole.empty() && whole[0] == '-');
  const bool is_integer = !digits.empty() && std::all_of(digits.begin(), digits.end(), [](char c) {
    return absl::ascii_isdigit(static_cast<unsigned char>(c));
  });
  if (!is_integer || (digits[0] == '0' && whole.size() > 1)) return std::nullopt;
  return whole;
}

struct Pair {
  absl::string_view yes, no;
};
constexpr std::array<Pair, 7> kPairs = {{{"true", "false"},
                                         {"t", "f"},
                                         {"yes", "no"},
                                         {"y", "n"},
                                         {"on", "off"},
                                         {"1", "0"},
                                         {"1.0", "0.0"}}};

// As TRUE, True or true is written.
std::string InCaseOf(absl::string_view other, absl::string_view text) {
  const auto is_upper = [](char c) { return absl::ascii_isupper(static_cast<unsigned char>(c)); };
  if (std::none_of(other.begin(), other.end(), is_upper)) return std::string(text);
  std::string spelt = absl::AsciiStrToUpper(text);
  const bool is_all = std::all_of(other.begin(), other.end(), is_upper);
  for (size_t i = 1; i < spelt.size() && !is_all; ++i) {
    spelt[i] = absl::ascii_tolower(static_cast<unsigned char>(spelt[i]));
  }
  return spelt;
}

}  // namespace

Spellings::Spellings(const std::vector<std::string>& words) {
  are_integers_ = !words.empty() && std::all_of(words.begin(), words.end(), [](const auto& word) {
    return IntegerOf(absl::StripAsciiWhitespace(word)).has_value();
  });
  for (const std::string& word : words) {
    absl::string_view plain = absl::StripAsciiWhitespace(word);
    if (are_integers_) plain = *IntegerOf(plain);
    if (plain.size() != word.size()) words_.try_emplace(plain, word);
  }
}

absl::string_view Spellings::Respell(absl::string_view text) const {
  if (are_integers_) text = IntegerOf(text).value_or(text);
  if (words_.empty()) return text;
  const auto found = words_.find(text);
  return found == words_.end() ? text : absl::string_view(found->second);
}

std::optional<std::string> SpellBoolean(const std::vector<std::string>& words, bool value) {
  const auto find = [&](absl::string_view text) -> std::optional<absl::string_view> {
    for (const std::string& word : words) {
      const absl::string_view plain = absl::StripAsciiWhitespace(word);
      if (absl::EqualsIgnoreCase(plain, text)) return plain;
    }
    return std::nullopt;
  };
  for (const bool wants_both : {true, false}) {
    for (const auto& [yes, no] : kPairs) {
      const auto own = find(value ? yes : no), other = find(value ? no : yes);
      if (own.has_value() && (other.has_value() || (!wants_both && words.size() <= 2))) {
        return std::string(*own);
      }
      if (other.has_value() && !wants_both && words.size() <= 2) {
        return InCaseOf(*other, value ? yes : no);
      }
    }
  }
  return std::nullopt;
}

}  // namespace rubato
