#include "rubato/features/transforms.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "rubato/base/rng.h"
#include "rubato/features/fingerprint.h"

namespace rubato {
namespace {

// Most numbers of a table are short integers; for them this is five times as fast as the general
// way, and gives the same.
std::optional<double> ShortInteger(absl::string_view text) {
  const bool negative = text.front() == '-';
  if (negative) text.remove_prefix(1);
  if (text.empty() || text.size() > 15) return std::nullopt;
  int64_t value = 0;
  for (const char c : text) {
    const unsigned digit = static_cast<unsigned char>(c) - '0';
    if (digit > 9) return std::nullopt;
    value = 10 * value + static_cast<int64_t>(digit);
  }
  return static_cast<double>(negative ? -value : value);
}

// `x` as a bucket: nothing if it is none.
std::optional<int64_t> BucketOf(double x, int64_t buckets) {
  const double rounded = std::nearbyint(x);  // Half to even.
  if (!(rounded >= 0 && rounded < static_cast<double>(buckets))) return std::nullopt;
  return static_cast<int64_t>(rounded);
}

}  // namespace

std::optional<double> ToNumber(absl::string_view text) {
  if (text.empty()) return std::nullopt;
  if (const std::optional<double> integer = ShortInteger(text)) return integer;
  double value = 0;
  if (!absl::SimpleAtod(text, &value) || std::isinf(value)) return std::nullopt;
  return value;
}

bool PartThousands(absl::string_view whole, char separator) {
  const size_t first = whole.find(separator);
  if (first == absl::string_view::npos) return true;
  const absl::string_view rest = whole.substr(first);
  const size_t digits =
      static_cast<size_t>(std::count_if(whole.begin(), whole.begin() + first, absl::ascii_isdigit));
  if (digits < 1 || digits > 3 || rest.size() % 4 != 0) return false;
  for (size_t i = 0; i < rest.size(); ++i) {
    const bool is_digit = absl::ascii_isdigit(static_cast<unsigned char>(rest[i]));
    if (i % 4 == 0 ? rest[i] != separator : !is_digit) return false;
  }
  return true;
}

std::optional<double> ToNumberWithComma(absl::string_view text) {
  const size_t comma = text.find(',');
  if (comma == absl::string_view::npos) return ToNumber(text);
  const absl::string_view whole = text.substr(0, comma), behind = text.substr(comma + 1);
  const bool is_decimal = !behind.empty() &&
                          absl::ascii_isdigit(static_cast<unsigned char>(behind[0])) &&
                          behind.find_first_of(",.") == absl::string_view::npos;
  if (!is_decimal || !PartThousands(whole, '.')) return std::nullopt;
  return ToNumber(absl::StrCat(absl::StrReplaceAll(whole, {{".", ""}}), ".", behind));
}

bool FitsFloat(double x) { return std::abs(x) <= std::numeric_limits<float>::max(); }

float Normalize(double x, double mean, double deviation) {
  constexpr double kLargest = std::numeric_limits<float>::max();
  return static_cast<float>(std::clamp((x - mean) / deviation, -kLargest, kLargest));
}

float SignedLog(double x) { return static_cast<float>(std::copysign(std::log1p(std::abs(x)), x)); }

int64_t Discretize(double x, absl::Span<const double> boundaries) {
  if (std::isnan(x)) return static_cast<int64_t>(boundaries.size());
  return std::upper_bound(boundaries.begin(), boundaries.end(), x) - boundaries.begin();
}

std::vector<double> NumbersOf(absl::Span<const std::string> texts) {
  std::vector<double> numbers;
  for (const std::string& text : texts) {
    const std::optional<double> number = ToNumber(text);
    if (!number.has_value() || std::isnan(*number)) return {};
    numbers.push_back(*number);
  }
  return numbers;
}

int64_t LogRound(double x, double base, int64_t buckets, int64_t otherwise) {
  if (!(x > 0)) return otherwise;
  const double log = base == 0 ? std::log(x) : std::log(x) / std::log(base);
  return BucketOf(log, buckets).value_or(otherwise);
}

int64_t RoundIdentity(double x, int64_t buckets, int64_t otherwise) {
  return BucketOf(x, buckets).value_or(otherwise);
}

int64_t HashBucket(absl::string_view text, int64_t buckets) {
  return static_cast<int64_t>(Fingerprint(text) % static_cast<uint64_t>(buckets));
}

uint64_t CrossCode(uint64_t left, uint64_t right) { return Mix(left, right); }

absl::StatusOr<Vocabulary> Vocabulary::Make(const std::vector<std::string>& words) {
  Vocabulary vocabulary(words);
  vocabulary.position_.reserve(words.size());
  for (size_t i = 0; i < words.size(); ++i) {
    const auto [there, is_new] =
        vocabulary.position_.try_emplace(words[i], static_cast<int64_t>(i));
    if (is_new) continue;
    return absl::InvalidArgumentError(absl::StrCat("vocabulary: '", words[i], "' is word ",
                                                   there->second + 1, " and again word ", i + 1));
  }
  return vocabulary;
}

int64_t Vocabulary::Find(absl::string_view word, int64_t oov) const {
  auto found = position_.find(word);
  if (found == position_.end()) found = position_.find(spellings_.Respell(word));
  if (found != position_.end()) return found->second;
  return size() + (oov == 1 ? 0 : HashBucket(word, oov));
}

bool IsListInBrackets(absl::string_view cell) {
  return cell.size() >= 2 && cell.front() == '[' && cell.find(']') == cell.size() - 1;
}

float TakeWeight(absl::string_view* part, char separator) {
  const size_t at = part->rfind(separator);
  if (at == absl::string_view::npos || at == 0) return 1;
  const std::optional<double> weight = ToNumber(part->substr(at + 1));
  if (!weight.has_value() || !FitsFloat(*weight)) return 1;
  *part = part->substr(0, at);
  return static_cast<float>(*weight);
}

}  // namespace rubato
