// The job file: YAML in, JobSpec out, and back.
//
// Every error says where: "job.yaml:7: unknown key 'optimzer'; did you mean 'optimizer'?". Keys
// come from the table in job/job_keys.h; nothing else is accepted, and no key twice.
#ifndef RUBATO_ADAPTERS_YAML_JOB_FILE_H_
#define RUBATO_ADAPTERS_YAML_JOB_FILE_H_

#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "rubato/job/job_spec.h"

namespace rubato {

// Where each key was given: "job.yaml:7", or "--set key=value".
using JobPlaces = std::map<std::string, std::string>;

// Reads `path`, applies `overrides` ("key=value", as after --set) and validates. Relative paths in
// the file are relative to its folder, those in overrides to the working directory; the spec's are
// absolute. A job without a name is called after its file. `places` are filled, unless null.
absl::StatusOr<JobSpec> LoadJobFile(const std::string& path,
                                    const std::vector<std::string>& overrides = {},
                                    JobPlaces* places = nullptr);

// The same for text that came from `path`, which need not exist.
absl::StatusOr<JobSpec> ParseJobText(absl::string_view text, const std::string& path,
                                     const std::vector<std::string>& overrides = {},
                                     JobPlaces* places = nullptr);

// Puts where its key was given before a message that begins with one, "tables.named.users: ..."; of
// a key that was not, where what it is part of was. Else `otherwise` is put there, unless empty.
absl::Status Locate(const absl::Status& status, const JobPlaces& places,
                    absl::string_view otherwise);

// Every key with its value; loads back as an equal spec.
std::string FormatJobText(const JobSpec& spec);
// Replaces `path` atomically.
absl::Status WriteJobFile(const std::string& path, const JobSpec& spec);

}  // namespace rubato

#endif  // RUBATO_ADAPTERS_YAML_JOB_FILE_H_
