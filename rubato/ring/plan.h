// The exchanges of one allreduce, as each rank sees them.
#ifndef RUBATO_RING_PLAN_H_
#define RUBATO_RING_PLAN_H_

#include <cstdint>
#include <vector>

namespace rubato {

enum class Algorithm : uint8_t {
  kRing,     // 2(P-1) exchanges of 1/P of the buffer: least bytes, one neighbour to send to.
  kHalving,  // The same bytes in 2 log2(P) exchanges of halves, quarters and so on, and back: fewer
             // turns to wait for. For P a power of two; a ring otherwise.
  kTree      // 2(P-1) messages in all, 2 log2(P) deep: least messages, for small buffers.
};

// A slice of the buffer, in elements.
struct Slice {
  int64_t begin = 0;
  int64_t end = 0;
  int64_t size() const { return end - begin; }
  friend bool operator==(const Slice&, const Slice&) = default;
};

// One stage at one rank: its two halves go on at once. A part of a slice may be sent as soon as all
// that earlier stages receive of it has come in.
struct Exchange {
  int send_to = -1;  // -1: nothing to send.
  Slice send;
  int receive_from = -1;
  Slice receive;
  // Add what comes in; otherwise it replaces, for it is a final sum. What a rank sends in a stage
  // without `reduce` is final too: rounded to the wire's format before it leaves, so that its
  // owner keeps the same bits as everyone else.
  bool reduce = false;
};

// Every rank ends with the same bits: each element is summed along one chain, by one owner.
std::vector<Exchange> MakePlan(Algorithm algorithm, int rank, int size, int64_t elements);

// The fastest one for a buffer of `bytes`: below about 16 KB a member many small messages cost more
// than a tree's whole buffers; from 16 MB on the turns no longer count, and a ring keeps to one
// neighbour.
Algorithm ChooseAlgorithm(int64_t bytes, int size);

// Slice `index` of `elements` cut in `count` nearly equal ones.
Slice CutSlice(int64_t elements, int count, int index);

// The binomial tree under the votes, the broadcasts and kTree. Rank 0 is the root.
int TreeParent(int rank);  // -1 for the root.
std::vector<int> TreeChildren(int rank, int size);

}  // namespace rubato

#endif  // RUBATO_RING_PLAN_H_
