// A model behind HTTP: POST /score takes rows and gives scores, GET /health says what is served,
// GET /metrics counts, in the words of Prometheus.
#ifndef RUBATO_ROLES_SCORING_H_
#define RUBATO_ROLES_SCORING_H_

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "rubato/adapters/http/http_server.h"
#include "rubato/base/clock.h"
#include "rubato/base/mutex.h"
#include "rubato/features/strangers.h"
#include "rubato/roles/row_reader.h"
#include "rubato/roles/servable.h"

namespace rubato {

// Handle() may be called by any number of threads: rows are read side by side, and the model, which
// is one thread's, scores one request after the other.
class Scoring {
 public:
  static absl::StatusOr<std::unique_ptr<Scoring>> Make(Servable servable, const Clock& clock);

  HttpReply Handle(const HttpRequest& request);
  std::string description() const;  // "deepfm of job ctr, checkpoint 3 (step 1200)"
  const RowReader& reader() const { return reader_; }

 private:
  // Upper bounds of the buckets of answering times, in milliseconds.
  static constexpr std::array kBucketMs = {0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0, 1000.0};

  Scoring(Servable servable, RowReader reader, Strangers strangers, const Clock& clock)
      : servable_(std::move(servable)),
        reader_(std::move(reader)),
        strangers_(std::move(strangers)),
        clock_(clock),
        strangers_seen_(strangers_.columns().size()) {}
  HttpReply Score(absl::string_view body);
  HttpReply Health() const;
  HttpReply Metrics();
  void Count(bool ok, int64_t rows, absl::Duration took);

  Servable servable_;
  const RowReader reader_;
  const Strangers strangers_;
  const Clock& clock_;
  Mutex model_mu_;  // Held while servable_.model scores.
  Mutex mu_;
  int64_t requests_ ABSL_GUARDED_BY(mu_) = 0;
  int64_t refused_ ABSL_GUARDED_BY(mu_) = 0;
  int64_t rows_ ABSL_GUARDED_BY(mu_) = 0;
  std::vector<int64_t> strangers_seen_ ABSL_GUARDED_BY(mu_);  // By column of strangers_.
  absl::Duration time_ ABSL_GUARDED_BY(mu_);
  std::array<int64_t, kBucketMs.size()> buckets_ ABSL_GUARDED_BY(mu_) = {};
};

}  // namespace rubato

#endif  // RUBATO_ROLES_SCORING_H_
