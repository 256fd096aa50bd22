#include "rubato/ring/state_copy.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/str_format.h"
#include "rubato/base/bytes.h"
#include "rubato/base/rng.h"
#include "rubato/base/status.h"

namespace rubato {

uint64_t StateChunk::Sum() const {
  return Mix(Mix(Checksum(bytes), static_cast<uint64_t>(step)), Mix(chunk, total_bytes));
}

absl::StatusOr<StateChunk> StateSource::Serve(const StateRequest& request) const {
  if (step() < request.min_step) {
    return absl::NotFoundError(absl::StrFormat("the state kept is after step %d, too old for %d",
                                               step(), request.min_step));
  }
  if (request.chunk >= snapshot_->pieces()) {
    return absl::OutOfRangeError(
        absl::StrFormat("chunk %d of a state of %d bytes", request.chunk, snapshot_->bytes()));
  }
  StateChunk chunk{step(), request.chunk, snapshot_->bytes(), 0, {}};
  chunk.bytes = std::string(snapshot_->Piece(request.chunk));
  chunk.checksum = chunk.Sum();
  return chunk;
}

std::vector<StateRequest> StateSink::Want(int window) const {
  if (!total_bytes_) return {{min_step_, 0}};  // The first chunk says how many there are.
  std::vector<StateRequest> want;
  for (uint32_t i = 0; i < have_.size() && static_cast<int>(want.size()) < window; ++i) {
    if (!have_[i]) want.push_back({min_step_, i});
  }
  return want;
}

absl::Status StateSink::Take(const StateChunk& chunk) {
  if (chunk.step < min_step_ || (step_ >= 0 && chunk.step != step_)) {
    return absl::FailedPreconditionError(absl::StrFormat("a chunk of step %d, copying step %d",
                                                         chunk.step, std::max(step_, min_step_)));
  }
  if (chunk.Sum() != chunk.checksum) {
    return absl::DataLossError(
        absl::StrFormat("chunk %d of the state after step %d is broken", chunk.chunk, step_));
  }
  if (!total_bytes_) {
    total_bytes_ = chunk.total_bytes;
    step_ = chunk.step;
    snapshot_.resize(chunk.total_bytes);
    have_.resize(std::max<uint64_t>(1, (chunk.total_bytes + chunk_bytes_ - 1) / chunk_bytes_));
    missing_ = have_.size();
  }
  const uint64_t begin = static_cast<uint64_t>(chunk.chunk) * chunk_bytes_;
  const bool fits = chunk.chunk < have_.size() && chunk.total_bytes == *total_bytes_ &&
                    chunk.bytes.size() == std::min<uint64_t>(chunk_bytes_, *total_bytes_ - begin);
  if (!fits) {
    return absl::DataLossError(
        absl::StrFormat("chunk %d does not fit a state of %d bytes", chunk.chunk, *total_bytes_));
  }
  if (have_[chunk.chunk]) return absl::OkStatus();
  if (!chunk.bytes.empty()) {
    std::memcpy(snapshot_.data() + begin, chunk.bytes.data(), chunk.bytes.size());
  }
  have_[chunk.chunk] = true;
  bytes_ += chunk.bytes.size();
  --missing_;
  return absl::OkStatus();
}

std::string StateSink::TakeSnapshot() {
  RUBATO_CHECK(complete());
  return std::move(snapshot_);
}

bool SourceChoice::Begin(const GroupView& view, MemberId self) {
  patience_ = patience_min_;
  asked_ = -1;
  source_ = MemberId();
  if (view.holders == 0) return false;
  source_ = view.members[(view.RankOf(self) - view.holders) % view.holders].id;
  return true;
}

bool SourceChoice::Next(const GroupView& view, MemberId self) {
  if (!view.Holds(source_)) return Begin(view, self);
  asked_ = -1;
  source_ = view.members[(view.RankOf(source_) + 1) % view.holders].id;
  return true;
}

bool SourceChoice::InVain(int64_t step, uint64_t bytes, absl::Time now) {
  if (asked_ < 0) {
    asked_ = step;
    bytes_ = 0;
    since_ = absl::InfiniteFuture();
  }
  if (step >= asked_ + kSteps) since_ = std::min(since_, now);
  if (bytes != bytes_) since_ = now;
  bytes_ = bytes;
  if (now - since_ < patience_ + (bytes == 0 ? making_ : absl::ZeroDuration())) return false;
  patience_ = std::min(patience_ * 2, patience_min_ * kPatienceMax);
  return true;
}

}  // namespace rubato
