#include "rubato/roles/scoring.h"

#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "rubato/base/json_text.h"
#include "rubato/base/prometheus.h"
#include "rubato/base/status.h"

namespace rubato {
namespace {

using Json = nlohmann::ordered_json;

std::string Text(const Json& document) { return JsonText(document) + "\n"; }

HttpReply Refusal(int status, absl::string_view why) {
  return {.status = status, .body = Text({{"error", std::string(why)}})};
}

Json ScoresJson(absl::Span<const float> scores, size_t width) {
  Json list = Json::array();
  for (size_t i = 0; i < scores.size(); i += width) {
    if (width == 1) {
      list.push_back(scores[i]);
    } else {
      list.push_back(std::vector<float>(scores.begin() + i, scores.begin() + i + width));
    }
  }
  return list;
}

}  // namespace

absl::StatusOr<std::unique_ptr<Scoring>> Scoring::Make(Servable servable, const Clock& clock) {
  RUBATO_ASSIGN_OR_RETURN(RowReader reader, RowReader::Make(servable));
  Strangers strangers;
  if (servable.features.has_value()) strangers = Strangers(*servable.features, reader.shape());
  return std::unique_ptr<Scoring>(
      new Scoring(std::move(servable), std::move(reader), std::move(strangers), clock));
}

std::string Scoring::description() const {
  return absl::StrCat(servable_.job.model, " of job ", servable_.job.name, ", checkpoint ",
                      servable_.checkpoint, " (step ", servable_.step, ")");
}

HttpReply Scoring::Handle(const HttpRequest& request) {
  const bool posts = request.path == "/score";
  if (!posts && request.path != "/health" && request.path != "/metrics") {
    return Refusal(404, "no such path; there are POST /score, GET /health and GET /metrics");
  }
  if (request.method != (posts ? "POST" : "GET")) {
    return Refusal(405, absl::StrCat(request.path, " wants ", posts ? "POST" : "GET"));
  }
  if (posts) return Score(request.body);
  return request.path == "/health" ? Health() : Metrics();
}

HttpReply Scoring::Score(absl::string_view body) {
  const absl::Time start = clock_.Now();
  const absl::StatusOr<Batch> batch = reader_.Read(body);
  if (!batch.ok()) {
    Count(false, 0, clock_.Now() - start);
    return Refusal(400, batch.status().message());
  }
  std::vector<float> scores;
  absl::Status status;
  if (batch->rows > 0) {  // No rows have no scores, and models want some.
    MutexLock lock(model_mu_);
    const absl::StatusOr<absl::Span<const float>> predicted = servable_.model->Predict(*batch);
    if (predicted.ok()) scores.assign(predicted->begin(), predicted->end());
    status = predicted.status();
  }
  if (!status.ok()) {
    Count(false, 0, clock_.Now() - start);
    return Refusal(500, status.message());
  }
  const int64_t width = servable_.trainer->score_width();
  ToProbabilities(width, &scores);
  HttpReply reply = {.body = Text({{"checkpoint", servable_.checkpoint},
                                   {"scores", ScoresJson(scores, static_cast<size_t>(width))}})};
  Count(true, batch->rows, clock_.Now() - start);
  std::vector<int64_t> seen(strangers_.columns().size());
  strangers_.Count(*batch, &seen);
  MutexLock lock(mu_);
  for (size_t i = 0; i < seen.size(); ++i) strangers_seen_[i] += seen[i];
  return reply;
}

HttpReply Scoring::Health() const {
  return {.body = Text({{"state", "serving"},
                        {"job", servable_.job.name},
                        {"model", servable_.job.model},
                        {"checkpoint", servable_.checkpoint},
                        {"step", servable_.step},
                        {"rows", servable_.weights->rows()},
                        {"columns", reader_.columns()}})};
}

void Scoring::Count(bool ok, int64_t rows, absl::Duration took) {
  MutexLock lock(mu_);
  ++requests_;
  refused_ += !ok;
  rows_ += rows;
  time_ += took;
  for (size_t i = 0; i < kBucketMs.size(); ++i) {
    buckets_[i] += absl::ToDoubleMilliseconds(took) <= kBucketMs[i];
  }
}

HttpReply Scoring::Metrics() {
  MutexLock lock(mu_);
  std::string text = absl::StrCat(
      "# TYPE rubato_score_requests_total counter\nrubato_score_requests_total ", requests_,
      "\n# TYPE rubato_score_refused_total counter\nrubato_score_refused_total ", refused_,
      "\n# TYPE rubato_score_rows_total counter\nrubato_score_rows_total ", rows_,
      "\n# TYPE rubato_score_strangers_total counter\n");
  for (size_t i = 0; i < strangers_seen_.size(); ++i) {
    absl::StrAppend(&text, "rubato_score_strangers_total{column=\"",
                    PrometheusLabel(strangers_.columns()[i]), "\"} ", strangers_seen_[i], "\n");
  }
  absl::StrAppend(&text, "# TYPE rubato_score_seconds histogram\n");
  for (size_t i = 0; i < kBucketMs.size(); ++i) {
    absl::StrAppend(&text, "rubato_score_seconds_bucket{le=\"", kBucketMs[i] / 1000, "\"} ",
                    buckets_[i], "\n");
  }
  absl::StrAppend(&text, "rubato_score_seconds_bucket{le=\"+Inf\"} ", requests_,
                  "\nrubato_score_seconds_sum ", absl::ToDoubleSeconds(time_),
                  "\nrubato_score_seconds_count ", requests_, "\n");
  return {.type = "text/plain; version=0.0.4", .body = text};
}

}  // namespace rubato
