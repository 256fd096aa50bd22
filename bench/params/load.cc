#include "bench/params/load.h"

#include <algorithm>
#include <utility>

#include "bench/params/measure.h"
#include "bench/params/server_process.h"
#include "rubato/base/status.h"

namespace rubato::bench {

Load::Load(const LoadOptions& options)
    : options_(options),
      client_(ParamsClient::Start(
          {.job = "bench",
           .secret = kBenchSecret,
           .servers = options.servers,
           .wire = options.wire,
           .reconnect = absl::Milliseconds(2),
           .shared_bytes = options.shared ? ParamsClientOptions().shared_bytes : 0})) {
  client_->SetServers(options.addresses);
}

void Load::Declare() {
  Declaration model;
  model.signature.tables.resize(1);
  model.signature.tables[0].name = "deep";
  model.signature.tables[0].dim = static_cast<int64_t>(options_.dim);
  Permits one(0);
  client_->Declare(model, [&](absl::Status status) {
    RUBATO_CHECK_OK(status);
    one.Give();
  });
  one.Take();
}

void Load::Fill() {
  constexpr size_t kTogether = 50000;
  std::vector<uint64_t> ids;
  for (uint64_t id = 0; id < options_.rows; ++id) {
    ids.push_back(id);
    if (ids.size() < kTogether && id + 1 < options_.rows) continue;
    Permits one(0);
    Push(ids, [&one] { one.Give(); });
    one.Take();
    ids.clear();
  }
}

void Load::Draw(size_t keys) {
  constexpr size_t kDistinctRequests = 64;
  if (!drawn_.empty() && drawn_[0].size() == keys) return;
  drawn_.assign(kDistinctRequests, {});
  Rng rng(keys);
  for (auto& ids : drawn_) {
    // Distinct and sorted, as ps-lite wants its keys: one from each of `keys` equal ranges.
    const uint64_t width = options_.rows / keys;
    for (size_t i = 0; i < keys; ++i) ids.push_back(i * width + rng.Below(width));
  }
}

std::vector<Answer> Load::Run(const Requests& requests,
                              const std::function<bool(size_t sent)>& go_on) {
  Draw(requests.keys);
  std::vector<std::vector<float>> rows(requests.in_flight);
  for (auto& buffer : rows) buffer.resize(requests.keys * options_.dim);
  std::vector<Answer> answers;  // Callbacks run on the client's one thread.
  Permits permits(requests.in_flight);
  for (size_t sent = 0; go_on(sent); ++sent) {
    permits.Take();
    const auto& ids = drawn_[sent % drawn_.size()];
    const auto done = [&, sent_at = Wall()] {
      const double now = Wall();
      answers.push_back({now, now - sent_at});
      permits.Give();
    };
    if (requests.push) {
      Push(ids, done);
      continue;
    }
    auto& buffer = rows[sent % requests.in_flight];
    client_->Pull({.tables = {{ids, absl::MakeSpan(buffer)}}, .dense = {}},
                  [done](absl::Status status) {
                    RUBATO_CHECK_OK(status);
                    done();
                  });
  }
  for (size_t i = 0; i < requests.in_flight; ++i) permits.Take();
  return answers;
}

void Load::PullSome() {
  const std::vector<uint64_t> ids = {0, 1, 2, 3};
  std::vector<float> rows(ids.size() * options_.dim);
  Permits one(0);
  client_->Pull({.tables = {{ids, absl::MakeSpan(rows)}}, .dense = {}}, [&](absl::Status status) {
    RUBATO_CHECK_OK(status);
    one.Give();
  });
  one.Take();
}

void Load::Push(const std::vector<uint64_t>& ids, std::function<void()> done) {
  gradients_.resize(std::max(gradients_.size(), ids.size() * options_.dim), 0.01f);
  PushRequest request;
  request.key = {.epoch = options_.epoch, .begin = next_batch_, .end = next_batch_ + 1};
  ++next_batch_;
  request.worker = WorkerId(1);
  request.view = 1;
  request.tables = {{ids, absl::MakeConstSpan(gradients_).subspan(0, ids.size() * options_.dim)}};
  client_->Push(request, [done = std::move(done)](absl::StatusOr<PushOutcome> outcome) {
    RUBATO_CHECK_OK(outcome.status());
    done();
  });
}

}  // namespace rubato::bench
