#include "rubato/features/propose_label.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "rubato/base/status.h"
#include "rubato/data/formats.h"
#include "rubato/data/quote.h"
#include "rubato/features/transforms.h"
#include "rubato/features/utf8.h"
#include "rubato/job/suggest.h"

namespace rubato {
namespace {

// The shape of a word, whoever wrote it: "<=50K." is "<=50k".
std::string Plainly(absl::string_view text) {
  text = absl::StripAsciiWhitespace(text);
  absl::ConsumeSuffix(&text, ".");
  return absl::AsciiStrToLower(text);
}

// Two words that only mean something beside each other, the yes first: F may be a woman, and "on" a
// place.
bool AreAPair(absl::string_view yes, absl::string_view no) {
  constexpr std::pair<absl::string_view, absl::string_view> kPairs[] = {
      {"y", "n"},     {"t", "f"},        {"on", "off"},   {"1", "0"},     {"good", "bad"},
      {"pos", "neg"}, {"+", "-"},        {"p", "n"},      {"ja", "nein"}, {"ja", "nee"},
      {"ja", "nej"},  {"oui", "non"},    {"sim", "não"},  {"tak", "nie"}, {"да", "нет"},
      {"Да", "Нет"},  {"evet", "hayır"}, {"kyllä", "ei"}, {"是", "否"},   {"はい", "いいえ"}};
  if (std::find(std::begin(kPairs), std::end(kPairs), std::pair(yes, no)) != std::end(kPairs)) {
    return true;
  }
  if (absl::StartsWith(yes, ">") && absl::StartsWith(no, "<")) return true;
  for (const absl::string_view negation :
       {"not ", "no ", "non ", "not_", "no_", "not-", "no-", "non-", "non_", "un", "non"}) {
    if (absl::StartsWith(no, negation) && no.substr(negation.size()) == yes) return true;
  }
  return false;
}

// What a word says by itself: true for a yes, false for a no, nothing if it is any other.
std::optional<bool> MeaningOf(absl::string_view word) {
  for (const absl::string_view yes : {"yes", "true", "click", "clicked", "positive"}) {
    if (word == yes) return true;
  }
  for (const absl::string_view no : {"no", "false", "none", "negative", "never"}) {
    if (word == no) return false;
  }
  if (absl::StartsWith(word, "not ") || absl::StartsWith(word, "no ")) return false;
  return std::nullopt;
}

// Whether the first of two texts is the yes, by what they say; nothing if they say nothing.
std::optional<bool> FirstIsYes(absl::string_view first, absl::string_view second) {
  const std::string a = Plainly(first), b = Plainly(second);
  if (AreAPair(a, b)) return true;
  if (AreAPair(b, a)) return false;
  const std::optional<bool> of_a = MeaningOf(a), of_b = MeaningOf(b);
  if (of_a == of_b) return std::nullopt;
  return of_a.has_value() ? *of_a : !*of_b;
}

// Whether all is 0 or 1, however these are written, but for slips of the pen.
bool IsZeroOrOne(const ColumnStats& stats) {
  if (stats.numbers() == 0 || stats.min() != 0 || stats.max() != 1) return false;
  constexpr int64_t kMany = 100;  // One row in so many.
  return stats.integers() == stats.numbers() &&
         (stats.is_all_numbers() || kMany * stats.strangers() < stats.present());
}

// What the label is, the most common first. "None" beside other texts says no, though elsewhere it
// is what is missing; so does any such text that somebody takes for a value.
std::vector<CommonTexts::Item> ValuesOf(const ColumnStats& stats,
                                        const std::vector<std::string>& positive) {
  std::vector<CommonTexts::Item> values = stats.common().Items();
  for (const auto& [text, count] : stats.missing_texts()) {
    const bool is_asked = std::find(positive.begin(), positive.end(), text) != positive.end();
    const bool says_no = text == "None" && !stats.is_all_numbers() && stats.present() > 0;
    if (is_asked || says_no) values.push_back({text, count});
  }
  std::stable_sort(values.begin(), values.end(),
                   [](const auto& a, const auto& b) { return a.count > b.count; });
  return values;
}

// All values of the label that are no yes: what is neither was not there, and is a slip of the pen.
// Of a column with very many values somebody knows only which are a yes.
void TakeNegative(const std::vector<CommonTexts::Item>& values, FeaturesSpec* spec) {
  constexpr size_t kManyValues = 100;
  if (values.size() > kManyValues) return;
  for (const CommonTexts::Item& item : values) {
    const auto& yes = spec->positive;
    if (std::find(yes.begin(), yes.end(), item.text) == yes.end()) {
      spec->negative.push_back(item.text);
    }
  }
  std::sort(spec->negative.begin(), spec->negative.end());
}

// As the user says. A value that is not there is a slip of the pen; neither may all be a yes.
absl::Status TakePositive(const ColumnStats& stats, const std::vector<std::string>& positive,
                          FeaturesSpec* spec) {
  const std::vector<CommonTexts::Item> values = ValuesOf(stats, positive);
  std::vector<std::string> texts;
  for (const CommonTexts::Item& item : values) texts.push_back(item.text);
  for (const std::string& text : positive) {
    if (std::find(texts.begin(), texts.end(), text) != texts.end()) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("label '", spec->label, "': never is '", text, "'", DidYouMean(text, texts)));
  }
  const std::set<std::string> yes(positive.begin(), positive.end());
  if (yes.size() >= values.size()) {
    return absl::InvalidArgumentError(
        absl::StrCat("label '", spec->label, "': all of its values are a yes"));
  }
  spec->positive.assign(yes.begin(), yes.end());
  TakeNegative(values, spec);
  return absl::OkStatus();
}

// Of two words, in whatever spellings, the one that says yes, or else the rarer one. False if there
// are more, or one.
bool TakeYesWord(const std::vector<CommonTexts::Item>& values, FeaturesSpec* spec) {
  std::map<std::string, int64_t> words;
  for (const CommonTexts::Item& item : values) words[Plainly(item.text)] += item.count;
  if (words.size() != 2) return false;
  const auto first = words.begin(), second = std::next(first);
  const bool is_first =
      FirstIsYes(first->first, second->first).value_or(first->second < second->second);
  const std::string& yes = is_first ? first->first : second->first;
  for (const CommonTexts::Item& item : values) {
    if (Plainly(item.text) == yes) spec->positive.push_back(item.text);
  }
  std::sort(spec->positive.begin(), spec->positive.end());
  TakeNegative(values, spec);
  return true;
}

std::string Plain(const std::string& text) { return IsUtf8(text) ? text : absl::CHexEscape(text); }

absl::Status NoLabel(const std::string& label, const ColumnStats& stats) {
  const std::vector<CommonTexts::Item> values = ValuesOf(stats, {});
  const int64_t distinct = std::max(stats.distinct(), static_cast<int64_t>(values.size()));
  if (values.size() < 2) {
    return absl::InvalidArgumentError(absl::StrCat(
        "label '", label, "': ",
        values.empty() ? "has no values" : absl::StrCat("is always '", Plain(values[0].text), "'"),
        stats.missing() > 0 ? ", or missing" : "",
        "; of two classes there must be some rows each"));
  }
  std::string some;
  for (size_t i = 0; i < std::min<size_t>(3, values.size()); ++i) {
    absl::StrAppend(&some, i == 0 ? "'" : ", '", Plain(values[i].text), "'");
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "label '", label, "': has ", distinct, " different values, ", some,
      values.size() > 3 ? " and others" : "", "; a label of two classes is ",
      "expected, or marks out of a few; ",
      stats.is_all_numbers() && stats.min() < stats.max()
          ? absl::StrCat("from which number on it is a yes is said by --positive '>=NUMBER' of ",
                         "rubato init, or in features.yaml, as label: {column: ", label,
                         ", at_least: NUMBER}; the median is ", stats.quantiles().Quantile(0.5))
          : absl::StrCat(
                "which values are a yes is said by --positive VALUE... of rubato init, or ",
                "in features.yaml, as label: {column: ", label, ", positive: [...]}")));
}

