// Writing features.yaml: what is at its default is left out.
#include <algorithm>
#include <charconv>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "rubato/adapters/yaml/features_file.h"

namespace rubato {
namespace {

std::string Number(double value) {
  char text[32];
  return std::string(text, std::to_chars(text, text + sizeof(text), value).ptr);
}

// Always in quotes: a text such as "no" or "1.0" stays a text.
std::string Quoted(absl::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      absl::StrAppend(&out, "\\", std::string(1, c));
    } else if (byte < 0x20 || byte == 0x7f) {
      absl::StrAppendFormat(&out, "\\x%02x", byte);
    } else {
      out.push_back(c);
    }
  }
  return out + "\"";
}

std::string List(const std::vector<std::string>& texts) {
  return absl::StrCat(
      "[",
      absl::StrJoin(texts, ", ",
                    [](std::string* out, const std::string& text) { *out += Quoted(text); }),
      "]");
}

// Whether a word can stand on a line of its own and be read back as it is.
bool IsLine(const std::string& word) {
  if (word.empty() || word.front() == ' ' || word.back() == ' ') return false;
  return std::all_of(word.begin(), word.end(), [](char c) {
    const auto byte = static_cast<unsigned char>(c);
    return byte >= 0x20 && byte != 0x7f;
  });
}

// A long list a word a line, which reads a hundred times as fast as a list of YAML.
std::string Words(const std::vector<std::string>& words) {
  constexpr size_t kFew = 16;
  if (words.size() <= kFew || !std::all_of(words.begin(), words.end(), IsLine)) return List(words);
  return absl::StrCat("|-\n      ", absl::StrJoin(words, "\n      "));
}

void AppendFeature(const FeatureSpec& f, std::string* out) {
  const FeatureSpec plain;
  std::string lead = "  - ";
  const auto add = [&](absl::string_view key, const std::string& value, bool differs) {
    if (!differs) return;
    absl::StrAppend(out, lead, key, ": ", value, "\n");
    lead = "    ";
  };
  add("name", Quoted(f.name), true);
  add("transform", f.transform, true);
  add("column", f.columns.size() == 1 ? Quoted(f.columns[0]) : "", f.columns.size() == 1);
  add("columns", List(f.columns), f.columns.size() > 1);
  add("mean", Number(f.mean), f.mean != plain.mean);
  add("deviation", Number(f.deviation), f.deviation != plain.deviation);
  add("min", Number(f.min.value_or(0)), f.min.has_value());
  add("max", Number(f.max.value_or(0)), f.max.has_value());
  add("boundaries",
      absl::StrCat(
          "[",
          absl::StrJoin(f.boundaries, ", ", [](std::string* to, double b) { *to += Number(b); }),
          "]"),
      !f.boundaries.empty());
  add("base", Number(f.base), f.base != plain.base);
  add("buckets", absl::StrCat(f.buckets), f.buckets != plain.buckets);
  add("outside", absl::StrCat(f.outside), f.outside != plain.outside);
  add("vocabulary", Words(f.vocabulary), !f.vocabulary.empty());
  add("oov", absl::StrCat(f.oov), f.oov != plain.oov);
  add("offsets", absl::StrCat("[", absl::StrJoin(f.offsets, ", "), "]"), !f.offsets.empty());
  add("default", Number(f.otherwise.value_or(0)), f.otherwise.has_value());
  add("malformed", "missing", f.malformed_is_missing);
  add("missing", List(f.missing), !f.missing.empty());
  add("decimal", "comma", f.decimal_comma);
  add("read", f.read, f.read != plain.read);
  add("date", f.date, f.date != plain.date);
  add("part", f.part, !f.part.empty());
  add("unit", f.unit, !f.unit.empty());
  add("separator", Quoted(f.separator), !f.separator.empty());
  add("weight_separator", Quoted(f.weight_separator), !f.weight_separator.empty());
  add("brackets", "true", f.brackets);
  add("values_max", absl::StrCat(f.values_max), f.values_max != plain.values_max);
  add("combiner", f.combiner, f.combiner != plain.combiner);
}

}  // namespace

std::string FormatFeaturesText(const FeaturesSpec& spec) {
  std::string out;
  if (!spec.positive.empty()) {
    absl::StrAppend(&out, "label:\n  column: ", Quoted(spec.label),
                    "\n  positive: ", List(spec.positive), "\n");
    if (!spec.negative.empty()) {
      absl::StrAppend(&out, "  negative: ", List(spec.negative), "\n");
    }
  } else if (spec.at_least.has_value()) {
    absl::StrAppend(&out, "label:\n  column: ", Quoted(spec.label),
                    "\n  at_least: ", Number(*spec.at_least), "\n");
  } else if (!spec.label.empty()) {
    absl::StrAppend(&out, "label: ", Quoted(spec.label), "\n");
  }
  if (!spec.missing.empty()) absl::StrAppend(&out, "missing: ", List(spec.missing), "\n");
  absl::StrAppend(&out, "features:\n");
  for (const FeatureSpec& f : spec.features) AppendFeature(f, &out);
  return out;
}

}  // namespace rubato
