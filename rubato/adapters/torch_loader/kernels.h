// Which of OpenBLAS's kernels multiply matrices: chosen by what the processor can do.
#ifndef RUBATO_ADAPTERS_TORCH_LOADER_KERNELS_H_
#define RUBATO_ADAPTERS_TORCH_LOADER_KERNELS_H_

namespace rubato {

// OpenBLAS knows processors by their model, and takes one it has not heard of for the oldest: on a
// Xeon newer than itself it multiplies with SSE3, at a quarter of the speed. So this says which
// kernels to take in OPENBLAS_CORETYPE, unless that is set: whoever set it knows better.
//
// OpenBLAS reads it once, when it is loaded. True if it was set just now: a process that has
// OpenBLAS loaded already must begin anew to make use of it; its children will.
bool ChooseKernels();

}  // namespace rubato

#endif  // RUBATO_ADAPTERS_TORCH_LOADER_KERNELS_H_
