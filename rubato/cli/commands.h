// Every command of the binary; each lives in the file of its name.
#ifndef RUBATO_CLI_COMMANDS_H_
#define RUBATO_CLI_COMMANDS_H_

#include "rubato/cli/cli.h"

namespace rubato {

void AddTrain(Cli& cli);
void AddScale(Cli& cli);
void AddShow(Cli& cli);
void AddParams(Cli& cli);
void AddRoles(Cli& cli);  // master, server, worker
void AddAnalyze(Cli& cli);
void AddInit(Cli& cli);
void AddConvert(Cli& cli);
void AddEvaluate(Cli& cli);
void AddPredict(Cli& cli);
void AddExport(Cli& cli);
void AddScore(Cli& cli);
void AddGenerate(Cli& cli);
void AddSimulate(Cli& cli);

}  // namespace rubato

#endif  // RUBATO_CLI_COMMANDS_H_
