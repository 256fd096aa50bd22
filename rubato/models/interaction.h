// What xdeepfm's compressed interaction network computes, without ever holding the products: of a
// batch of 512 rows with 39 fields they would be 50 MB.
#ifndef RUBATO_MODELS_INTERACTION_H_
#define RUBATO_MODELS_INTERACTION_H_

#include <torch/torch.h>

namespace rubato {

// Of every row, map h is the sum over (i, j) of weight[h][i, j] * map_i * vector_j, where the last
// two are multiplied float by float.
//   maps     rows x before x dim; undefined: the vectors, which then costs half
//   vectors  rows x fields x dim
//   weight   after x (before * fields)
// Gives rows x after x dim.
torch::Tensor Interact(const torch::Tensor& maps, const torch::Tensor& vectors,
                       const torch::Tensor& weight);

}  // namespace rubato

#endif  // RUBATO_MODELS_INTERACTION_H_
