// Every key of the job file, as a table: its name, what it is for, and where it lives in JobSpec.
// Reading, writing, `rubato train --help` and the check of docs/job.md all walk this table, so a
// new key is one new line here.
#ifndef RUBATO_JOB_JOB_KEYS_H_
#define RUBATO_JOB_JOB_KEYS_H_

#include <cstdint>
#include <map>
#include <string>
#include <variant>
#include <vector>

#include "absl/time/time.h"
#include "rubato/job/job_spec.h"

namespace rubato {

// Where a key's value is kept; its type is the key's type.
using JobField = std::variant<std::string*, int64_t*, uint64_t*, double*, bool*, absl::Duration*,
                              std::vector<std::string>*, std::map<std::string, std::string>*,
                              std::map<std::string, TableRules>*>;

struct JobKey {
  std::string name;  // With dots: "data.train". What may follow "tables.named" says table_rules.h.
  std::string doc;   // One line, without a full stop.
  JobField (*field)(JobSpec& spec);

  std::string Type() const;  // Of its field.
  // The default as it would stand in a job file; "required" where there is none.
  std::string Default() const;
};

// In the order of docs/job.md.
const std::vector<JobKey>& JobKeys();

// The table for people: aligned columns for --help, and the rows of docs/job.md.
std::string JobKeysHelp();
std::string JobKeysMarkdown();

// "an integer", "a list of texts", ...: what is expected.
std::string JobFieldType(const JobField& field);
// A value as it would stand in a job file: "0.05", "2h", "[a, b]", "none".
std::string FormatJobField(const JobField& field);
// "none" if infinite, else as absl::FormatDuration.
std::string FormatJobDuration(absl::Duration duration);

}  // namespace rubato

#endif  // RUBATO_JOB_JOB_KEYS_H_
