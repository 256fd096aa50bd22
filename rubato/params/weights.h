// Weights alone, without the state that moves them: what scoring needs of a model. They stream from
// a shard's checkpoint, or from a file of an export, to whoever takes them.
//
//     Shard::VisitWeights ─┐              ┌─▶ WeightsWriter   head | dense | rows ... | end
//                          ├─ WeightsSink ┤
//     ReadWeights ─────────┘              └─▶ FrozenWeights   in memory, read by id
#ifndef RUBATO_PARAMS_WEIGHTS_H_
#define RUBATO_PARAMS_WEIGHTS_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "rubato/params/declaration.h"
#include "rubato/params/embedding_table.h"
#include "rubato/params/memory.h"
#include "rubato/params/record_file.h"

namespace rubato {

// Takes a model's weights in pieces: first Begin, then dense weights and rows in any order.
class WeightsSink {
 public:
  virtual ~WeightsSink() = default;
  // The model, without dense values. Shards of one model repeat it: FAILED_PRECONDITION if one
  // differs from the first.
  virtual absl::Status Begin(const Declaration& model) = 0;
  // Dense weights from `offset` of the flat vector on.
  virtual absl::Status Dense(int64_t offset, absl::Span<const float> weights) = 0;
  // Rows of ids.size() x dim floats.
  virtual absl::Status Rows(size_t table, absl::Span<const uint64_t> ids,
                            absl::Span<const float> rows) = 0;
};

// Writes them as records, each with its checksum. Finish() last.
class WeightsWriter : public WeightsSink {
 public:
  explicit WeightsWriter(RecordSink& sink) : sink_(sink) {}
  absl::Status Begin(const Declaration& model) override;
  absl::Status Dense(int64_t offset, absl::Span<const float> weights) override;
  absl::Status Rows(size_t table, absl::Span<const uint64_t> ids,
                    absl::Span<const float> rows) override;
  absl::Status Finish();

  const std::vector<int64_t>& rows() const { return rows_; }  // By table.

 private:
  RecordSink& sink_;
  std::optional<Declaration> model_;
  int64_t dense_ = 0;
  std::vector<int64_t> rows_;
};

// Reads what a WeightsWriter wrote. DATA_LOSS naming `file` if a byte changed or the end is
// missing, INVALID_ARGUMENT if it is of another version.
absl::Status ReadWeights(absl::string_view file, absl::string_view bytes, WeightsSink& sink);

// A model's weights in memory, at one version. An id without a row reads as it would start.
class FrozenWeights : public WeightsSink {
 public:
  absl::Status Begin(const Declaration& model) override;
  absl::Status Dense(int64_t offset, absl::Span<const float> weights) override;
  absl::Status Rows(size_t table, absl::Span<const uint64_t> ids,
                    absl::Span<const float> rows) override;
  // Rows can be read from now on. DATA_LOSS unless every dense weight has come, and no row twice.
  absl::Status Finish();

  const Declaration& model() const { return *model_; }
  const std::vector<float>& dense() const { return dense_; }
  size_t tables() const { return tables_.size(); }
  const EmbeddingTable& table(size_t t) const { return *tables_[t]; }
  int64_t rows() const;
  // Of all that came: two models with the same one score alike.
  uint64_t checksum() const { return checksum_; }

 private:
  SystemMemory memory_{/*huge_pages=*/true};
  std::optional<Declaration> model_;
  std::vector<float> dense_;
  int64_t dense_seen_ = 0;
  std::vector<std::unique_ptr<EmbeddingTable>> tables_;
  uint64_t checksum_ = 0;
};

}  // namespace rubato

#endif  // RUBATO_PARAMS_WEIGHTS_H_
