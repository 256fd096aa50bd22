// What a job file says of single tables:
//
//     tables:
//       admit_count: 2                    # of all
//       named:
//         users: {ttl_steps: 100000, optimizer: {name: adam, learning_rate: 0.001}}
//
// Any key of `tables` and of `optimizer` may stand there, but not what clips a gradient: that is
// done to a whole step's. A table whose optimizer is named has one of its own, of which everything
// that is not said is the default; without a name single keys differ from the job's.
#ifndef RUBATO_JOB_TABLE_RULES_H_
#define RUBATO_JOB_TABLE_RULES_H_

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "rubato/job/job_keys.h"
#include "rubato/job/job_spec.h"

namespace rubato {

inline constexpr char kNamedTables[] = "tables.named";

// What may be said of a table: "ttl_steps", "optimizer.learning_rate", ...
const std::vector<std::string>& TableRuleKeys();
// Where it is kept; nothing for a key that there is not.
std::optional<JobField> TableRuleField(TableRules& rules, absl::string_view key);

// What there is of a table of which the job says this, and would be `others` if it did not.
RowsSpec RowsBy(const TableRules& rules, const RowsSpec& others);
OptimizerSpec OptimizerBy(const TableRules& rules, const OptimizerSpec& others);

// INVALID_ARGUMENT that names table and key, "tables.named.users.ttl_steps: -1 is less than 0". The
// two are what all tables have otherwise.
absl::Status CheckTableRules(const std::string& name, const TableRules& rules,
                             const RowsSpec& others, const OptimizerSpec& optimizer);

// "{users: {ttl_steps: 5, optimizer.name: adam}}", with texts as `quoted` has them.
std::string FormatNamedTables(const std::map<std::string, TableRules>& tables,
                              const std::function<std::string(const std::string&)>& quoted);

}  // namespace rubato

#endif  // RUBATO_JOB_TABLE_RULES_H_
