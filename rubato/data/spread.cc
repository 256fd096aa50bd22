#include "rubato/data/spread.h"

#include <algorithm>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "rubato/base/status.h"

namespace rubato {
namespace {

constexpr double kGolden = 0.6180339887498949;

class SpreadSource : public RecordSource {
 public:
  SpreadSource(std::unique_ptr<RecordSource> whole, int64_t run, bool hold)
      : whole_(std::move(whole)), order_(whole_->records(), run), hold_(hold) {}

  int64_t records() const override { return whole_->records(); }

  absl::Status Read(
      int64_t begin, int64_t end,
      absl::FunctionRef<absl::Status(int64_t record, absl::string_view bytes)> visit) override {
    RUBATO_CHECK(0 <= begin && begin <= end && end <= records());
    if (hold_ && ends_.empty()) RUBATO_RETURN_IF_ERROR(Load());
    for (int64_t stop = 0; begin < end; begin = stop) {
      stop = std::min(end, order_.RunEnd(begin));
      int64_t position = begin;
      const int64_t first = order_.At(begin), last = first + (stop - begin);
      if (hold_) {
        for (int64_t r = first; r < last; ++r) {
          RUBATO_RETURN_IF_ERROR(visit(position++, Held(static_cast<size_t>(r))));
        }
        continue;
      }
      RUBATO_RETURN_IF_ERROR(whole_->Read(
          first, last, [&](int64_t, absl::string_view bytes) { return visit(position++, bytes); }));
    }
    return absl::OkStatus();
  }

  std::string Locate(int64_t position) const override {
    return whole_->Locate(order_.At(position));
  }
  std::optional<DataAway> away() const override { return whole_->away(); }

 private:
  absl::Status Load() {
    std::string bytes;
    std::vector<uint64_t> ends;
    ends.reserve(static_cast<size_t>(records()));
    RUBATO_RETURN_IF_ERROR(whole_->Read(0, records(), [&](int64_t, absl::string_view record) {
      absl::StrAppend(&bytes, record);
      ends.push_back(bytes.size());
      return absl::OkStatus();
    }));
    bytes.shrink_to_fit();
    bytes_ = std::move(bytes);
    ends_ = std::move(ends);
    return absl::OkStatus();
  }

  absl::string_view Held(size_t record) const {
    const uint64_t begin = record == 0 ? 0 : ends_[record - 1];
    return absl::string_view(bytes_).substr(begin, ends_[record] - begin);
  }

  const std::unique_ptr<RecordSource> whole_;
  const SpreadOrder order_;
  const bool hold_;
  std::string bytes_;           // Of all records, once they were read,
  std::vector<uint64_t> ends_;  // and where each ends.
};

}  // namespace

SpreadOrder::SpreadOrder(int64_t records, int64_t run)
    : records_(records), run_(run), runs_(records / run) {
  RUBATO_CHECK(run > 0 && runs_ < int64_t{1} << 31);  // A product of two numbers of runs fits.
  step_ = std::max<int64_t>(1, static_cast<int64_t>(kGolden * static_cast<double>(runs_)));
  while (runs_ > 1 && std::gcd(step_, runs_) > 1) ++step_;
}

int64_t SpreadOrder::At(int64_t position) const {
  const int64_t run = position / run_;
  return run < runs_ ? run * step_ % runs_ * run_ + position % run_ : position;
}

int64_t SpreadOrder::RunEnd(int64_t position) const {
  return std::min(records_, (position / run_ + 1) * run_);
}

std::unique_ptr<RecordSource> Spread(std::unique_ptr<RecordSource> whole, int64_t run, bool hold) {
  return std::make_unique<SpreadSource>(std::move(whole), run, hold);
}

}  // namespace rubato
