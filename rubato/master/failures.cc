#include "rubato/master/failures.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
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
       {failure.where, failure.cause, failure.noticed_by, failure.reason, failure.state}) {
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
  for (std::string* text :
       {&failure.where, &failure.cause, &failure.noticed_by, &failure.reason, &failure.state}) {
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

JobEvent RecordOf(const Failure& failure, const FailureWords& words, absl::Time now) {
  JobEvent event = {.time = now, .kind = "failure"};
  event.fields = {
      {"worker", words.worker},
      {"pid", failure.pid},
      {"step", failure.step},
      {"noticed_by", failure.noticed_by.empty() ? words.noticed_by : failure.noticed_by},
      {"noticed_how", failure.reason.empty() ? "exit" : failure.reason}};
  // One that never joined has not told.
  if (!failure.where.empty())
    event.fields.insert(event.fields.begin() + 2, {"where", failure.where});
  if (!failure.state.empty()) event.fields.emplace_back("state", failure.state);
  if (failure.change.has_value()) {
    const GroupChange& change = *failure.change;
    const auto ms = [](int64_t us) { return static_cast<double>(us) / 1000; };
    if (failure.generation > 0) {
      event.fields.emplace_back("generation", failure.generation);
    } else {
      event.fields.emplace_back("view", static_cast<int64_t>(failure.view));
    }
    if (failure.heard != absl::Time()) {
      event.fields.emplace_back("detect_ms", ms(absl::ToInt64Microseconds(failure.detect())));
    }
    event.fields.emplace_back("agree_ms", ms(change.agree_us));
    event.fields.emplace_back("reconnect_ms", ms(change.reconnect_us));
    event.fields.emplace_back("redo_ms", ms(change.redo_us));
  }
  if (failure.cause.empty() && !words.collateral_of.empty()) {
    event.fields.emplace_back("collateral_of", words.collateral_of);
  }
  event.cause = failure.cause.empty() ? words.cause : failure.cause;
  return event;
}

std::string SilentCause(const std::string& who, const Failure& failure, absl::string_view more) {
  const absl::Duration silence = absl::Trunc(failure.detect(), absl::Milliseconds(1));
  return absl::StrCat(who, ": silent for ", absl::FormatDuration(silence), std::string(more));
}

std::string UnseenCause(const std::string& who, const std::string& reason, bool lives) {
  return absl::StrCat(who, ": out of the group (", reason, ")",
                      lives ? ", though its process lives: it joins again" : "");
}

std::map<WorkerId, Failure> Failures::Changed(const GroupChange& change) const {
  std::map<WorkerId, Failure> changed;
  for (const auto& [worker, known] : open_) {
    const bool of_this = known.view > 0 && known.view <= change.view && known.generation == 0;
    if (!of_this || known.change.has_value()) continue;
    changed[worker] = known;
    changed[worker].change = change;
    changed[worker].change->heard_us.clear();  // In `heard`, of this one.
  }
  return changed;
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
