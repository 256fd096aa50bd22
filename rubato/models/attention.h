// What autoint's heads compute, a row at a time: the batch's table of who attends to whom, of which
// libtorch makes several copies each way, is never there as a whole.
#ifndef RUBATO_MODELS_ATTENTION_H_
#define RUBATO_MODELS_ATTENTION_H_

#include <torch/torch.h>

namespace rubato {

// `qkv`, rows x fields x 3 out, holds what every field asks for, what it is asked by, and what it
// says, each `out` floats of all `heads` one after the other. Within a head, with n = out / heads
// floats, field i becomes the sum over j of softmax over j of <q_i, k_j> / sqrt(n), times v_j.
// Gives rows x fields x out.
torch::Tensor Attend(const torch::Tensor& qkv, int64_t heads);

}  // namespace rubato

#endif  // RUBATO_MODELS_ATTENTION_H_
