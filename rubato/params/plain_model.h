// A model for tests and simulations: one table, and some dense weights, moved by plain SGD at rate
// 1, so that whole gradients move them by whole numbers.
#ifndef RUBATO_PARAMS_PLAIN_MODEL_H_
#define RUBATO_PARAMS_PLAIN_MODEL_H_

#include <cstdint>

#include "rubato/params/declaration.h"

namespace rubato {

// Rows of `dim` weights start at 0, the `dense` others at `start`.
inline Declaration PlainModel(int64_t dense, int64_t dim, float start = 0) {
  Declaration model;
  model.signature.dense_size = dense;
  model.signature.tables.resize(1);
  model.signature.tables[0].name = "table";
  model.signature.tables[0].dim = dim;
  model.signature.tables[0].initializer.name = "zeros";
  model.optimizer = {.name = "sgd", .learning_rate = 1};
  model.dense.assign(static_cast<size_t>(dense), start);
  return model;
}

}  // namespace rubato

#endif  // RUBATO_PARAMS_PLAIN_MODEL_H_
