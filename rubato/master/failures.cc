#include "rubato/master/failures.h"

#include <algorithm>
#include <utility>

#include "rubato/base/bytes.h"
#include "rubato/base/status.h"

namespace rubato {

std::string EncodeFailure(const Failure& failure) {
  std::string bytes;
  ByteWriter out(bytes);
  for (const absl::Time time : {failure.noted, failure.noticed, failure.heard, failure.founded}) {
    out.PutVarint(absl::ToUnixMicros(time));
  }
  out.PutVarint(failure.held.has_value() ? absl::ToUnixMicros(*failure.held) : -1);
  for (const int64_t value :
       {failure.pid, failure.step, static_cast<int64_t>(failure.view), failure.generation}) {
    out.PutVarint(value);
  }
  out.Put<uint8_t>(failure.silent);
  for (const std::string& text :
       {failure.where, failure.cause, failure.noticed_by, failure.reason}) {
    out.PutString(text);
  }
  out.Put<uint8_t>(failure.change.has_value());
  if (!failure.change.has_value()) return bytes;
  const GroupChange& change = *failure.change;
  for (const int64_t value : {static_cast<int64_t>(change.view), change.noticed_us, change.agree_us,
                              change.reconnect_us, change.redo_us}) {
    out.PutVarint(value);
  }
  return bytes;
}

absl::StatusOr<Failure> DecodeFailure(absl::string_view bytes) {
  ByteReader in(bytes);
  Failure failure;
  for (absl::Time* time : {&failure.noted, &failure.noticed, &failure.heard, &failure.founded}) {
    *time = absl::FromUnixMicros(in.GetVarint());
  }
  if (const int64_t held = in.GetVarint(); held >= 0) failure.held = absl::FromUnixMicros(held);
  failure.pid = in.GetVarint();
  failure.step = in.GetVarint();
  failure.view = static_cast<uint64_t>(in.GetVarint());
  failure.generation = in.GetVarint();
  failure.silent = in.Get<uint8_t>() == 1;
  for (std::string* text : {&failure.where, &failure.cause, &failure.noticed_by, &failure.reason}) {
    *text = std::string(in.GetString());
  }
  if (in.Get<uint8_t>() == 1) {
    GroupChange change;
    change.view = static_cast<uint64_t>(in.GetVarint());
    for (int64_t* us :
         {&change.noticed_us, &change.agree_us, &change.reconnect_us, &change.redo_us}) {
      *us = in.GetVarint();
    }
    failure.change = change;
  }
  RUBATO_RETURN_IF_ERROR(in.Check("a failure"));
  return failure;
}

absl::Duration Failure::detect() const {
  const absl::Time by = change.has_value() ? absl::FromUnixMicros(change->noticed_us) : noticed;
  return std::max(by - heard, absl::ZeroDuration());
}

const std::string* Failures::CauseTold(WorkerId worker) const {
  const auto it = told_.find(worker);
  return it == told_.end() ? nullptr : &it->second;
}

std::string Failures::FirstCause(uint64_t view) const {
  if (view == 0) return "";
  if (view == told_view_) return told_cause_;
  for (const auto& [worker, failure] : open_) {
    if (failure.view == view && !failure.cause.empty()) return failure.cause;
  }
  return "";
}

void Failures::Told(WorkerId worker) {
  const auto it = open_.find(worker);
  if (it == open_.end()) return;
  const Failure& failure = it->second;
  if (!failure.cause.empty()) {
    told_[worker] = failure.cause;
    told_view_ = failure.view;
    told_cause_ = failure.cause;
  }
  open_.erase(it);
}

void Failures::Restart(absl::Time now) {
  for (auto& [worker, failure] : open_) failure.noted = now;
}

}  // namespace rubato
