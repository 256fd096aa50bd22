#include "rubato/adapters/ring/state_exchange.h"

#include <algorithm>
#include <cstring>

#include "rubato/base/status.h"
#include "rubato/ring/state_copy.h"

namespace rubato {

StateExchange::StateExchange(std::vector<absl::Span<char>> state, std::function<void()> apply,
                             uint64_t group, const TlsLinks* tls)
    : state_(std::move(state)), apply_(std::move(apply)), group_(group), tls_(tls) {}

void StateExchange::Ask(const EdgeHello& hello, std::unique_ptr<Stream> stream) {
  MutexLock lock(mu_);
  askers_.emplace_back(hello, std::move(stream));
}

void StateExchange::Serve(const GroupView& view, MemberId self, int64_t step) {
  std::vector<std::pair<EdgeHello, std::unique_ptr<Stream>>> askers;
  {
    MutexLock lock(mu_);
    askers.swap(askers_);
  }
  for (auto& [hello, stream] : askers) {
    const MemberId learner(hello.from);
    const bool mine = view.Contains(learner) && !view.Holds(learner) && view.Holds(self) &&
                      hello.to == self.value() && hello.mark == view.Mark() &&
                      step >= hello.min_step;
    if (mine) server_.Serve(std::move(stream), step, Snapshot());
  }
}

void StateExchange::Begin(const GroupView& view, MemberId self) {
  Drop();
  const int source = SourceRank(view, view.RankOf(self));
  if (source < 0) return;
  source_ = view.members[source].id;
  Fetch(view, self, view.step);
}

void StateExchange::Fetch(const GroupView& view, MemberId self, int64_t min_step) {
  const EdgeHello hello{EdgeHello::kState, group_,   self.value(),
                        source_.value(),   min_step, view.Mark()};
  fetcher_ =
      std::make_unique<StateFetcher>(view.members[view.RankOf(source_)].address, hello, tls_);
}

void StateExchange::Keep(int64_t step, absl::Span<const absl::Span<float>> buffers) {
  std::vector<Kept>& kept = log_[step];
  for (const absl::Span<float> buffer : buffers) {
    kept.push_back({buffer, {buffer.begin(), buffer.end()}});
  }
}

bool StateExchange::CatchUp(const GroupView& view, MemberId self, int64_t finished) {
  if (fetcher_ && fetcher_->failed()) {
    if (!view.Contains(source_)) {
      Begin(view, self);
      return false;
    }
    log_.clear();  // Steps up to here are in no log that a later snapshot could need.
    Fetch(view, self, finished);
  }
  if (!fetcher_ || !fetcher_->complete() || fetcher_->step() > finished) return false;
  const int64_t step = fetcher_->step();
  Restore(fetcher_->TakeSnapshot());
  for (const auto& [logged, kept] : log_) {
    if (logged <= step) continue;
    for (const Kept& one : kept) std::copy(one.sum.begin(), one.sum.end(), one.buffer.begin());
    if (apply_) apply_();
  }
  Drop();
  return true;
}

void StateExchange::Drop() {
  fetcher_.reset();
  log_.clear();
}

std::string StateExchange::Snapshot() const {
  std::string bytes;
  for (const absl::Span<char> piece : state_) bytes.append(piece.data(), piece.size());
  return bytes;
}

void StateExchange::Restore(const std::string& snapshot) {
  size_t at = 0;
  for (const absl::Span<char> piece : state_) {
    RUBATO_CHECK(at + piece.size() <= snapshot.size());
    std::memcpy(piece.data(), snapshot.data() + at, piece.size());
    at += piece.size();
  }
}

}  // namespace rubato
