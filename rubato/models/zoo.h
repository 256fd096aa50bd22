// The models that come with Rubato, by the name a job file gives.
#ifndef RUBATO_MODELS_ZOO_H_
#define RUBATO_MODELS_ZOO_H_

#include <string>

#include "absl/status/statusor.h"
#include "rubato/adapters/torch/torch_trainer.h"

namespace rubato {

// NOT_FOUND lists the names there are, the nearest first.
absl::StatusOr<ModelFactory> FindZooModel(const std::string& name);

// One a model file. Options and columns are described there.
TorchModel* MakeAutoInt(ModelSetup& setup);
TorchModel* MakeDcn(ModelSetup& setup);
TorchModel* MakeDcnV2(ModelSetup& setup);
TorchModel* MakeDeepFm(ModelSetup& setup);
TorchModel* MakeFinalMlp(ModelSetup& setup);
TorchModel* MakeFm(ModelSetup& setup);
TorchModel* MakeLogistic(ModelSetup& setup);
TorchModel* MakeMnistCnn(ModelSetup& setup);
TorchModel* MakeResNet(ModelSetup& setup);
TorchModel* MakeTransformer(ModelSetup& setup);
TorchModel* MakeWideDeep(ModelSetup& setup);
TorchModel* MakeXDeepFm(ModelSetup& setup);

}  // namespace rubato

#endif  // RUBATO_MODELS_ZOO_H_
