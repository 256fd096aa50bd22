// Modes sync and hybrid: what a push does when it does not move the weights at once.
#include "absl/strings/str_cat.h"
#include "rubato/base/status.h"
#include "rubato/params/shard.h"

namespace rubato {

// A round that moved the weights has all its gradients, so what comes for it now is from elsewhere.
bool Shard::Stale(const PushRequest& request) const {
  if (!InRounds()) return false;
  return request.round < rounds_ || request.round - request.rounds > tolerance_;
}

absl::Status Shard::Stage(const PushRequest& request) {
  RUBATO_RETURN_IF_ERROR(Whole(request.rounds));
  if (mode_ == PushMode::kHybrid) {
    PushRequest rows = request;
    rows.dense = {};
    RUBATO_RETURN_IF_ERROR(Update(rows));
    ++steps_;
    PushRequest dense = request;
    dense.tables.clear();
    staged_.Stage(request.round, dense);
  } else {
    staged_.Stage(request.round, request);
  }
  applied_[request.key.epoch].Add(request.key.begin, request.key.end);
  BeginStep();
  return absl::OkStatus();
}

absl::Status Shard::RestoreStaged(absl::string_view body) {
  RUBATO_RETURN_IF_ERROR(DecodePush(body, &push_));
  RUBATO_RETURN_IF_ERROR(CheckParts(push_));
  const PushRequest& request = push_.request;
  if (!InRounds() || request.round < rounds_ || staged_.Holds(request)) {
    return absl::DataLossError("of no round that is to come, or there already");
  }
  staged_.Stage(request.round, request);
  return absl::OkStatus();
}

absl::Status Shard::Whole(int64_t rounds) {
  if (!declared() || !InRounds()) return absl::OkStatus();
  while (rounds_ < rounds) {
    if (!staged_.Has(rounds_)) {
      return absl::FailedPreconditionError(absl::StrCat(
          "round ", rounds_, " is said to be whole, but no gradient of it has come here"));
    }
    const StagedRounds::Merged& round = staged_.Merge();
    // What could go wrong was looked at when each gradient came.
    RUBATO_CHECK_OK(Update(round.request));
    ++rounds_;
    if (mode_ == PushMode::kSync) ++steps_;
    round_samples_ += round.samples;
    BeginStep();
  }
  return absl::OkStatus();
}

}  // namespace rubato
