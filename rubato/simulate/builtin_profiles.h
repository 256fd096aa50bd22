// Throughput curves that come with Rubato, so that a simulation needs no file but a trace.
//
// They are drawn from a formula, not measured: a step takes the computation of a global batch
// shared out over the GPUs, a part that does not shrink, and the exchange of gradients, which is
// dearer between nodes of eight. The shapes are those of real models (small ones peak at eight
// GPUs, large ones still grow at 64); the names are not those of published profiles, so that a
// published trace is never run on them by mistake.
#ifndef RUBATO_SIMULATE_BUILTIN_PROFILES_H_
#define RUBATO_SIMULATE_BUILTIN_PROFILES_H_

#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "rubato/cluster/curve.h"

namespace rubato {

// The GPU types there are profiles of; the first is what a cluster that names none is made of.
const std::vector<std::string>& BuiltinGpuTypes();

// What can be trained: each (model, batch size) has a curve on every type.
struct BuiltinModel {
  std::string model;
  int batch_size = 0;
};
const std::vector<BuiltinModel>& BuiltinModels();

// All of them as a book.
CurveBook BuiltinCurves();

// One model on one type as the CSV that --profiles reads; empty if there is no such pair.
std::string FormatBuiltinProfile(absl::string_view model, absl::string_view gpu_type);

}  // namespace rubato

#endif  // RUBATO_SIMULATE_BUILTIN_PROFILES_H_
