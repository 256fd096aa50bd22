// What a job came to: summary.json, and the table at the end of `rubato train`.
#ifndef RUBATO_CLI_SUMMARY_H_
#define RUBATO_CLI_SUMMARY_H_

#include <nlohmann/json.hpp>
#include <string>

#include "absl/time/time.h"
#include "rubato/job/job_spec.h"
#include "rubato/master/messages.h"

namespace rubato {

nlohmann::ordered_json SummaryJson(const JobSpec& spec, const Snapshot& snapshot,
                                   absl::Duration elapsed, const std::string& job_dir);
// A few lines for people, drawn from the same object.
std::string SummaryTable(const nlohmann::ordered_json& summary);

}  // namespace rubato

#endif  // RUBATO_CLI_SUMMARY_H_
