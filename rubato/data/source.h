// Records by number, and a row turned into numbers: the two halves of reading.
#ifndef RUBATO_DATA_SOURCE_H_
#define RUBATO_DATA_SOURCE_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "rubato/data/batch.h"
#include "rubato/data/data_away.h"

namespace rubato {

// A data set of numbered records. Not thread-safe, but for away(); open one a thread.
class RecordSource {
 public:
  virtual ~RecordSource() = default;
  virtual int64_t records() const = 0;
  // Calls `visit` with records [begin, end) in order; the view lives until `visit` returns. Stops
  // at the first error, the visitor's or its own (a file that vanished or changed: DATA_LOSS).
  virtual absl::Status Read(
      int64_t begin, int64_t end,
      absl::FunctionRef<absl::Status(int64_t record, absl::string_view bytes)> visit) = 0;
  // "train.tsv:1204", for messages about record `record`.
  virtual std::string Locate(int64_t record) const = 0;
  // What a Read() waits for, or failed for want of, if that is not there: for whoever looks on. Any
  // thread may ask.
  virtual std::optional<DataAway> away() const { return std::nullopt; }
};

// Turns one record's bytes into a row of a batch. Stateless, so one serves all threads.
class RecordParser {
 public:
  // Many records on their way into a batch. One thread uses it, again and again.
  class Block {
   public:
    virtual ~Block() = default;
    // As Parse(): one row more, or none and why.
    virtual absl::Status Add(absl::string_view record) = 0;
    // Replaces `batch` by the rows added since the last time, in order.
    virtual void Finish(Batch* batch) = 0;
  };

  virtual ~RecordParser() = default;
  virtual const BatchShape& shape() const = 0;
  // Appends one row; INVALID_ARGUMENT says what is wrong with the record ("column 3, 'abc', is
  // not an integer") and leaves `batch` as it was. The caller adds where the record is.
  virtual absl::Status Parse(absl::string_view record, Batch* batch) const = 0;
  // For a parser that works column by column; by default one Parse() after the other. The parser
  // outlives it.
  virtual std::unique_ptr<Block> NewBlock() const;
};

inline std::unique_ptr<RecordParser::Block> RecordParser::NewBlock() const {
  class OneByOne : public Block {
   public:
    explicit OneByOne(const RecordParser& parser) : parser_(parser) {}
    absl::Status Add(absl::string_view record) override { return parser_.Parse(record, &rows_); }
    void Finish(Batch* batch) override {
      std::swap(*batch, rows_);
      rows_.Clear();
    }

   private:
    const RecordParser& parser_;
    Batch rows_;
  };
  return std::make_unique<OneByOne>(*this);
}

}  // namespace rubato

#endif  // RUBATO_DATA_SOURCE_H_
