#include "rubato/data/holdout.h"

#include <utility>

#include "rubato/base/rng.h"

namespace rubato {
namespace {

class PartSource : public RecordSource {
 public:
  PartSource(std::unique_ptr<RecordSource> whole, Holdout holdout, bool held)
      : whole_(std::move(whole)), holdout_(holdout), held_(held) {}

  int64_t records() const override {
    const int64_t held = holdout_.HeldOf(whole_->records());
    return held_ ? held : whole_->records() - held;
  }

  absl::Status Read(
      int64_t begin, int64_t end,
      absl::FunctionRef<absl::Status(int64_t record, absl::string_view bytes)> visit) override {
    if (begin >= end) return absl::OkStatus();
    int64_t position = begin;
    return whole_->Read(At(begin), At(end - 1) + 1, [&](int64_t record, absl::string_view bytes) {
      return holdout_.Holds(record) == held_ ? visit(position++, bytes) : absl::OkStatus();
    });
  }

  std::string Locate(int64_t position) const override { return whole_->Locate(At(position)); }
  std::optional<DataAway> away() const override { return whole_->away(); }

 private:
  int64_t At(int64_t position) const {
    return held_ ? holdout_.HeldAt(position) : holdout_.OtherAt(position);
  }

  const std::unique_ptr<RecordSource> whole_;
  const Holdout holdout_;
  const bool held_;
};

}  // namespace

int64_t Holdout::DrawnOf(int64_t group) const {
  return static_cast<int64_t>(Mix(static_cast<uint64_t>(group)) % static_cast<uint64_t>(every_));
}

int64_t Holdout::HeldOf(int64_t records) const {
  const int64_t groups = records / every_;
  return groups + (records % every_ > DrawnOf(groups) ? 1 : 0);
}

int64_t Holdout::OtherAt(int64_t position) const {
  const int64_t group = position / (every_ - 1), within = position % (every_ - 1);
  return group * every_ + within + (within >= DrawnOf(group) ? 1 : 0);
}

std::unique_ptr<RecordSource> TakePart(std::unique_ptr<RecordSource> whole, Holdout holdout,
                                       bool held) {
  return std::make_unique<PartSource>(std::move(whole), holdout, held);
}

}  // namespace rubato
