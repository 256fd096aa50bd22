#include "rubato/model/named_tables.h"

#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "rubato/base/status.h"
#include "rubato/job/suggest.h"
#include "rubato/job/table_rules.h"

namespace rubato {
namespace {

bool IsOfOptimizer(absl::string_view key) { return absl::StartsWith(key, "optimizer."); }

absl::Status NoSuchTable(const std::string& name, const JobSpec& job,
                         const ModelSignature& signature) {
  std::vector<std::string> names;
  for (const TableSpec& table : signature.tables) {
    if (!table.fields.empty()) names.push_back(table.name);
  }
  const std::string what =
      names.empty() ? "none of rows by id" : absl::StrCat("'", absl::StrJoin(names, "', '"), "'");
  return absl::InvalidArgumentError(absl::StrCat(kNamedTables, ".", name, ": ", job.model,
                                                 " has no table of this name; it has ", what,
                                                 DidYouMean(name, names)));
}

absl::Status Use(const std::string& name, const TableRules& rules, const JobSpec& job,
                 const OptimizerSpec& optimizer, TableSpec* table) {
  const RowsSpec rows = table->rows.value_or(job.tables);
  const OptimizerSpec moves = table->optimizer.value_or(optimizer);
  RUBATO_RETURN_IF_ERROR(CheckTableRules(name, rules, rows, moves));
  table->rows = RowsBy(rules, rows);
  const auto& given = rules.given;
  const auto own = std::find_if(given.begin(), given.end(), IsOfOptimizer);
  if (own == given.end()) return absl::OkStatus();
  if (!table->groups.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat(kNamedTables, ".", name, ".", *own, ": the columns of this table fall into ",
                     table->groups.size(), " groups, each with an optimizer that the model chose"));
  }
  table->optimizer = OptimizerBy(rules, moves);
  return absl::OkStatus();
}

}  // namespace

absl::Status UseNamedTables(const JobSpec& job, const OptimizerSpec& optimizer,
                            ModelSignature* signature) {
  for (const auto& [name, rules] : job.named_tables) {
    // One without fields is the model's own memory, a single row.
    const auto table = std::find_if(signature->tables.begin(), signature->tables.end(),
                                    [&table_name = name](const TableSpec& one) {
                                      return one.name == table_name && !one.fields.empty();
                                    });
    if (table == signature->tables.end()) return NoSuchTable(name, job, *signature);
    RUBATO_RETURN_IF_ERROR(Use(name, rules, job, optimizer, &*table));
  }
  return absl::OkStatus();
}

}  // namespace rubato
