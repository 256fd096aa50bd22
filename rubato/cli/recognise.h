// What a user's data is, by looking at it.
#ifndef RUBATO_CLI_RECOGNISE_H_
#define RUBATO_CLI_RECOGNISE_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "rubato/data/sniff.h"
#include "rubato/job/job_spec.h"

namespace rubato {

// Format and header of the first file, with absolute paths to all of `train` and `validation`,
// which are files or globs, or a table or query of a database. `hints`: what the user says of
// files.
absl::StatusOr<DataSpec> RecogniseData(const std::vector<std::string>& train,
                                       const std::vector<std::string>& validation,
                                       const SniffHints& hints = {});

// By the name of a file, packed or not; empty if it says nothing.
std::string FormatOfName(absl::string_view name);

// How to read `data` with a model that was trained on `trained`: as `format` says, if it says
// something; else as the data says itself, by what it is (a database, a file of recordio) or by its
// name, if that is of another format than the training data's; else as in training.
absl::StatusOr<DataSpec> RecogniseForModel(const DataSpec& trained,
                                           const std::vector<std::string>& data,
                                           const std::string& format);

}  // namespace rubato

#endif  // RUBATO_CLI_RECOGNISE_H_
