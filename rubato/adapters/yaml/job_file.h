// The job file: YAML in, JobSpec out, and back.
//
// Every error says where: "job.yaml:7: unknown key 'optimzer'; did you mean 'optimizer'?". Keys
// come from the table in job/job_keys.h; nothing else is accepted, and no key twice.
#ifndef RUBATO_ADAPTERS_YAML_JOB_FILE_H_
#define RUBATO_ADAPTERS_YAML_JOB_FILE_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "rubato/job/job_spec.h"

namespace rubato {

// Reads `path`, applies `overrides` ("key=value", as after --set) and validates. Relative paths in
// the file are relative to its folder, those in overrides to the working directory; the spec's are
// absolute. A job without a name is called after its file.
absl::StatusOr<JobSpec> LoadJobFile(const std::string& path,
                                    const std::vector<std::string>& overrides = {});

// The same for text that came from `path`, which need not exist.
absl::StatusOr<JobSpec> ParseJobText(absl::string_view text, const std::string& path,
                                     const std::vector<std::string>& overrides = {});

// Every key with its value; loads back as an equal spec.
std::string FormatJobText(const JobSpec& spec);
// Replaces `path` atomically.
absl::Status WriteJobFile(const std::string& path, const JobSpec& spec);

}  // namespace rubato

#endif  // RUBATO_ADAPTERS_YAML_JOB_FILE_H_