// The number of ">=4", where it is no label itself; nothing if it is anything else.
std::optional<double> ThresholdOf(const ColumnStats& stats,
                                  const std::vector<std::string>& positive) {
  if (positive.size() != 1 || !stats.is_all_numbers()) return std::nullopt;
  absl::string_view text = positive[0];
  if (!absl::ConsumePrefix(&text, ">=")) return std::nullopt;
  return ToNumber(absl::StripAsciiWhitespace(text));
}

absl::Status TakeThreshold(const ColumnStats& stats, double at_least, FeaturesSpec* spec) {
  if (at_least <= stats.min() || at_least > stats.max()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "label '", spec->label, "': ", at_least > stats.max() ? "none" : "all", " of its numbers, ",
        stats.min(), " to ", stats.max(), ", are at least ", at_least));
  }
  spec->at_least = at_least;
  return absl::OkStatus();
}

absl::Status SoftLabel(const std::string& label) {
  return absl::InvalidArgumentError(absl::StrCat(
      "label '", label, "': has numbers between 0 and 1; soft labels cannot be learned from, only ",
      "two classes; from which number on it is a yes is said by --positive '>=NUMBER' of rubato ",
      "init, or make it a column of 0 and 1"));
}

}  // namespace

absl::Status ProposeLabel(const ColumnStats& stats, const std::string& label,
                          const std::vector<std::string>& positive, FeaturesSpec* spec) {
  constexpr int64_t kMarksMax = 11;  // From 0 to 10, or from half a star to five.
  spec->label = label;
  if (const auto at_least = ThresholdOf(stats, positive); at_least.has_value()) {
    return TakeThreshold(stats, *at_least, spec);
  }
  if (!positive.empty()) return TakePositive(stats, positive, spec);
  if (IsZeroOrOne(stats)) return absl::OkStatus();
  const bool within_one = stats.min() >= 0 && stats.max() <= 1 && stats.min() < stats.max();
  if (stats.is_all_numbers() && within_one && stats.integers() < stats.numbers()) {
    return SoftLabel(label);
  }
  const std::vector<CommonTexts::Item> values = ValuesOf(stats, {});
  if (stats.is_all_numbers() && values.size() == 2 && stats.min() < stats.max()) {
    const bool first = *ToNumber(values[0].text) > *ToNumber(values[1].text);
    spec->positive = {values[first ? 0 : 1].text};
    TakeNegative(values, spec);
    return absl::OkStatus();
  }
  if (!stats.is_all_numbers() && TakeYesWord(values, spec)) return absl::OkStatus();
  if (stats.distinct() < 2 || !stats.is_all_numbers() || stats.distinct() > kMarksMax) {
    return NoLabel(label, stats);
  }
  // Marks: what is better than usual.
  for (const CommonTexts::Item& item : values) {
    if (*ToNumber(item.text) > stats.mean()) spec->positive.push_back(item.text);
  }
  if (spec->positive.empty()) return NoLabel(label, stats);  // One number, in several spellings.
  std::sort(spec->positive.begin(), spec->positive.end());
  TakeNegative(values, spec);
  return absl::OkStatus();
}

