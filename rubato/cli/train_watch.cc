#include "rubato/cli/train_watch.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "rubato/base/json_text.h"
#include "rubato/cli/progress.h"
#include "rubato/metrics/evaluation.h"

namespace rubato {
namespace {

constexpr absl::Duration kRateWindow = absl::Seconds(5);

// "view 7: 3 workers, 2 with the model"
std::string ViewSentence(const nlohmann::ordered_json& event) {
  const std::string members = event.value("members", "");
  const auto workers = std::count(members.begin(), members.end(), ' ') + (members.empty() ? 0 : 1);
  return absl::StrFormat("view %d: %d workers, %d with the model", event.value("number", 0),
                         workers, event.value("holders", 0));
}

// "waiting after step 7: too few ..."
std::string WaitingSentence(const nlohmann::ordered_json& event) {
  return absl::StrCat(
      "waiting", event.contains("step") ? absl::StrCat(" after step ", event.value("step", 0)) : "",
      ": ", event.value("cause", ""));
}

// "clicks: the database at db has not answered for 1.2 s (...); trying again", or that it is back.
std::string DataSentence(const nlohmann::ordered_json& event, bool back) {
  const std::string seconds = ShortDuration(absl::Seconds(event.value("seconds", 0.0)));
  const std::string who = absl::StrCat(event.value("data", ""), ": ", event.value("place", ""));
  if (back) return absl::StrCat(who, " is back after ", seconds);
  return absl::StrCat(who, " has not answered for ", seconds, " (", event.value("cause", ""),
                      "); trying again");
}

// As people read it: the file of events has all digits of a metric.
std::string ValueText(const nlohmann::ordered_json& value) {
  if (value.is_string()) return value.get<std::string>();
  return value.is_number_float() ? absl::StrFormat("%.5g", value.get<double>()) : JsonText(value);
}

// "worker_lost  worker 3, task 7: killed by signal 9"
std::string Sentence(const nlohmann::ordered_json& event) {
  std::string text = event.value("event", "");
  if (text == "view") return ViewSentence(event);
  if (text == "waiting") return WaitingSentence(event);
  if (text == "data_away" || text == "data_back") return DataSentence(event, text == "data_back");
  std::replace(text.begin(), text.end(), '_', ' ');
  std::string fields;
  for (const auto& [name, value] : event.items()) {
    if (name == "event" || name == "time" || name == "cause") continue;
    absl::StrAppend(&fields, fields.empty() ? "" : ", ", name, " ", ValueText(value));
  }
  if (!fields.empty()) absl::StrAppend(&text, ": ", fields);
  const std::string cause = event.value("cause", "");
  if (!cause.empty()) absl::StrAppend(&text, " (", cause, ")");
  return text;
}

}  // namespace

std::string ProgressLine(const Snapshot& snapshot, const JobSpec& spec, double rate, int columns) {
  const double fraction = static_cast<double>(snapshot.records_committed) /
                          static_cast<double>(std::max<int64_t>(1, snapshot.records_expected));
  std::string line = absl::StrFormat("%3.0f%% %s rec/s", 100 * fraction, ShortCount(rate));
  if (rate > 0 && snapshot.records_expected > snapshot.records_committed) {
    const double left = static_cast<double>(snapshot.records_expected - snapshot.records_committed);
    absl::StrAppend(&line, " ETA ", ShortDuration(absl::Seconds(left / rate)));
  }
  absl::StrAppendFormat(&line, " workers %d/%d", snapshot.workers_alive, snapshot.workers_target);
  if (spec.strategy == "ps") {
    absl::StrAppendFormat(&line, " servers %d/%d", snapshot.servers_alive, snapshot.servers_target);
  }
  if (snapshot.loss_known) absl::StrAppendFormat(&line, " loss %.4f", snapshot.loss);
  if (!snapshot.evaluations.empty()) {
    const auto& metrics = snapshot.evaluations.back().metrics;
    for (const char* name : {"auc", "accuracy"}) {
      const auto found = metrics.find(name);
      if (found == metrics.end()) continue;
      absl::StrAppendFormat(&line, " %s %.4f", name, found->second);
      break;
    }
    if (IsWorseThanConstant(metrics)) {
      absl::StrAppendFormat(&line, " logloss %.4f>%.4f", metrics.at("logloss"),
                            metrics.at("base_logloss"));
    }
  }
  if (snapshot.state != JobState::kTraining) {
    absl::StrAppend(&line, " ", JobStateName(snapshot.state));
  }
  for (const ProcessStatus& process : snapshot.processes) {
    if (process.doing.empty()) continue;
    absl::StrAppend(&line, " ", RoleName(process.role), "-", process.id, " is ", process.doing);
    break;
  }
  if (spec.epochs > 1) {
    absl::StrAppendFormat(&line, " epoch %d/%d", std::min(snapshot.epoch + 1, spec.epochs),
                          spec.epochs);
  }
  const int room = columns - static_cast<int>(line.size()) - 3;  // For the brackets and a space.
  if (room >= 6) return absl::StrCat(Bar(fraction, std::min(room, 24)), " ", line);
  return line.substr(0, static_cast<size_t>(std::max(columns, 0)));
}

TrainWatch::TrainWatch(Console& console, const JobSpec& spec, const JobDirectory& directory)
    : console_(console), spec_(spec) {
  std::ofstream(directory.events(), std::ios::app);  // The master may not have made it yet.
  events_.open(directory.events());
  events_.seekg(0, std::ios::end);
  if (auto board = TensorBoard::Open(directory.metrics(), absl::Now()); board.ok()) {
    board_ = *std::move(board);
  }
}

TrainWatch::~TrainWatch() {
  TellEvents();
  if (line_open_) console_.err << "\n";
}

void TrainWatch::Say(const std::string& text) {
  console_.err << (line_open_ ? "\r\x1b[K" : "") << text << "\n";
  line_open_ = false;
}

void TrainWatch::Show(const Snapshot& snapshot, absl::Time now) {
  TellEvents();
  if (snapshot.records_expected == 0) return;  // No master has said yet how far the job is.
  DrawCurves(snapshot, now);
  if (now - drawn_ < (console_.terminal ? absl::Milliseconds(100) : absl::Seconds(5))) return;
  drawn_ = now;
  const int columns = console_.terminal ? console_.columns - 1 : 120;
  const std::string line = ProgressLine(snapshot, spec_, Rate(snapshot, now), columns);
  if (console_.terminal) {
    console_.err << "\r" << line << "\x1b[K" << std::flush;
    line_open_ = true;
  } else {
    console_.err << line << "\n";
  }
}

void TrainWatch::TellEvents() {
  events_.clear();
  for (char c; events_.get(c);) {
    if (c != '\n') {
      partial_.push_back(c);
      continue;
    }
    const auto event = nlohmann::ordered_json::parse(partial_, nullptr, false);
    partial_.clear();
    if (!event.is_discarded() && event.is_object()) {
      Say(console_.terminal ? absl::StrCat("\x1b[2m", Sentence(event), "\x1b[0m")
                            : Sentence(event));
    }
  }
}

double TrainWatch::Rate(const Snapshot& snapshot, absl::Time now) {
  // Gone back to a checkpoint: what was before is no measure.
  const bool back = !history_.empty() && snapshot.records_committed < history_.back().second;
  if (back) history_.clear();
  history_.emplace_back(now, snapshot.records_committed);
  while (now - history_.front().first > kRateWindow) history_.pop_front();
  const double seconds = absl::ToDoubleSeconds(now - history_.front().first);
  if (seconds < 0.2) return 0;
  return static_cast<double>(snapshot.records_committed - history_.front().second) / seconds;
}

void TrainWatch::DrawCurves(const Snapshot& snapshot, absl::Time now) {
  if (!board_) return;
  for (; evaluations_ < snapshot.evaluations.size(); ++evaluations_) {
    const EvaluationResult& result = snapshot.evaluations[evaluations_];
    for (const auto& [name, value] : result.metrics) {
      board_->Scalar(now, result.step, absl::StrCat("validation/", name), value);
    }
  }
  if (now - charted_ < absl::Seconds(1) || snapshot.steps == 0) return;
  charted_ = now;
  if (snapshot.loss_known) board_->Scalar(now, snapshot.steps, "train/loss", snapshot.loss);
  board_->Scalar(now, snapshot.steps, "train/records_per_second", Rate(snapshot, now));
  board_->Scalar(now, snapshot.steps, "elastic/workers",
                 static_cast<double>(snapshot.workers_alive));
}

}  // namespace rubato
