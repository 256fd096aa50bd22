// Where Prometheus reads a process, if the job names a place: GET /metrics.
#ifndef RUBATO_ROLES_METRICS_PAGE_H_
#define RUBATO_ROLES_METRICS_PAGE_H_

#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "absl/time/time.h"
#include "rubato/adapters/http/http_server.h"
#include "rubato/base/ids.h"
#include "rubato/job/job_spec.h"
#include "rubato/master/messages.h"

namespace rubato {

// The place of server `id`: the port of `params.metrics` and `id` more. Empty if the job names
// none.
std::string MetricsAddress(const JobSpec& job, ServerId id);

// How a job stands, as Prometheus reads it.
std::string PrometheusText(const Snapshot& snapshot, absl::string_view job);

class MetricsPage {
 public:
  struct Options {
    std::string key;                    // Of the job file, for the log.
    std::string address;                // host:port; empty: nowhere. Port 0 takes a free one.
    std::function<std::string()> text;  // What it says; called on threads of its own.
  };
  explicit MetricsPage(Options options) : options_(std::move(options)) {}

  // Listens, unless it does already. Call it now and then: a port that is taken, as by the process
  // before this one, is said once in the log and tried again. Training does not depend on it.
  void KeepUp(absl::Time now);
  // As one reaches it; empty while it does not listen.
  std::string address() const { return http_ == nullptr ? "" : http_->address(); }
  // What GET /metrics says; 404 for any other path.
  HttpReply Answer(const HttpRequest& request) const;

 private:
  const Options options_;
  absl::Time next_try_ = absl::InfinitePast();
  bool complained_ = false;
  std::unique_ptr<HttpServer> http_;
};

}  // namespace rubato

#endif  // RUBATO_ROLES_METRICS_PAGE_H_
