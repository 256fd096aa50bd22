#include "rubato/master/evaluations.h"

#include <cmath>
#include <limits>
#include <utility>

#include "rubato/metrics/evaluation.h"

namespace rubato {
namespace {

// A loss that is so much above its lowest tells of a model that remembers rather than learns:
// waiting would cost.
constexpr double kRisen = 0.02;

std::optional<double> LossOf(const std::map<std::string, double>& metrics) {
  const auto found = metrics.find("loss");
  if (found == metrics.end() || std::isnan(found->second)) return std::nullopt;
  return found->second;
}

}  // namespace

Evaluations::Evaluations(const EvaluateSpec& spec, bool validation, absl::Time now)
    : spec_(spec), validation_(validation), next_at_(spec.every_steps), began_(now) {}

bool Evaluations::DueInTraining(int64_t steps, absl::Time now) const {
  if (!validation_ || running()) return false;
  return DueBySteps(steps) || (now - began_ >= spec_.every && steps > 0 && !Knows(steps));
}

bool Evaluations::DueBySteps(int64_t steps) const {
  return spec_.every_steps > 0 && steps >= next_at_;
}

bool Evaluations::Knows(int64_t steps) const {
  return !running() && current_ && !results_.empty() && results_.back().step == steps;
}

bool Evaluations::DueAtTheEnd() const { return validation_ && !running() && !final_begun_; }

bool Evaluations::Stalled() const {
  return spec_.stop_after_stalls > 0 && stalls_ >= spec_.stop_after_stalls;
}

void Evaluations::Begin(int64_t number, int64_t step, bool final, absl::Time now) {
  began_ = now;
  running_ = Running{.number = number, .step = step};
  final_begun_ = final;
  next_number_ = number + 1;
  // The next whole multiple: an evaluation slower than its period skips rather than piles up.
  if (spec_.every_steps > 0) next_at_ = (step / spec_.every_steps + 1) * spec_.every_steps;
}

void Evaluations::Add(TaskId task, EvaluationSums sums) {
  if (running_.has_value()) running_->sums.emplace(task, std::move(sums));
}

// A metric that is not there says nothing about a version: the loss decides then.
std::string Evaluations::MetricOf(const std::map<std::string, double>& metrics) const {
  const std::string name = spec_.metric.empty() ? "auc" : spec_.metric;
  return metrics.contains(name) ? name : "loss";
}

// More is better.
double Evaluations::ScoreOf(const std::map<std::string, double>& metrics) const {
  const std::string name = MetricOf(metrics);
  const auto found = metrics.find(name);
  if (found == metrics.end()) return 0;
  // What is no number is worse than any, or nothing would ever be better.
  if (std::isnan(found->second)) return -std::numeric_limits<double>::infinity();
  return MoreIsBetter(name) ? found->second : -found->second;
}

// A loss judges probabilities itself, and a metric of the user's own is the user's to judge by.
bool Evaluations::Misleads(const std::map<std::string, double>& metrics) const {
  return MoreIsBetter(MetricOf(metrics)) && IsWorseThanConstant(metrics);
}

void Evaluations::End() {
  if (!running_.has_value()) return;
  EvaluationSums sums;
  for (const auto& [task, part] : running_->sums) sums.Add(part);
  EvaluationResult result = {.number = running_->number,
                             .step = running_->step,
                             .records = sums.records,
                             .metrics = Metrics(sums)};
  running_.reset();
  Judge(result);
  results_.push_back(std::move(result));
  current_ = true;
}

bool Evaluations::IsBetter(const Best& next) const {
  if (!best_.score.has_value()) return true;
  if (next.misleads != best_.misleads) return best_.misleads;
  if (*next.score != *best_.score) return *next.score > *best_.score;
  return next.loss.has_value() && (!best_.loss.has_value() || *next.loss < *best_.loss);
}

void Evaluations::Judge(const EvaluationResult& result) {
  const double score = ScoreOf(result.metrics);
  const std::optional<double> loss = LossOf(result.metrics);
  const std::optional<double> lowest = best_.lowest_loss, highest = best_.highest_score;
  const bool higher = !highest.has_value() || score > *highest;
  const bool lower = loss.has_value() && (!lowest.has_value() || *loss < *lowest);
  const bool risen =
      loss.has_value() && lowest.has_value() && *loss > *lowest + kRisen * std::abs(*lowest);
  const Best next = {score,   loss,  Misleads(result.metrics), result.number, result.step,
                     highest, lowest};
  if (IsBetter(next)) best_ = next;
  if (higher) best_.highest_score = score;
  if (lower) best_.lowest_loss = loss;
  if (higher || lower) {
    stalls_ = 0;
    forgiven_ = 0;
  } else if (lowered_ == 0 && forgiven_ < spec_.forgive_stalls && !risen) {
    ++forgiven_;
  } else {
    ++stalls_;
    rate_ *= spec_.lower_rate;
    ++lowered_;
  }
}

void Evaluations::SavedBest() { saved_ = best_; }

void Evaluations::LoseUnsavedBest() {
  if (BestUnsaved()) best_ = saved_;
}

void Evaluations::LoseBest() {
  saved_ = Best();
  LoseUnsavedBest();
}

bool Evaluations::GoBack(int64_t steps) {
  const bool lost = running_.has_value() && running_->step != steps;
  if (lost) running_.reset();
  std::erase_if(results_, [&](const EvaluationResult& result) { return result.step > steps; });
  const bool knows = running() || Knows(steps);
  final_begun_ = final_begun_ && knows;
  if (saved_.step > steps) saved_ = Best();
  best_ = Best();
  stalls_ = forgiven_ = lowered_ = 0;
  rate_ = 1;
  for (const EvaluationResult& result : results_) Judge(result);
  LoseUnsavedBest();
  if (spec_.every_steps > 0) {
    const int64_t last = running() ? running_->step : results_.empty() ? 0 : results_.back().step;
    next_at_ = (last / spec_.every_steps + 1) * spec_.every_steps;
  }
  return lost;
}

void Evaluations::TakeBack(int64_t steps) {
  running_.reset();
  final_begun_ = false;
  current_ = false;
  LoseUnsavedBest();
  if (spec_.every_steps > 0) next_at_ = (steps / spec_.every_steps + 1) * spec_.every_steps;
}

}  // namespace rubato