int64_t LabelSlips(const ColumnStats& stats) { return IsZeroOrOne(stats) ? stats.strangers() : 0; }

std::string LabelText(const FeaturesSpec& spec) {
  const auto quoted = [](std::string* out, const std::string& text) {
    absl::StrAppend(out, "'", Plain(text), "'");
  };
  if (spec.at_least.has_value()) {
    return absl::StrCat("label '", spec.label, "': ", *spec.at_least,
                        " and more count as 1, less as 0");
  }
  const std::vector<std::string> one = {"1"}, zero = {"0"};
  const std::vector<std::string>& yes = spec.positive.empty() ? one : spec.positive;
  const std::vector<std::string>& no = spec.positive.empty() ? zero : spec.negative;
  return absl::StrCat("label '", spec.label, "': ", absl::StrJoin(yes, ", ", quoted),
                      yes.size() == 1 ? " counts as 1, " : " count as 1, ",
                      no.empty() ? "all others" : absl::StrJoin(no, ", ", quoted), " as 0");
}

absl::Status NoSuchLabel(const std::string& label, const std::vector<std::string>& columns) {
  constexpr size_t kNamed = 10;
  std::vector<std::string> names;
  std::string garbled;
  for (const std::string& column : columns) {
    if (IsUtf8(column)) {
      names.push_back(absl::StrCat("'", column, "'"));
    } else if (garbled.empty()) {
      garbled = absl::StrCat("; ", Quote(column),
                             " is no UTF-8: iconv -f latin1 -t utf-8 FILE writes it so");
    }
  }
  std::string more = garbled.empty() ? DidYouMean(label, columns) : garbled;
  if (more.empty()) {
    const size_t others = names.size() - std::min(names.size(), kNamed);
    names.resize(names.size() - others);
    more = absl::StrCat("; it has ", absl::StrJoin(names, ", "),
                        others == 0 ? "" : absl::StrCat(" and ", others, " more"));
  }
  if (AreByPlace(columns) && !ToNumber(label).has_value()) {
    absl::StrAppend(&more,
                    ", by their places: line 1 was not taken for a header, as it is if a "
                    "cell of it is the label's name");
  }
  return absl::InvalidArgumentError(
      absl::StrCat("label: the data has no column '", label, "'", more));
}

}  // namespace rubato
