// A batch of parsed records, column by column, in plain memory: what parsers fill and models read.
#ifndef RUBATO_DATA_BATCH_H_
#define RUBATO_DATA_BATCH_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace rubato {

// A field with any number of categories a row, whose vectors become one.
struct BagShape {
  std::string name;
  // Of vectors v with weights w: sum, of w v; mean, that over the sum of w; sqrtn, over the root of
  // the sum of w^2.
  std::string combiner = "mean";
  friend bool operator==(const BagShape&, const BagShape&) = default;
};

// Which columns every batch of a job has.
struct BatchShape {
  std::vector<std::string> dense;  // Numbers, one float a row each.
  // How the numbers lie when they are one array, as the rows and columns of an image; else empty.
  std::vector<int64_t> dense_shape;
  std::vector<std::string> ids;  // Categories, one 64-bit id a row each.
  std::vector<BagShape> bags;    // As fields they are counted on after `ids`.
  std::string group;             // The column that Batch::groups is of, if any.
};

struct Batch {
  int64_t rows = 0;
  std::vector<float> labels;  // rows
  std::vector<float> dense;   // rows x shape.dense.size(), row-major
  // rows x shape.ids.size(), row-major. The top byte is the field, so that fields never collide in
  // one table; the rest is a hash of the value, a missing value having its own.
  std::vector<uint64_t> ids;
  // rows x shape.bags.size() cells, row-major: cell c holds bag_ids from bag_ends[c - 1] (0 for the
  // first) up to bag_ends[c]. Empty if the shape has no bags.
  std::vector<uint64_t> bag_ends;
  std::vector<uint64_t> bag_ids;
  std::vector<float> bag_weights;  // As bag_ids; empty: all are 1.
  // rows, if the shape has a group: a hash of the cell as it came, whatever features make of it.
  // Nothing where the cell is missing: such rows have nothing in common.
  std::vector<std::optional<uint64_t>> groups;

  void Clear() {
    rows = 0;
    labels.clear();
    dense.clear();
    ids.clear();
    bag_ends.clear();
    bag_ids.clear();
    bag_weights.clear();
    groups.clear();
  }
};

// Which records a batch holds: positions [begin, end) of one epoch's order. A task is a range of
// positions; a batch of it starts at task.begin + k * batch_size, so a batch computed twice has
// the same key, and servers that keep the set of keys apply it once.
struct BatchKey {
  int64_t epoch = 0;
  int64_t task = 0;  // TaskId, for messages and logs.
  int64_t begin = 0;
  int64_t end = 0;
  friend bool operator==(const BatchKey&, const BatchKey&) = default;
};

}  // namespace rubato

#endif  // RUBATO_DATA_BATCH_H_
