#include "rubato/cli/summary.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "rubato/cli/progress.h"
#include "rubato/metrics/evaluation.h"

namespace rubato {
namespace {

using Json = nlohmann::ordered_json;

// Fractions of all workers' time; they sum to 1, since every second is in exactly one part.
Json Goodput(const TimeSpent& spent) {
  const double total = std::max(spent.total(), 1e-9);
  return {{"useful", spent.useful / total},
          {"read", spent.read / total},
          {"wait", spent.wait / total},
          {"detect", spent.detect / total},
          {"rebuild", spent.rebuild / total},
          {"redo", spent.redo / total},
          {"checkpoint", spent.checkpoint / total},
          {"other", spent.total() > 0 ? spent.other / total : 1.0}};
}

// Workers that are slow beside the others right now, and how slow.
Json Stragglers(const Snapshot& snapshot) {
  Json stragglers = Json::array();
  for (const ProcessStatus& process : snapshot.processes) {
    if (process.lagging <= 0) continue;
    stragglers.push_back({{"worker", process.id}, {"ratio", process.lagging}});
  }
  return stragglers;
}

void AddLine(std::string& table, absl::string_view name, absl::string_view value) {
  absl::StrAppendFormat(&table, "  %-12s %s\n", name, value);
}

std::string Grouped(int64_t number) {
  std::string digits = absl::StrCat(number);
  for (size_t at = digits.size(); at > 3; at -= 3) digits.insert(at - 3, ",");
  return digits;
}

}  // namespace

bool IsOneClass(const std::map<std::string, double>& metrics) {
  return metrics.contains("logloss") && !metrics.contains("auc");
}

std::string WorseThanConstantText(const std::map<std::string, double>& metrics) {
  if (!IsWorseThanConstant(metrics)) return "";
  return absl::StrFormat(
      "logloss %.4f is not below %.4f, which the rate of positives reaches as everybody's score: "
      "the order of rows may be right, their probabilities are not; try a stronger "
      "model_options.l2, or fewer ids (rubato init --min-count N)",
      metrics.at("logloss"), metrics.at("base_logloss"));
}

Json SummaryJson(const JobSpec& spec, const Snapshot& snapshot, absl::Duration elapsed,
                 int64_t records_before, const std::string& job_dir) {
  const double seconds = absl::ToDoubleSeconds(elapsed);
  Json metrics = Json::object();
  if (!snapshot.evaluations.empty()) metrics = snapshot.evaluations.back().metrics;
  // The job's model is the best one it kept, or else the last.
  for (const EvaluationResult& result : snapshot.evaluations) {
    const bool best = snapshot.best_checkpoint > 0 && result.number == snapshot.best_evaluation;
    if (best) metrics = result.metrics;
  }
  const int64_t model =
      snapshot.best_checkpoint > 0 ? snapshot.best_checkpoint : snapshot.checkpoint;
  Json evaluations = Json::array();
  for (const EvaluationResult& result : snapshot.evaluations) {
    evaluations.push_back(
        {{"step", result.step}, {"records", result.records}, {"metrics", result.metrics}});
  }
  Json summary = {
      {"job", spec.name},
      {"state", std::string(JobStateName(snapshot.state))},
      {"strategy", spec.strategy},
      {"seconds", seconds},
      {"epochs", spec.epochs},
      {"steps", snapshot.steps},
      {"records_committed", snapshot.records_committed},
      {"records_expected", snapshot.records_expected},
      {"records_repeated", snapshot.records_repeated},
      {"records_recomputed", snapshot.records_recomputed},
      {"records_taken_back", snapshot.records_taken_back},
      {"bad_rows", snapshot.bad_rows},
      {"workers",
       {{"started", snapshot.workers_started},
        {"lost", snapshot.workers_lost},
        {"joined", snapshot.workers_joined},
        {"max", snapshot.workers_max}}},
      {"stragglers", Stragglers(snapshot)},
      {"servers", {{"started", snapshot.servers_started}, {"lost", snapshot.servers_lost}}},
      {"master_restarts", snapshot.master_restarts},
      {"fenced_pushes", snapshot.fenced_pushes},
      {"throughput_records_per_second",
       static_cast<double>(snapshot.records_committed - records_before) / std::max(seconds, 1e-9)},
      {"loss", snapshot.loss_known ? Json(snapshot.loss) : Json(nullptr)},
      {"metrics", metrics},
      {"evaluations", evaluations},
      {"goodput", Goodput(snapshot.spent)},
      {"rows", snapshot.rows},
      {"bytes", snapshot.bytes},
      {"checkpoint",
       model > 0 ? Json(absl::StrCat(job_dir, "/checkpoints/", model)) : Json(nullptr)},
      {"job_dir", job_dir}};
  if (snapshot.servers_scaled.to > 0) {
    summary["servers_scaled"] = ServersScaledJson(snapshot.servers_scaled);
  }
  for (const ProcessStatus& process : snapshot.processes) {
    if (process.doing.empty()) continue;
    if (process.role == Role::kWorker) {
      summary["waiting"].push_back({{"worker", process.id}, {"doing", process.doing}});
      continue;
    }
    summary["recovering"].push_back(
        {{"server", process.id}, {"incarnation", process.incarnation}, {"doing", process.doing}});
  }
  if (!snapshot.error.empty()) summary["error"] = snapshot.error;
  return summary;
}

Json ServersScaledJson(const ServersScaled& scaled) {
  return {{"from", scaled.from},
          {"to", scaled.to},
          {"seconds", scaled.seconds},
          {"moves", scaled.moves},
          {"partitions", scaled.partitions},
          {"records_per_second_before", scaled.rate_before},
          {"records_per_second_lowest", scaled.rate_lowest}};
}

std::string SummaryTable(const Json& summary) {
  const auto count = [&](const char* key) { return summary[key].get<int64_t>(); };
  std::string table = absl::StrFormat(
      "\n%s: %s after %s\n", summary["job"].get<std::string>(), summary["state"].get<std::string>(),
      ShortDuration(absl::Seconds(summary["seconds"].get<double>())));
  AddLine(table, "records",
          absl::StrCat(Grouped(count("records_committed")), " committed of ",
                       Grouped(count("records_expected")), ", ", count("records_repeated"),
                       " counted twice, ", count("records_recomputed"), " computed again"));
  AddLine(table, "steps", Grouped(count("steps")));
  AddLine(table, "speed",
          absl::StrCat(ShortCount(summary["throughput_records_per_second"].get<double>()),
                       " records/s"));
  std::string metrics;
  for (const auto& [name, value] : summary["metrics"].items()) {
    absl::StrAppendFormat(&metrics, "%s%s %.4f", metrics.empty() ? "" : ", ", name,
                          value.get<double>());
  }
  if (!metrics.empty()) AddLine(table, "validation", metrics);
  const auto validation = summary["metrics"].get<std::map<std::string, double>>();
  if (IsOneClass(validation)) {
    AddLine(table, "warning", "all validation labels are of one class, so there is no auc");
  }
  if (const std::string text = WorseThanConstantText(validation); !text.empty()) {
    AddLine(table, "warning", text);
  }
  const Json& workers = summary["workers"];
  AddLine(
      table, "workers",
      absl::StrFormat("%d started, %d lost, at most %d at once", workers["started"].get<int64_t>(),
                      workers["lost"].get<int64_t>(), workers["max"].get<int64_t>()));
  for (const Json& slow : summary.value("stragglers", Json::array())) {
    AddLine(table, "straggler",
            absl::StrFormat("worker-%d, at %.2f of the median speed", slow["worker"].get<int64_t>(),
                            slow["ratio"].get<double>()));
  }
  if (const Json& servers = summary["servers"]; servers["started"].get<int64_t>() > 0) {
    AddLine(table, "servers",
            absl::StrFormat("%d started, %d lost; master restarted %d times",
                            servers["started"].get<int64_t>(), servers["lost"].get<int64_t>(),
                            count("master_restarts")));
  } else if (count("master_restarts") > 0) {  // Of strategy allreduce.
    AddLine(table, "master", absl::StrFormat("restarted %d times", count("master_restarts")));
  }
  for (const Json& server : summary.value("recovering", Json::array())) {
    AddLine(table, "recovering",
            absl::StrFormat("server-%d is %s", server["server"].get<int64_t>(),
                            server["doing"].get<std::string>()));
  }
  for (const Json& worker : summary.value("waiting", Json::array())) {
    AddLine(table, "waiting",
            absl::StrFormat("worker-%d is %s", worker["worker"].get<int64_t>(),
                            worker["doing"].get<std::string>()));
  }
  if (const int64_t lost = summary.value("records_taken_back", int64_t{0}); lost > 0) {
    AddLine(table, "taken back",
            absl::StrCat(Grouped(lost), " records that servers lost, and were trained again"));
  }
  std::string goodput;
  for (const auto& [name, value] : summary["goodput"].items()) {
    if (value.get<double>() < 0.0005) continue;
    absl::StrAppendFormat(&goodput, "%s%s %.1f%%", goodput.empty() ? "" : ", ", name,
                          100 * value.get<double>());
  }
  AddLine(table, "goodput", goodput);
  AddLine(table, "directory", summary["job_dir"].get<std::string>());
  if (summary.contains("error")) AddLine(table, "error", summary["error"].get<std::string>());
  return table;
}

}  // namespace rubato
