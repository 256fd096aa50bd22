#include "rubato/metrics/evaluation.h"

#include <algorithm>
#include <cmath>

#include "rubato/base/status.h"

namespace rubato {

void EvaluationSums::Add(const EvaluationSums& other) {
  records += other.records;
  loss_sum += other.loss_sum;
  correct += other.correct;
  score_sum += other.score_sum;
  positives += other.positives;
  square_sum += other.square_sum;
  scores.Add(other.scores);
  for (const auto& [group, counts] : other.groups) groups[group].Add(counts);
  for (const auto& [name, sum] : other.user_sums) user_sums[name] += sum;
}

void EvaluationSums::AddBinary(float score, bool positive, std::optional<uint64_t> group) {
  // As far from 0 and 1 as a float can tell, so that one sure mistake does not cost infinity.
  const double p = std::clamp<double>(score, 1e-7, 1 - 1e-7);
  const double error = static_cast<double>(score) - (positive ? 1 : 0);
  ++records;
  loss_sum -= std::log(positive ? p : 1 - p);
  correct += (score >= 0.5f) == positive;
  score_sum += score;
  positives += positive;
  square_sum += error * error;
  scores.Add(score, positive);
  if (group.has_value()) groups[*group].Add(score, positive);
}

std::string EncodeSums(const EvaluationSums& sums) {
  std::string bytes;
  ByteWriter out(bytes);
  out.PutVarint(sums.records);
  out.Put(sums.loss_sum);
  out.PutVarint(sums.correct);
  out.Put(sums.score_sum);
  out.PutVarint(sums.positives);
  out.Put(sums.square_sum);
  sums.scores.Encode(out);
  out.PutVarint(static_cast<int64_t>(sums.groups.size()));
  for (const auto& [group, counts] : sums.groups) {
    out.Put<uint64_t>(group);
    counts.Encode(out);
  }
  out.PutVarint(static_cast<int64_t>(sums.user_sums.size()));
  for (const auto& [name, sum] : sums.user_sums) {
    out.PutString(name);
    out.Put(sum);
  }
  return bytes;
}

absl::StatusOr<EvaluationSums> DecodeSums(absl::string_view bytes) {
  ByteReader in(bytes);
  EvaluationSums sums;
  sums.records = in.GetVarint();
  sums.loss_sum = in.Get<double>();
  sums.correct = in.GetVarint();
  sums.score_sum = in.Get<double>();
  sums.positives = in.GetVarint();
  sums.square_sum = in.Get<double>();
  sums.scores = ScoreCounts::Decode(in);
  for (int64_t n = in.GetVarint(); n > 0 && in.ok(); --n) {
    const uint64_t group = in.Get<uint64_t>();
    sums.groups[group] = ScoreCounts::Decode(in);
  }
  for (int64_t n = in.GetVarint(); n > 0 && in.ok(); --n) {
    const std::string name(in.GetString());
    sums.user_sums[name] = in.Get<double>();
  }
  RUBATO_RETURN_IF_ERROR(in.Check("evaluation sums"));
  if (in.remaining() > 0) return absl::DataLossError("evaluation sums: bytes are left over");
  return sums;
}

std::optional<double> GroupAuc(const EvaluationSums& sums) {
  double weighted = 0, records = 0;
  for (const auto& [group, counts] : sums.groups) {
    if (!counts.has_both()) continue;
    const auto weight = static_cast<double>(counts.records());
    weighted += weight * counts.Auc();
    records += weight;
  }
  if (records == 0) return std::nullopt;
  return weighted / records;
}

namespace {

// The entropy of the labels: no constant score has a lower logloss.
double BaseLogloss(const EvaluationSums& sums) {
  const double p = static_cast<double>(sums.positives) / static_cast<double>(sums.records);
  return -p * std::log(p) - (1 - p) * std::log1p(-p);
}

}  // namespace

std::map<std::string, double> Metrics(const EvaluationSums& sums) {
  if (sums.records == 0) return {};
  const double n = static_cast<double>(sums.records);
  std::map<std::string, double> metrics = {{"loss", sums.loss_sum / n},
                                           {"accuracy", static_cast<double>(sums.correct) / n}};
  if (!sums.scores.empty()) {
    // Of one class alone there is none, and one half would look like a result.
    if (sums.scores.has_both()) {
      metrics["auc"] = sums.scores.Auc();
      if (!sums.scores.exact()) metrics["auc_error"] = sums.scores.AucError();
      metrics["base_logloss"] = BaseLogloss(sums);
    }
    metrics["logloss"] = sums.loss_sum / n;
    metrics["rmse"] = std::sqrt(sums.square_sum / n);
    if (sums.positives > 0) {
      metrics["calibration"] = sums.score_sum / static_cast<double>(sums.positives);
    }
    if (const std::optional<double> gauc = GroupAuc(sums)) metrics["gauc"] = *gauc;
  }
  for (const auto& [name, sum] : sums.user_sums) metrics[name] = sum / n;
  return metrics;
}

bool IsWorseThanConstant(const std::map<std::string, double>& metrics) {
  const auto own = metrics.find("logloss"), base = metrics.find("base_logloss");
  if (own == metrics.end() || base == metrics.end()) return false;
  return !(own->second < base->second);
}

bool MoreIsBetter(absl::string_view metric) {
  return metric == "auc" || metric == "gauc" || metric == "accuracy";
}

}  // namespace rubato
