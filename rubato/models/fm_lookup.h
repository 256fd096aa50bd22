// Lookup and factorization machine in one pass each way. As separate libtorch operations the same
// takes 1.3 times the whole step: ten intermediate tensors of the batch's size, each written and
// read again.
#ifndef RUBATO_MODELS_FM_LOOKUP_H_
#define RUBATO_MODELS_FM_LOOKUP_H_

#include <torch/types.h>

#include "rubato/adapters/torch/gather.h"
#include "rubato/adapters/torch/model.h"

namespace rubato {

struct FmOutput {
  torch::Tensor deep;   // batch rows x (fields * dim + extra columns): what the perceptron reads.
  torch::Tensor logit;  // batch rows: all weights and all pairs of vectors.
};

// A row of `pulled` is a weight w and then a vector v of dim floats. For each row of the batch,
//   logit = sum of w over the fields + sum over pairs of fields of <v, v'>
//   deep  = the vectors one after the other, then the row of `extra` (undefined for none).
// No gradient flows to `extra`. The sum over pairs holds those within a bag, too, if the model's
// constructor called PairsInBags.
FmOutput FmLookup(const PulledRows& pulled, const torch::Tensor& extra);

// Of bags that are summed: their values are features of their own, as in libfm, and each pair of
// them counts. (A mean of several values is one feature.)
void PairsInBags(ModelSetup& setup);

}  // namespace rubato

#endif  // RUBATO_MODELS_FM_LOOKUP_H_
