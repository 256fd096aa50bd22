// Where Prometheus reads one parameter server, if the job names a place: GET /metrics.
#ifndef RUBATO_ROLES_SERVER_METRICS_H_
#define RUBATO_ROLES_SERVER_METRICS_H_

#include <memory>
#include <string>

#include "absl/time/time.h"
#include "rubato/adapters/http/http_server.h"
#include "rubato/adapters/posix/params_server.h"
#include "rubato/base/ids.h"
#include "rubato/job/job_spec.h"

namespace rubato {

// The place of server `id`: the job's port and `id` more. Empty if the job names none.
std::string MetricsAddress(const JobSpec& job, ServerId id);

class ServerMetrics {
 public:
  // `server` must outlive it.
  ServerMetrics(const JobSpec& job, ServerId id, ParamsServer& server);

  // Listens, unless it does already. Call it now and then: a port that is taken, as by the process
  // before this one, is said once in the log and tried again. Training does not depend on it.
  void KeepUp(absl::Time now);
  // As one reaches it; empty while it does not listen.
  std::string address() const { return http_ == nullptr ? "" : http_->address(); }
  // What GET /metrics says; 404 for any other path.
  HttpReply Answer(const HttpRequest& request);

 private:
  const std::string job_;
  const std::string wanted_;
  ParamsServer& server_;
  absl::Time next_try_ = absl::InfinitePast();
  bool complained_ = false;
  std::unique_ptr<HttpServer> http_;
};

}  // namespace rubato

#endif  // RUBATO_ROLES_SERVER_METRICS_H_
