// --from: which checkpoint of a job, by its number or by its folder.
#ifndef RUBATO_CLI_CHECKPOINT_FLAG_H_
#define RUBATO_CLI_CHECKPOINT_FLAG_H_

#include <CLI/CLI.hpp>
#include <filesystem>
#include <string>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

namespace rubato {

// Turns "7" and ".../checkpoints/7" into 7, for an option that is a number.
inline CLI::Validator CheckpointNumber() {
  const auto number = [](std::string& text) -> std::string {
    std::filesystem::path path = std::filesystem::path(text).lexically_normal();
    if (!path.has_filename()) path = path.parent_path();  // A slash at its end.
    const bool folder = path.has_parent_path();
    int64_t version = 0;
    const bool good = absl::SimpleAtoi(path.filename().string(), &version) && version > 0;
    if (!good || (folder && path.parent_path().filename() != "checkpoints")) {
      return absl::StrCat("'", text,
                          "' is no checkpoint: give its number, N of JOBDIR/checkpoints/N");
    }
    text = absl::StrCat(version);
    return "";
  };
  return CLI::Validator(number, "N");
}

}  // namespace rubato

#endif  // RUBATO_CLI_CHECKPOINT_FLAG_H_
