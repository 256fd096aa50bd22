#include "rubato/features/column_use.h"

#include <algorithm>
#include <optional>
#include <string>

#include "absl/algorithm/container.h"
#include "absl/container/flat_hash_set.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "rubato/data/criteo_parser.h"
#include "rubato/data/delimited_parser.h"
#include "rubato/data/formats.h"
#include "rubato/features/times.h"
#include "rubato/features/transforms.h"

namespace rubato {
namespace {

// What tables of people and things call those whom they number.
constexpr absl::string_view kThings[] = {
    "user",     "item",       "movie",     "film",    "product",  "ad",     "campaign",
    "creative", "advertiser", "publisher", "site",    "domain",   "app",    "device",
    "category", "brand",      "shop",      "store",   "seller",   "city",   "country",
    "region",   "genre",      "tag",       "page",    "query",    "video",  "author",
    "song",     "artist",     "book",      "article", "customer", "member", "session"};

// How the names of columns end that number something: a postcode is no quantity.
constexpr absl::string_view kIdEnds[] = {"id",   "ids",  "uid",  "uuid", "guid",    "pid",
                                         "mid",  "iid",  "cid",  "tid",  "aid",     "sid",
                                         "vid",  "gid",  "fid",  "idx",  "key",     "sku",
                                         "isbn", "asin", "code", "zip",  "zipcode", "postcode"};

// How they end where it may be a number of things as well: order_no, but room_num.
constexpr absl::string_view kMaybeIdEnds[] = {"no", "nr", "num", "number", "index", "hash", "ref"};

struct NameParts {
  std::string whole, last;         // Small letters: of "movieId" and "movie_id", "id" is the last.
  std::vector<std::string> words;  // All parts, without the signs and digits behind them.
};

NameParts PartsOf(absl::string_view column) {
  const auto at = [&](size_t i) { return static_cast<unsigned char>(column[i]); };
  NameParts name = {.whole = absl::AsciiStrToLower(column)};
  size_t begin = 0;
  const auto add_word = [&](size_t end) {
    while (end > begin && !absl::ascii_isalpha(at(end - 1))) --end;
    name.words.push_back(name.whole.substr(begin, end - begin));
  };
  for (size_t i = 1; i < column.size(); ++i) {
    const bool is_break = at(i - 1) == '_' || at(i - 1) == '-' || at(i - 1) == ' ' ||
                          at(i - 1) == '.' || at(i - 1) == ':';
    if (is_break || (absl::ascii_islower(at(i - 1)) && absl::ascii_isupper(at(i)))) {
      add_word(i);
      begin = i;
    }
  }
  add_word(column.size());
  name.last = name.whole.substr(begin);
  return name;
}

bool IsNamedLikeAnId(absl::string_view column) {
  const NameParts name = PartsOf(column);
  if (absl::c_linear_search(kIdEnds, name.last)) return true;
  for (const absl::string_view thing : kThings) {
    if (name.whole == thing || name.whole == absl::StrCat(thing, "id")) return true;
  }
  return false;
}

bool MayBeNamedLikeAnId(absl::string_view column) {
  const NameParts name = PartsOf(column);
  return name.last != name.whole && absl::c_linear_search(kMaybeIdEnds, name.last);
}

bool IsIntegers(const ColumnStats& stats) {
  return stats.is_number() && stats.integers() == stats.numbers() && !IsTime(stats.style());
}

double RangeOf(const ColumnStats& stats) { return stats.max() - stats.min() + 1; }

// Of few values all must differ: some would not repeat by chance.
bool NeverRepeats(const ColumnStats& stats) {
  constexpr int64_t kFew = 100;
  if (stats.present() < kFew) return stats.distinct() == stats.present();
  return static_cast<double>(stats.distinct()) > 0.95 * static_cast<double>(stats.present());
}

// How many ids may be unseen between the last of one column and the first of the next, for a table
// is a sample: the more, the more are unseen among those of the two, and rare ones come last.
double UnseenBetween(const ColumnStats& last, const ColumnStats& next) {
  constexpr double kNear = 2, kShare = 0.1, kSpacings = 10;
  double most = 0;
  for (const ColumnStats* stats : {&last, &next}) {
    const double distinct = static_cast<double>(stats->distinct());
    const double spacing = RangeOf(*stats) / distinct;
    most = std::max(most, kNear + kShare * distinct + kSpacings * (spacing - 1));
  }
  return most;
}

// Whether all columns are numbered through, each beginning where another ends: so are the ids of
// libfm, written as a table. Ranges of quantities may lie apart by chance, but not end to end, nor
// are they full: it is their values that count, since the widest range alone may be nearly all.
// Three columns also begin at 0.
bool AreNumberedThrough(const Analysis& analysis, size_t label) {
  constexpr size_t kFewest = 3;
  constexpr double kSeen = 0.25;
  std::vector<const ColumnStats*> columns;
  for (size_t i = 0; i < analysis.stats.size(); ++i) {
    const ColumnStats& stats = analysis.stats[i];
    if (i == label || stats.present() == 0) continue;
    if (!IsIntegers(stats) || stats.min() < 0 || NeverRepeats(stats)) return false;
    columns.push_back(&stats);
  }
  if (columns.size() < kFewest) return false;
  std::sort(columns.begin(), columns.end(),
            [](const ColumnStats* a, const ColumnStats* b) { return a->min() < b->min(); });
  const ColumnStats& first = *columns[0];
  if (columns.size() == kFewest && first.min() > UnseenBetween(first, first)) return false;
  double covered = static_cast<double>(first.distinct());
  for (size_t i = 1; i < columns.size(); ++i) {
    const ColumnStats &last = *columns[i - 1], &next = *columns[i];
    const double unseen = next.min() - last.max() - 1;
    if (unseen < 0 || unseen > UnseenBetween(last, next)) return false;
    covered += static_cast<double>(next.distinct());
  }
  return covered > kSeen * (columns.back()->max() - first.min() + 1);
}

// Integers that number the rows of their table, whatever they are called: each comes once, and next
// to none is left out. A model would learn from them how the rows are sorted.
bool NumberRows(const ColumnStats& stats) {
  constexpr double kNextToAll = 0.95;
  constexpr int64_t kFew = 100;  // So many in a row may be measured.
  return IsIntegers(stats) && stats.present() >= kFew && NeverRepeats(stats) &&
         static_cast<double>(stats.present()) > kNextToAll * RangeOf(stats);
}

// Integers of which bins would lose much, if they are no quantity: more than bins can tell apart,
// which repeat, the one that may stand for "none" left aside. So are the users of a table without
// names, and the codes of advertisements, whether or not they fill their range. Where they do,
// twice in the mean is enough: what occurs once shares an id anyway, and the bins stay beside it.
// An amount of money leaves gaps, and ids of it cost a little.
bool MayBeACode(const ColumnStats& stats, absl::string_view column) {
  constexpr int64_t kMany = 100, kOften = 5, kTwice = 2;
  if (!IsIntegers(stats) || stats.min() < -1 || stats.distinct() <= kMany) return false;
  if (MayBeNamedLikeAnId(column) && !NeverRepeats(stats)) return true;
  const int64_t others = stats.present() - stats.common().Items()[0].count;
  const bool is_dense = 3 * static_cast<double>(stats.distinct()) > RangeOf(stats);
  return others >= (is_dense ? kTwice : kOften) * (stats.distinct() - 1);
}

bool IsDigits(absl::string_view text) { return absl::c_all_of(text, absl::ascii_isdigit); }

// Whether zeros in front make integers as long as others, as in 07 and 01067: who counts or
// measures writes none. A slip of the pen is not meant, as one 07 among many of 8 and 9.
bool HasZerosInFront(const ColumnStats& stats) {
  size_t longest = 0;
  int64_t padded = 0, shorter = 0;
  const std::vector<CommonTexts::Item> items = stats.common().Items();
  const auto is_padded = [](absl::string_view text) { return text.size() > 1 && text[0] == '0'; };
  for (const CommonTexts::Item& item : items) {
    if (!IsDigits(item.text) || !is_padded(item.text)) continue;
    padded += item.count;
    longest = std::max(longest, item.text.size());
  }
  for (const CommonTexts::Item& item : items) {
    if (!IsDigits(item.text) || is_padded(item.text)) continue;
    if (item.text.size() < longest) shorter += item.count;
  }
  return padded > shorter;
}

// How often each integer of [min, max] was seen; 0 where it was not.
std::vector<double> CountsInOrder(const ColumnStats& stats) {
  std::vector<double> counts(static_cast<size_t>(RangeOf(stats)));
  for (const CommonTexts::Item& item : stats.common().Items()) {
    const std::optional<double> number = stats.NumberOf(item.text);
    if (!number.has_value()) continue;  // A stranger.
    counts[static_cast<size_t>(*number - stats.min())] += static_cast<double>(item.count);
  }
  return counts;
}

// Integers that are no quantity, whatever they are called: the users and the films of MovieLens's
// u.data. They are counted from 0 or 1 and leave out next to none, where a quantity's tail thins
// out; each is seen often, but some far more often than others (where nobody names the columns,
// random ids will do); and whether one is popular says little of the next, where quantities rise
// and fall. People round quantities: half of all minutes are multiples of five.
bool IsSurelyACode(const ColumnStats& stats, absl::string_view column, bool by_place) {
  constexpr double kOften = 5, kUnlike = 3, kFilled = 0.9, kUnordered = 0.7, kRound = 0.3;
  if (!MayBeACode(stats, column) || stats.common().error() > 0) return false;
  if (stats.min() < 0 || stats.min() > 1) return false;
  if (static_cast<double>(stats.distinct()) < kFilled * RangeOf(stats)) return false;
  const std::vector<double> counts = CountsInOrder(stats);
  double all = 0, round = 0, squares = 0, steps = 0;
  for (size_t i = 0; i < counts.size(); ++i) {
    all += counts[i];
    if (static_cast<int64_t>(static_cast<double>(i) + stats.min()) % 5 == 0) round += counts[i];
  }
  const double n = static_cast<double>(counts.size());
  for (size_t i = 0; i < counts.size(); ++i) {
    squares += (counts[i] - all / n) * (counts[i] - all / n);
    if (i > 0) steps += (counts[i] - counts[i - 1]) * (counts[i] - counts[i - 1]);
  }
  // By chance alone the squares would be as large as the counts, and the steps twice the squares.
  return all > kOften * n && (by_place || squares > kUnlike * all) &&
         steps > kUnordered * squares && round < kRound * all;
}

// A candidate is no date.
bool IsNamedLikeATime(absl::string_view column) {
  constexpr absl::string_view kWords[] = {"time",  "timestamp", "date",     "datetime",
                                          "epoch", "unix",      "unixtime", "eventtime"};
  constexpr absl::string_view kEnds[] = {"ts", "at",   "on",      "when",   "day",
                                         "dt", "hour", "created", "updated"};
  const NameParts name = PartsOf(column);
  if (absl::c_linear_search(kEnds, name.last)) return true;
  return absl::c_any_of(
      name.words, [&](const std::string& word) { return absl::c_linear_search(kWords, word); });
}

// Whether it is of 1990 to 2040. What lies further off is rather no time.
bool IsOfOurDays(std::optional<double> seconds) {
  constexpr double kFirst = 631152000, kLast = 2208988800;
  return seconds.has_value() && *seconds >= kFirst && *seconds < kLast;
}

// What numbers count since 1970, if they are such times; a few may be anything, as 0 where it is
// not known. Nothing if they are not.
std::optional<TimeUnit> UnixUnitOf(const ColumnStats& stats) {
  if (stats.style() != NumberStyle::kPlain) return std::nullopt;
  for (const TimeUnit unit :
       {TimeUnit::kSeconds, TimeUnit::kMilliseconds, TimeUnit::kMicroseconds}) {
    if (IsOfOurDays(ToTime(stats.quantiles().Quantile(0.02), unit)) &&
        IsOfOurDays(ToTime(stats.quantiles().Quantile(0.98), unit))) {
      return unit;
    }
  }
  return std::nullopt;
}

// The digits of dates that a column's numbers are, as 14102117, if they are such times, again but
// for a few. Nothing if they are not. `must_be`: there is no other hint, so that all must be known,
// and so many that no row of ids would leave out every number that is no date: of a hundred in a
// row that end in an hour 24 are some, and 31 of those that end in a day.
std::optional<TimeUnit> DigitsOf(const ColumnStats& stats, bool must_be) {
  constexpr size_t kMany = 60;
  const std::vector<CommonTexts::Item> items = stats.common().Items();
  if (!IsIntegers(stats) || stats.style() != NumberStyle::kPlain) return std::nullopt;
  if (must_be && (stats.common().error() > 0 || items.size() < kMany)) return std::nullopt;
  // The whole year first: as it, two digits of a year, a month and a day are of the Middle Ages.
  for (const TimeUnit unit : {TimeUnit::kDay, TimeUnit::kShortHour, TimeUnit::kHour,
                              TimeUnit::kMinute, TimeUnit::kSecond}) {
    int64_t cells = 0, times = 0;
    for (const CommonTexts::Item& item : items) {
      const std::optional<double> number = stats.NumberOf(item.text);
      cells += item.count;
      if (number.has_value() && IsOfOurDays(ToTime(*number, unit))) times += item.count;
    }
    if (times == cells || (!must_be && 50 * (cells - times) <= cells)) return unit;
  }
  return std::nullopt;
}

// What the numbers of a column say of a time, if they are times: where its name says so, or where
// there are no names and they do not repeat as codes do, or where nothing but dates has such
// digits.
std::optional<TimeUnit> TimeUnitOf(const Analysis& analysis, size_t column, bool may_be_a_code) {
  const ColumnStats& stats = analysis.stats[column];
  const bool is_named = IsNamedLikeATime(analysis.columns[column]);
  if (const auto digits = DigitsOf(stats, /*must_be=*/!is_named)) return digits;
  const bool may_count = is_named || (AreByPlace(analysis.columns) && !may_be_a_code);
  return may_count ? UnixUnitOf(stats) : std::nullopt;
}

// What a separator makes of a column's texts.
struct Cut {
  int64_t cells = 0, several = 0;     // Of all cells looked at; with more than one value.
  size_t texts = 0, values = 0;       // Different ones.
  size_t least = SIZE_MAX, most = 0;  // Values of a text.
  // Values of all texts; those with a name and a number, as "a:3", those of them whose name is a
  // number too, as "12:3", and those with a fraction, "a:0.5".
  size_t parts = 0, numbered = 0, by_number = 0, fractions = 0;
  std::string example;  // One with a number.

