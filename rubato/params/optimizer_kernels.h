// The inner loops of optimizer.h, once for each instruction set the compiler is told to use.
#ifndef RUBATO_PARAMS_OPTIMIZER_KERNELS_H_
#define RUBATO_PARAMS_OPTIMIZER_KERNELS_H_

#include "rubato/params/optimizer.h"

namespace rubato {

struct OptimizerKernels {
  UpdateRowsFunction sgd;
  UpdateRowsFunction adagrad;
  bool (*all_finite)(const float* values, size_t count);
};

// Defined by optimizer_kernels.cc, compiled three times.
extern const OptimizerKernels kKernelsPlain;
extern const OptimizerKernels kKernelsAvx2;
extern const OptimizerKernels kKernelsAvx512;

}  // namespace rubato

#endif  // RUBATO_PARAMS_OPTIMIZER_KERNELS_H_
