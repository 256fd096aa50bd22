// Loops that libtorch has no operation for, over sixteen floats at once: those of interaction.h and
// attention.h. lane_kernels.cc is compiled once for each instruction set, and the machine's best is
// taken. (Clones of a function by attribute would not do: gcc cuts wide vectors up before it makes
// them.)
#ifndef RUBATO_MODELS_LANE_KERNELS_H_
#define RUBATO_MODELS_LANE_KERNELS_H_

#include <cmath>
#include <cstdint>

namespace rubato {

constexpr int64_t kLanes = 16;
// Maps that are summed up side by side, so that each product is used as often as it fits into
// registers.
constexpr int64_t kTile = 4;

// So many as fill lanes up; what is too much is zeros.
inline int64_t Padded(int64_t count) { return (count + kLanes - 1) / kLanes * kLanes; }

// Of an interaction. Pairs (i, j) are counted row by row; if the maps are the vectors, only those
// with j >= i, for (j, i) is the same product.
struct InteractionSizes {
  int64_t rows, before, fields, after, dim;
  bool is_square;
  int64_t first(int64_t i) const { return is_square ? i : 0; }
  int64_t pairs() const { return is_square ? fields * (fields + 1) / 2 : before * fields; }
  int64_t lanes() const { return Padded(dim); }
  int64_t maps() const { return Padded(after); }
};

// Of attention; `head`: floats of one.
struct AttentionSizes {
  int64_t rows, fields, heads, head;
  int64_t out() const { return heads * head; }
  int64_t padded() const { return Padded(fields); }
  float scale() const { return 1 / std::sqrt(static_cast<float>(head)); }
};

struct LaneKernels {
  // All rows: `out` from `maps` and `vectors`, with weights by tiles of kTile maps, then pairs.
  void (*interact)(const InteractionSizes& n, const float* maps, const float* vectors,
                   const float* by_tile, float* out);
  // The way back, with weights by pair, then map. `gradient` is of `out`; `turned` has room for as
  // much of a row, turned so that maps are what lies side by side. The last three are added to.
  void (*interact_back)(const InteractionSizes& n, const float* maps, const float* vectors,
                        const float* by_pair, const float* gradient, float* turned,
                        float* grad_maps, float* grad_vectors, float* grad_by_pair);

  // One head of one row, for sixteen fields that ask: `q`, scaled, and `out` are lanes of theirs,
  // padded() apart from float to float; k and v lie `stride` apart from field to field. `weights`
  // has room for lanes of every field. `log_sums` are the logarithms of the softmax's denominators,
  // by which the way back finds the same weights again.
  void (*ask)(const AttentionSizes& n, const float* q, const float* k, const float* v,
              int64_t stride, float* weights, float* out, float* log_sums);
  // Adds to the gradient of q. `grad` is of what they are told, lanes as well; `deltas` the sums
  // over floats of that times what they were told.
  void (*ask_back)(const AttentionSizes& n, const float* q, const float* k, const float* v,
                   int64_t stride, const float* grad, const float* log_sums, const float* deltas,
                   float* grad_q);
  // Adds to the gradients of k and v, of sixteen fields that are asked, which are the lanes here:
  // q, scaled, and grad lie field by field.
  void (*asked_back)(const AttentionSizes& n, const float* q, const float* k, const float* v,
                     const float* grad, const float* log_sums, const float* deltas, float* grad_k,
                     float* grad_v);
};

extern const LaneKernels kLanesPlain, kLanesAvx2, kLanesAvx512;

// The best that this machine has.
const LaneKernels& ChosenLanes();

}  // namespace rubato

#endif  // RUBATO_MODELS_LANE_KERNELS_H_
