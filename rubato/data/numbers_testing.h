// A data set for tests of sources that deal out another's records.
#ifndef RUBATO_DATA_NUMBERS_TESTING_H_
#define RUBATO_DATA_NUMBERS_TESTING_H_

#include <gtest/gtest.h>

#include <optional>
#include <string>

#include "absl/strings/str_cat.h"
#include "rubato/data/source.h"

namespace rubato {

// Record 7 is the text "7", and lies in line 7. It counts how often it is read, and one time fails.
class Numbers : public RecordSource {
 public:
  explicit Numbers(int64_t records, int* reads = nullptr, int fails_at = 0)
      : records_(records), reads_(reads), fails_at_(fails_at) {}

  int64_t records() const override { return records_; }
  absl::Status Read(
      int64_t begin, int64_t end,
      absl::FunctionRef<absl::Status(int64_t record, absl::string_view bytes)> visit) override {
    if (reads_ != nullptr && ++*reads_ == fails_at_) return absl::UnavailableError("away");
    EXPECT_LE(end, records_);
    for (int64_t i = begin; i < end; ++i) {
      if (absl::Status status = visit(i, absl::StrCat(i)); !status.ok()) return status;
    }
    return absl::OkStatus();
  }
  std::string Locate(int64_t record) const override { return absl::StrCat("line ", record); }
  std::optional<DataAway> away() const override { return DataAway{.data = "numbers"}; }

 private:
  const int64_t records_;
  int* const reads_;
  const int fails_at_;
};

}  // namespace rubato

#endif  // RUBATO_DATA_NUMBERS_TESTING_H_
