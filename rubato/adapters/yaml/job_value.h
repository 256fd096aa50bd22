// One value of the job file, read and written by the type of its key.
#ifndef RUBATO_ADAPTERS_YAML_JOB_VALUE_H_
#define RUBATO_ADAPTERS_YAML_JOB_VALUE_H_

#include <yaml-cpp/yaml.h>

#include <string>

#include "absl/status/status.h"
#include "rubato/job/job_keys.h"

namespace rubato {

// INVALID_ARGUMENT "batch_size: expected an integer, found 'many'".
absl::Status ReadJobValue(absl::string_view key, const YAML::Node& node, const JobField& field);
// A value of model_options: text, or a list that becomes "256,128".
absl::Status ReadJobOption(const YAML::Node& node, std::string* option);
// On one line, quoted where YAML would misread it.
std::string WriteJobValue(const JobField& field);

}  // namespace rubato

#endif  // RUBATO_ADAPTERS_YAML_JOB_VALUE_H_
