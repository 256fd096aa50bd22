#include "rubato/job/table_rules.h"

#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "rubato/base/status.h"

namespace rubato {
namespace {

constexpr absl::string_view kOptimizer = "optimizer.";
constexpr absl::string_view kName = "optimizer.name";

// Calls visit("ttl_steps", field) for every one.
template <typename Visitor>
void VisitFields(TableRules& rules, Visitor visit) {
  visit("admit_count", rules.rows.admit_count);
  visit("admit_probability", rules.rows.admit_probability);
  visit("ttl_steps", rules.rows.ttl_steps);
  visit("capacity", rules.rows.capacity);
  VisitOptimizerFields(rules.optimizer, [&](absl::string_view key, auto& field) {
    if (absl::StartsWith(key, "clip_")) return;
    visit(key == "optimizer" ? std::string(kName) : absl::StrCat(kOptimizer, key), field);
  });
}

// `others` with what `rules` say in its place.
TableRules Over(TableRules rules, TableRules others) {
  for (const std::string& key : rules.given) {
    const JobField from = *TableRuleField(rules, key);
    std::visit([&](auto* to) { *to = *std::get<decltype(to)>(from); },
               *TableRuleField(others, key));
  }
  return others;
}

// What is said of all tables' `whole` is said of one's.
absl::Status OfTable(const std::string& name, const absl::Status& status, absl::string_view whole) {
  if (status.ok()) return status;
  absl::string_view message = status.message();
  absl::ConsumePrefix(&message, whole);
  return absl::Status(status.code(), absl::StrCat(kNamedTables, ".", name, ".", message));
}

}  // namespace

const std::vector<std::string>& TableRuleKeys() {
  static const std::vector<std::string>& all = *[] {
    auto* keys = new std::vector<std::string>;
    TableRules rules;
    VisitFields(rules, [&](absl::string_view key, auto&) { keys->emplace_back(key); });
    return keys;
  }();
  return all;
}

std::optional<JobField> TableRuleField(TableRules& rules, absl::string_view key) {
  std::optional<JobField> found;
  VisitFields(rules, [&](absl::string_view one, auto& field) {
    if (one == key) found = &field;
  });
  return found;
}

RowsSpec RowsBy(const TableRules& rules, const RowsSpec& others) {
  return Over(rules, {.rows = others}).rows;
}

OptimizerSpec OptimizerBy(const TableRules& rules, const OptimizerSpec& others) {
  const bool own = rules.given.contains(std::string(kName));
  return Over(rules, {.optimizer = own ? OptimizerSpec() : others}).optimizer;
}

absl::Status CheckTableRules(const std::string& name, const TableRules& rules,
                             const RowsSpec& others, const OptimizerSpec& optimizer) {
  RUBATO_RETURN_IF_ERROR(OfTable(name, RowsBy(rules, others).Validate(), "tables."));
  return OfTable(name, OptimizerBy(rules, optimizer).Validate(), "");
}

std::string FormatNamedTables(const std::map<std::string, TableRules>& tables,
                              const std::function<std::string(const std::string&)>& quoted) {
  return absl::StrCat(
      "{",
      absl::StrJoin(tables, ", ",
                    [&](std::string* out, const auto& table) {
                      TableRules rules = table.second;
                      const auto field = [&](std::string* text, const std::string& key) {
                        const JobField value = *TableRuleField(rules, key);
                        const auto* as_text = std::get_if<std::string*>(&value);
                        absl::StrAppend(
                            text, key, ": ",
                            as_text != nullptr ? quoted(**as_text) : FormatJobField(value));
                      };
                      absl::StrAppend(out, quoted(table.first), ": {",
                                      absl::StrJoin(rules.given, ", ", field), "}");
                    }),
      "}");
}

}  // namespace rubato
