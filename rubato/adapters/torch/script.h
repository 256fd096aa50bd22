// A model's Forward as TorchScript, for whoever scores without Rubato.
//
//     forward(dense, rows 1, position 1, rows 2, position 2, ...) -> scores
//
//   dense     batch rows x number columns, float
//   rows t    distinct ids x dim of table t, float: what the export holds for these ids
//   position  batch rows x fields of the table, int32: which of `rows` each cell takes. A bag's
//             cell takes a row behind the others: its rows, combined (bags.h; fm and deepfm add
//             the products of all pairs to the first column of a sum)
//   scores    as Trainer::Predict gives them: probabilities, or logits of classes
//
// It is traced: a size that C++ computes from a tensor becomes a constant, and a model that reads
// memory by itself is lost. So what comes out is held against the model on batches of other sizes
// and contents, and refused if it differs.
#ifndef RUBATO_ADAPTERS_TORCH_SCRIPT_H_
#define RUBATO_ADAPTERS_TORCH_SCRIPT_H_

#include <torch/script.h>

#include "absl/status/statusor.h"
#include "rubato/adapters/torch/model.h"
#include "rubato/model/trainer.h"

namespace rubato {

// Scores of a batch: Forward, and what makes probabilities of its logits.
torch::Tensor Scores(TorchModel& model, const ModelInput& in);

// `model` has its weights and is not training. FAILED_PRECONDITION if its script scores otherwise.
absl::StatusOr<torch::jit::Module> TraceModel(TorchModel& model, const BatchShape& shape,
                                              const ModelSignature& signature);

// What a script says of a batch.
torch::Tensor RunScript(torch::jit::Module& script, const ModelInput& in);

}  // namespace rubato

#endif  // RUBATO_ADAPTERS_TORCH_SCRIPT_H_
