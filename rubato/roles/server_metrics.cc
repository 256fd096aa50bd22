#include "rubato/roles/server_metrics.h"

#include <cstdio>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

namespace rubato {

std::string MetricsAddress(const JobSpec& job, ServerId id) {
  const std::string& address = job.params.metrics;
  const size_t colon = address.rfind(':');
  int64_t port = 0;
  if (colon == std::string::npos || !absl::SimpleAtoi(address.substr(colon + 1), &port)) return "";
  return absl::StrCat(address.substr(0, colon), ":", port + id.value());
}

ServerMetrics::ServerMetrics(const JobSpec& job, ServerId id, ParamsServer& server)
    : job_(job.name), wanted_(MetricsAddress(job, id)), server_(server) {}

void ServerMetrics::KeepUp(absl::Time now) {
  if (wanted_.empty() || http_ != nullptr || now < next_try_) return;
  next_try_ = now + absl::Seconds(1);
  auto http = HttpServer::Start({.address = wanted_, .threads = 2},
                                [this](const HttpRequest& request) { return Answer(request); });
  if (http.ok()) {
    http_ = *std::move(http);
    std::fprintf(stderr, "metrics at http://%s/metrics\n", http_->address().c_str());
  } else if (!std::exchange(complained_, true)) {
    std::fprintf(stderr, "params.metrics: %s; trying again\n",
                 std::string(http.status().message()).c_str());
  }
}

HttpReply ServerMetrics::Answer(const HttpRequest& request) {
  if (request.path != "/metrics") {
    return {.status = 404, .body = "{\"error\":\"there is only /metrics\"}"};
  }
  return {.type = "text/plain; version=0.0.4", .body = PrometheusText(server_.Inspect(), job_)};
}

}  // namespace rubato
