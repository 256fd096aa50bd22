// What models of images ask: how the dense columns lie as a picture.
#ifndef RUBATO_MODELS_IMAGE_H_
#define RUBATO_MODELS_IMAGE_H_

#include <cstdint>

#include "rubato/adapters/torch/model.h"

namespace rubato {

struct ImageShape {
  int64_t channels = 1, height = 1, width = 1;

  // rows x channels x height x width.
  torch::Tensor View(const ModelInput& in) const {
    return in.dense.view({in.rows, channels, height, width});
  }
};

// From the data (idx files say it), or from the option `image`: "28,28" or "3,32,32". Refuses, and
// answers 1 x 1 x 1, if neither tells or the columns are not as many.
ImageShape AskImageShape(ModelSetup& setup);

}  // namespace rubato

#endif  // RUBATO_MODELS_IMAGE_H_
