// Every command of the binary; each lives in the file of its name, a group's
// small ones together.
#ifndef RUBATO_CLI_COMMANDS_H_
#define RUBATO_CLI_COMMANDS_H_

#include "rubato/cli/cli.h"

namespace rubato {

void AddGenerateProfiles(Cli& cli);
void AddGenerateTrace(Cli& cli);
void AddSimulate(Cli& cli);

}  // namespace rubato

#endif  // RUBATO_CLI_COMMANDS_H_
