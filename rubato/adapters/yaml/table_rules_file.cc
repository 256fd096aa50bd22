#include "rubato/adapters/yaml/table_rules_file.h"

#include <algorithm>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "rubato/adapters/yaml/job_value.h"
#include "rubato/base/status.h"
#include "rubato/job/suggest.h"
#include "rubato/job/table_rules.h"

namespace rubato {
namespace {

std::string Full(absl::string_view table, absl::string_view key) {
  return absl::StrCat(kNamedTables, ".", table, ".", key);
}

// What may follow "optimizer." of a table, or "".
std::vector<std::string> RulesUnder(absl::string_view section) {
  std::vector<std::string> names;
  for (const std::string& key : TableRuleKeys()) {
    absl::string_view rest = key;
    if (absl::ConsumePrefix(&rest, section)) names.emplace_back(rest);
  }
  return names;
}

absl::Status Unknown(absl::string_view table, absl::string_view key) {
  const size_t end = absl::StartsWith(key, "optimizer.") ? key.find('.') + 1 : 0;
  const absl::string_view section = key.substr(0, end), name = key.substr(end);
  std::string hint = DidYouMean(name, RulesUnder(section));
  for (const std::string& known : TableRuleKeys()) {
    // The right name in the wrong place.
    if (hint.empty() && absl::EndsWith(known, absl::StrCat(".", name))) {
      hint = absl::StrCat("; did you mean '", known, "'?");
    }
  }
  return absl::InvalidArgumentError(absl::StrCat("unknown key '", Full(table, key), "'", hint));
}

absl::Status NoMap(absl::string_view at, absl::string_view what) {
  return absl::InvalidArgumentError(absl::StrCat(at, ": ", what, ": expected keys and values"));
}

}  // namespace

absl::Status NamedTablesReader::Read(const YAML::Node& tables, const Place& place) {
  const std::string all = absl::StrCat(kNamedTables, ".");
  std::erase_if(places_, [&](const auto& entry) { return absl::StartsWith(entry.first, all); });
  tables_.clear();
  if (!tables.IsMap()) return NoMap(place(tables), kNamedTables);
  for (const auto& table : tables) {
    const std::string at = place(table.first);
    const std::string name = table.first.IsScalar() ? table.first.Scalar() : "";
    RUBATO_RETURN_IF_ERROR(Annotate(Once(table.first, all + name, at), at));
    tables_.try_emplace(name);
    RUBATO_RETURN_IF_ERROR(ReadRules(name, "", table.second, place));
  }
  return absl::OkStatus();
}

// `section` is "", or ends with a dot.
absl::Status NamedTablesReader::ReadRules(const std::string& table, const std::string& section,
                                          const YAML::Node& rules, const Place& place) {
  if (!rules.IsMap()) {
    return NoMap(place(rules), absl::StripSuffix(Full(table, section), "."));
  }
  for (const auto& rule : rules) {
    const std::string at = place(rule.first);
    const std::string key = section + (rule.first.IsScalar() ? rule.first.Scalar() : "");
    RUBATO_RETURN_IF_ERROR(Annotate(Once(rule.first, Full(table, key), at), at));
    if (!RulesUnder(key + ".").empty()) {
      RUBATO_RETURN_IF_ERROR(ReadRules(table, key + ".", rule.second, place));
    } else {
      RUBATO_RETURN_IF_ERROR(Annotate(ReadRule(table, key, rule.second), at));
    }
  }
  return absl::OkStatus();
}

absl::Status NamedTablesReader::ReadRule(const std::string& table, const std::string& key,
                                         const YAML::Node& value) {
  TableRules& rules = tables_[table];
  const std::optional<JobField> field = TableRuleField(rules, key);
  if (!field.has_value()) return Unknown(table, key);
  rules.given.insert(key);
  return ReadJobValue(Full(table, key), value, *field);
}

absl::Status NamedTablesReader::Once(const YAML::Node& key, const std::string& full,
                                     const std::string& at) {
  if (!key.IsScalar()) return absl::InvalidArgumentError("a key must be a plain name");
  const auto [given, is_first] = places_.emplace(full, at);
  if (is_first) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("key '", full, "' was given already at ", given->second));
}

absl::Status NamedTablesReader::ReadOne(absl::string_view name, const YAML::Node& value,
                                        const std::string& origin) {
  absl::string_view found;  // The longest, as optimizer.schedule.name ends with a key, too.
  for (const absl::string_view key : TableRuleKeys()) {
    const bool ends = absl::EndsWith(name, absl::StrCat(".", key));
    if (ends && key.size() > found.size() && key.size() + 1 < name.size()) found = key;
  }
  if (!found.empty()) {
    const std::string table(name.substr(0, name.size() - found.size() - 1));
    places_.emplace(absl::StrCat(kNamedTables, ".", table), origin);
    places_[Full(table, found)] = origin;
    return ReadRule(table, std::string(found), value);
  }
  const size_t optimizer = name.find(".optimizer.");
  const size_t dot = optimizer != name.npos ? optimizer : name.rfind('.');
  const bool is_section = dot == name.npos || name.substr(dot) == ".optimizer";
  if (!is_section) return Unknown(name.substr(0, dot), name.substr(dot + 1));
  const std::string section(dot == name.npos ? "" : "optimizer.");
  return absl::InvalidArgumentError(
      absl::StrCat("'", kNamedTables, ".", name, "' is a section; set one of its keys, ",
                   kNamedTables, ".", name, ".", RulesUnder(section)[0]));
}

}  // namespace rubato
