#include "rubato/roles/metrics_page.h"

#include <cstdio>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "rubato/base/prometheus.h"

namespace rubato {

std::string MetricsAddress(const JobSpec& job, ServerId id) {
  const std::string& address = job.params.metrics;
  const size_t colon = address.rfind(':');
  int64_t port = 0;
  if (colon == std::string::npos || !absl::SimpleAtoi(address.substr(colon + 1), &port)) return "";
  return absl::StrCat(address.substr(0, colon), ":", port + id.value());
}

std::string PrometheusText(const Snapshot& s, absl::string_view job) {
  std::string text;
  const std::string who = absl::StrCat("job=\"", PrometheusLabel(job), "\"");
  const auto about = [&](absl::string_view name, absl::string_view type, absl::string_view help) {
    absl::StrAppend(&text, "# HELP rubato_job_", name, " ", help, "\n# TYPE rubato_job_", name, " ",
                    type, "\n");
  };
  const auto value = [&](absl::string_view name, absl::string_view labels, auto number) {
    absl::StrAppend(&text, "rubato_job_", name, "{", who, labels, "} ", number, "\n");
  };
  const auto one = [&](absl::string_view name, absl::string_view type, absl::string_view help,
                       auto number) {
    about(name, type, help);
    value(name, "", number);
  };
  about("state", "gauge", "1 for the state that the job is in.");
  value("state", absl::StrCat(",state=\"", JobStateName(s.state), "\""), 1);
  // Gauges, for a group that is founded anew from a checkpoint goes back to it.
  one("steps", "gauge", "Steps committed.", s.steps);
  one("records", "gauge", "Records committed.", s.records_committed);
  one("records_expected", "gauge", "Records to commit in all.", s.records_expected);
  one("records_recomputed_total", "counter", "Records computed again after a loss.",
      s.records_recomputed);
  one("bad_rows", "gauge", "Rows left out.", s.bad_rows);
  one("reports_unreadable_total", "counter", "Reports of workers that could not be read.",
      s.reports_unreadable);
  one("view", "gauge", "Number of the newest view.", s.view);
  one("workers", "gauge", "Workers alive.", s.workers_alive);
  one("workers_wanted", "gauge", "Workers asked for.", s.workers_target);
  one("workers_joined_total", "counter", "Workers that came.", s.workers_joined);
  one("workers_lost_total", "counter", "Workers that were lost.", s.workers_lost);
  one("servers", "gauge", "Parameter servers alive.", s.servers_alive);
  one("servers_lost_total", "counter", "Parameter servers that were lost.", s.servers_lost);
  one("master_restarts_total", "counter", "Masters that took over.", s.master_restarts);
  one("checkpoint_version", "gauge", "The newest complete checkpoint.", s.checkpoint);
  if (s.loss_known) one("loss", "gauge", "Moving mean of the training loss.", s.loss);
  about("worker_seconds_total", "counter", "Where the workers' time went; see goodput.");
  const std::pair<const char*, double> parts[] = {
      {"useful", s.spent.useful},         {"read", s.spent.read},       {"wait", s.spent.wait},
      {"detect", s.spent.detect},         {"rebuild", s.spent.rebuild}, {"redo", s.spent.redo},
      {"checkpoint", s.spent.checkpoint}, {"other", s.spent.other}};
  for (const auto& [part, seconds] : parts) {
    value("worker_seconds_total", absl::StrCat(",part=\"", part, "\""), seconds);
  }
  if (s.evaluations.empty()) return text;
  about("evaluation", "gauge", "The newest evaluation.");
  for (const auto& [metric, result] : s.evaluations.back().metrics) {
    value("evaluation", absl::StrCat(",metric=\"", PrometheusLabel(metric), "\""), result);
  }
  return text;
}

void MetricsPage::KeepUp(absl::Time now) {
  if (options_.address.empty() || http_ != nullptr || now < next_try_) return;
  next_try_ = now + absl::Seconds(1);
  auto http = HttpServer::Start({.address = options_.address, .threads = 2},
                                [this](const HttpRequest& request) { return Answer(request); });
  if (http.ok()) {
    http_ = *std::move(http);
    std::fprintf(stderr, "metrics at http://%s/metrics\n", http_->address().c_str());
  } else if (!std::exchange(complained_, true)) {
    std::fprintf(stderr, "%s: %s; trying again\n", options_.key.c_str(),
                 std::string(http.status().message()).c_str());
  }
}

HttpReply MetricsPage::Answer(const HttpRequest& request) const {
  if (request.path != "/metrics") {
    return {.status = 404, .body = "{\"error\":\"there is only /metrics\"}"};
  }
  return {.type = "text/plain; version=0.0.4", .body = options_.text()};
}

}  // namespace rubato
