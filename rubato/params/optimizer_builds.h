// Which builds of the optimizers' loops this machine can run.
#ifndef RUBATO_PARAMS_OPTIMIZER_BUILDS_H_
#define RUBATO_PARAMS_OPTIMIZER_BUILDS_H_

#include <vector>

#include "rubato/params/optimizer_kernels.h"

namespace rubato {

// From the plainest, which runs everywhere, to the fastest, which is the one in use.
std::vector<const OptimizerKernels*> OptimizerBuilds();

}  // namespace rubato

#endif  // RUBATO_PARAMS_OPTIMIZER_BUILDS_H_
