// Each id of a batch once: the Zipf head of a batch repeats the same few ids hundreds of times, and
// a row should be pulled, and its gradient pushed, once.
#ifndef RUBATO_WORKER_UNIQUE_H_
#define RUBATO_WORKER_UNIQUE_H_

#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "rubato/data/batch.h"

namespace rubato {

// A table's ids of one batch. ids[position[i]] is the id in cell i of the table's columns,
// row-major. Distinct ids stand in order of first sight, so the result depends on the batch alone.
struct UniqueIds {
  std::vector<uint64_t> ids;
  // rows x fields; 0 in the cells of bags, whose values follow, bag after bag of row after row.
  std::vector<uint32_t> position;
};

// Finds distinct ids; keeps its hash table between batches. One thread uses it.
class Unique {
 public:
  // Of the batch's `columns` id columns, and of its bags, which are counted on from there, takes
  // `fields`, in that order; of no fields, the id 0. Buffers of `out` are reused.
  void Find(const Batch& batch, int64_t columns, absl::Span<const int64_t> fields, UniqueIds* out);

 private:
  void PlaceBags(const Batch& batch, int64_t columns, absl::Span<const int64_t> fields,
                 UniqueIds* out);
  uint32_t Place(uint64_t id, std::vector<uint64_t>* ids);
  void Grow(const std::vector<uint64_t>& ids);
  void Reset();

  // Open addressing: a slot belongs to the present batch if it carries its number, so that
  // nothing is cleared between batches.
  struct Slot {
    uint64_t id = 0;
    uint32_t index = 0;
    uint32_t batch = 0;
  };
  std::vector<Slot> slots_;  // A power of two, at most half full.
  std::vector<uint64_t> cells_;
  uint32_t batch_ = 0;
  int shift_ = 64;
};

}  // namespace rubato

#endif  // RUBATO_WORKER_UNIQUE_H_
