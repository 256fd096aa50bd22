// `tables.named` of a job file: what it says of single tables, each key with the place where it was
// given. What may stand there is in job/table_rules.h.
#ifndef RUBATO_ADAPTERS_YAML_TABLE_RULES_FILE_H_
#define RUBATO_ADAPTERS_YAML_TABLE_RULES_FILE_H_

#include <yaml-cpp/yaml.h>

#include <functional>
#include <map>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "rubato/adapters/yaml/job_file.h"
#include "rubato/job/job_spec.h"

namespace rubato {

class NamedTablesReader {
 public:
  // Where a node stands.
  using Place = std::function<std::string(const YAML::Node&)>;

  NamedTablesReader(std::map<std::string, TableRules>& tables, JobPlaces& places)
      : tables_(tables), places_(places) {}

  // {NAME: {KEY: VALUE, ...}, ...} in place of all that was said before. Messages begin with the
  // place.
  absl::Status Read(const YAML::Node& tables, const Place& place);
  // One key of one table, "users.ttl_steps": a name may have dots, too. Messages have no place.
  absl::Status ReadOne(absl::string_view name, const YAML::Node& value, const std::string& origin);

 private:
  absl::Status ReadRules(const std::string& table, const std::string& section,
                         const YAML::Node& rules, const Place& place);
  absl::Status ReadRule(const std::string& table, const std::string& key, const YAML::Node& value);
  absl::Status Once(const YAML::Node& key, const std::string& full, const std::string& at);

  std::map<std::string, TableRules>& tables_;
  JobPlaces& places_;
};

}  // namespace rubato

#endif  // RUBATO_ADAPTERS_YAML_TABLE_RULES_FILE_H_