  bool are_numbered() const { return numbered > 0 && 50 * (parts - numbered) <= parts; }
  // Verses are numbered too, and so are the hours of a clock; neither has fractions.
  bool have_weights() const { return are_numbered() && 10 * fractions >= parts; }
  bool may_have_weights() const { return have_weights() || (are_numbered() && by_number == 0); }
};

Cut CutBy(char separator, bool brackets, const std::vector<CommonTexts::Item>& items) {
  Cut cut;
  absl::flat_hash_set<absl::string_view> values, names;
  for (const CommonTexts::Item& item : items) {
    size_t parts = 0;
    const absl::string_view text = ColumnStats::WholeParts(item.text, separator);
    SplitValues(text, separator, brackets, [&](absl::string_view part) {
      values.insert(part);
      ++parts;
      absl::string_view name = part;
      const float weight = TakeWeight(&name, ':');
      names.insert(name);
      const bool is_number = ToNumber(name).has_value();
      if (name.size() == part.size() || weight <= 0 || (is_number && !IsDigits(name))) return true;
      if (++cut.numbered == 1) cut.example = std::string(part);
      if (is_number) ++cut.by_number;
      if (part.find('.', name.size()) != absl::string_view::npos) ++cut.fractions;
      return true;
    });
    cut.parts += parts;
    cut.cells += item.count;
    if (parts > 1) cut.several += item.count;
    cut.least = std::min(cut.least, parts);
    cut.most = std::max(cut.most, parts);
  }
  cut.texts = items.size();
  cut.values = cut.have_weights() ? names.size() : values.size();
  return cut;
}

// How many of a column's cells are lists in brackets, as "[6, 41]".
enum class InBrackets { kFew, kMost, kAll };

// Few if brackets mean something else somewhere, as in "[a]|[b]": there "[a]" has its own.
InBrackets InBracketsOf(const std::vector<CommonTexts::Item>& items) {
  int64_t cells = 0, lists = 0;
  for (const CommonTexts::Item& item : items) {
    const bool is_list = IsListInBrackets(item.text) ||
                         (ColumnStats::IsCutShort(item.text) && item.text.front() == '[' &&
                          item.text.find(']') == std::string::npos);
    if (!is_list && absl::StrContains(item.text, '[')) return InBrackets::kFew;
    cells += item.count;
    if (is_list) lists += item.count;
  }
  if (lists == cells) return InBrackets::kAll;
  return 2 * lists > cells ? InBrackets::kMost : InBrackets::kFew;
}

// The use of a column whose cells are lists: most have more than one value, not all as many
// (as the parts of a date or an address are, which have no weights), and the values are far fewer
// than the texts that are made of them (as the words of names are not). Nothing if it is none.
std::optional<ColumnUse> BagOf(const ColumnStats& stats) {
  constexpr size_t kFewestTexts = 10;
  const std::vector<CommonTexts::Item> items = stats.common().Items();
  if (items.size() < kFewestTexts) return std::nullopt;
  const InBrackets in_brackets = InBracketsOf(items);
  const bool brackets = in_brackets != InBrackets::kFew;
  for (const char separator : {'|', ';', '^', ',', ' '}) {
    const Cut cut = CutBy(separator, brackets, items);
    const bool is_list = 2 * cut.several > cut.cells && 2 * cut.values <= cut.texts;
    const bool is_surely_list = cut.several > 0 && in_brackets == InBrackets::kAll;
    const bool has_any_length = cut.least != cut.most || cut.have_weights();
    if ((is_list || is_surely_list) && has_any_length) {
      return ColumnUse{.use = Use::kBag,
                       .separator = separator,
                       .brackets = brackets,
                       .numbered = cut.may_have_weights() ? cut.example : "",
                       .has_weights = cut.have_weights()};
    }
  }
  return std::nullopt;
}

// Whether cells hold more than the index of one entry: several, or one with a value.
bool HoldEntries(const ColumnStats& stats) {
  for (const CommonTexts::Item& item : stats.common().Items()) {
    if (item.text.find_first_of(" :") != std::string::npos) return true;
  }
  return false;
}

// An entry's index names something, though it looks like a number.
bool HoldsIdsOnly(const Analysis& analysis) {
  return analysis.format == "libfm" || analysis.format == "libsvm" || analysis.format == "libffm";
}

ColumnUse UseOf(const Analysis& analysis, size_t column, bool numbered_through) {
  const ColumnStats& stats = analysis.stats[column];
  // A name and "NA" are two names, and so are a name and nothing.
  const bool is_lone =
      stats.distinct() == 1 &&
      (ComesAndGoes(stats) || (!stats.is_number() && !stats.missing_texts().empty()));
  if (stats.distinct() < 2 && !is_lone) return {Use::kNone};
  const bool ids_only = HoldsIdsOnly(analysis);
  if (analysis.format == "libsvm" || (ids_only && HoldEntries(stats))) return {Use::kEntries};
  if (is_lone) return {Use::kText};
  if (IsTime(stats.style())) {
    return {stats.max() > stats.min() ? Use::kTime : Use::kNone};
  }
  const bool is_id = ids_only || numbered_through ||
                     (IsIntegers(stats) && IsNamedLikeAnId(analysis.columns[column]));
  if (stats.is_number() && stats.max() > stats.min() && !is_id) {
    const bool may_be_a_code =
        !HasCriteoColumns(analysis) && MayBeACode(stats, analysis.columns[column]);
    const std::optional<TimeUnit> unit = TimeUnitOf(analysis, column, may_be_a_code);
    if (unit.has_value()) return {.use = Use::kTime, .unit = unit};
    if (NumberRows(stats)) return {Use::kRow};
    const bool is_clock = IsNamedLikeATime(analysis.columns[column]);  // 0530 is half past five.
    if (IsIntegers(stats) && HasZerosInFront(stats) && !is_clock && !NeverRepeats(stats))
      return {Use::kText};
    if (may_be_a_code &&
        IsSurelyACode(stats, analysis.columns[column], AreByPlace(analysis.columns)))
      return {Use::kText};
    return {may_be_a_code ? Use::kCode : Use::kNumber};
  }
  if (!stats.is_number()) {
    if (const std::optional<ColumnUse> bag = BagOf(stats); bag.has_value()) return *bag;
  }
  return {NeverRepeats(stats) ? Use::kNone : Use::kText};
}

// Whether rows are names, as user and film, of two columns or more with many of them, and nothing
// else but times. Such rows are what two names are together, of which there are few: a model that
// is given the moment as well learns by heart who was there when, and the pairs no more.
bool AreManyNames(const Analysis& analysis, const std::vector<ColumnUse>& uses) {
  constexpr int64_t kMany = 100;
  int columns = 0;
  for (size_t i = 0; i < uses.size(); ++i) {
    if (uses[i].use == Use::kNumber || uses[i].use == Use::kCode) return false;
    if (uses[i].use == Use::kText && analysis.stats[i].distinct() >= kMany) ++columns;
  }
  return columns > 1;
}

// Days and hours repeat; a moment does not, or but a few times.
bool IsOfItsRow(const ColumnStats& stats) {
  constexpr int64_t kFew = 10;
  return kFew * stats.distinct() > stats.present();
}

}  // namespace

bool ComesAndGoes(const ColumnStats& stats) {
  constexpr int64_t kNextToNone = 100;  // One cell in so many.
  return kNextToNone * std::min(stats.present(), stats.missing()) >= stats.cells() &&
         stats.missing() > 0 && stats.present() > 0;
}

bool HasCriteoColumns(const Analysis& analysis) {
  if (analysis.format == "criteo") return true;
  const auto has = [&](const std::string& name) {
    return absl::c_any_of(analysis.columns, [&](const std::string& column) {
      return absl::EqualsIgnoreCase(column, name);
    });
  };
  for (int i = 1; i <= kCriteoTexts; ++i) {
    if (!has(absl::StrCat("C", i)) || (i <= kCriteoIntegers && !has(absl::StrCat("I", i)))) {
      return false;
    }
  }
  return true;
}

std::vector<ColumnUse> UsesOf(const Analysis& analysis, size_t label) {
  const bool numbered_through = !HoldsIdsOnly(analysis) && AreNumberedThrough(analysis, label);
  std::vector<ColumnUse> uses;
  for (size_t i = 0; i < analysis.columns.size(); ++i) {
    const bool is_nobodys = i == label || analysis.columns[i] == kUnnamedColumn;
    uses.push_back(is_nobodys ? ColumnUse() : UseOf(analysis, i, numbered_through));
    uses.back().by_range =
        numbered_through && uses.back().use == Use::kText && !IsNamedLikeAnId(analysis.columns[i]);
  }
  if (!AreManyNames(analysis, uses)) return uses;
  for (size_t i = 0; i < uses.size(); ++i) {
    if (uses[i].use == Use::kTime && IsOfItsRow(analysis.stats[i])) uses[i].use = Use::kStamp;
  }
  return uses;
}

}  // namespace rubato
