// The kinds of `rubato generate KIND`, one to a file.
#ifndef RUBATO_CLI_GENERATE_H_
#define RUBATO_CLI_GENERATE_H_

#include <functional>

#include "absl/status/statusor.h"
#include "rubato/cli/cli.h"

namespace rubato {

// What the user chose to generate.
using GenerateRun = std::function<absl::StatusOr<int>()>;

// Each adds its own subcommand to `generate`, which sets `chosen` when parsed.
void AddGenerateCriteo(Console& console, CLI::App& generate, GenerateRun& chosen);
void AddGenerateDigits(Console& console, CLI::App& generate, GenerateRun& chosen);
void AddGenerateProfiles(Console& console, CLI::App& generate, GenerateRun& chosen);
void AddGenerateTrace(Console& console, CLI::App& generate, GenerateRun& chosen);

}  // namespace rubato

#endif  // RUBATO_CLI_GENERATE_H_
