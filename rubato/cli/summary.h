// What a job came to: summary.json, and the table at the end of `rubato train`.
#ifndef RUBATO_CLI_SUMMARY_H_
#define RUBATO_CLI_SUMMARY_H_

#include <map>
#include <nlohmann/json.hpp>
#include <string>

#include "absl/time/time.h"
#include "rubato/job/job_spec.h"
#include "rubato/master/messages.h"

namespace rubato {

// `elapsed` is the time of this run, which began with `records_before` records committed.
nlohmann::ordered_json SummaryJson(const JobSpec& spec, const Snapshot& snapshot,
                                   absl::Duration elapsed, int64_t records_before,
                                   const std::string& job_dir);
nlohmann::ordered_json ServersScaledJson(const ServersScaled& scaled);
// A few lines for people, drawn from the same object.
std::string SummaryTable(const nlohmann::ordered_json& summary);
// Whether a binary model's records were all positive, or all negative: there was nothing to tell
// apart, so there is no AUC, and the accuracy means little.
bool IsOneClass(const std::map<std::string, double>& metrics);
// That scores are worth less than the rate of positives alone, with both numbers and what helps;
// empty if they are worth more.
std::string WorseThanConstantText(const std::map<std::string, double>& metrics);

}  // namespace rubato

#endif  // RUBATO_CLI_SUMMARY_H_
