#include "rubato/adapters/ring/state_exchange.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "rubato/adapters/ring/control_loop.h"
#include "rubato/base/status.h"
#include "rubato/ring/state_copy.h"

namespace rubato {
namespace {

// So many sums are applied between two steps, whatever they take: one more than are added.
constexpr int kAppliedMin = 2;

}  // namespace

StateExchange::StateExchange(Options options)
    : options_(std::move(options)), kept_(options_.kept_bytes_max), file_(options_.kept_folder) {}

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
  const EdgeHello hello{EdgeHello::kState, options_.group, self.value(),
                        source_.value(),   min_step,       view.Mark()};
  fetcher_ = std::make_unique<StateFetcher>(view.members[view.RankOf(source_)].address, hello,
                                            options_.tls);
}

void StateExchange::Keep(int64_t step, absl::Span<const absl::Span<float>> buffers) {
  if (!copying()) return;  // There is nobody to copy from: no snapshot will need them.
  const bool elsewhere = kept_.full();
  std::vector<Kept> kept;
  size_t bytes = 0;
  for (const absl::Span<float> buffer : buffers) {
    kept.push_back({.buffer = buffer});
    if (!elsewhere) {
      kept.back().sum.assign(buffer.begin(), buffer.end());
      bytes += buffer.size() * sizeof(float);
    } else if (const absl::StatusOr<int64_t> at = file_.Append(buffer); at.ok()) {
      kept.back().at = *at;
    } else {
      keeping_.Update(at.status());
    }
  }
  kept_.Keep(step, std::move(kept), bytes);
}

bool StateExchange::Load(const GroupView& view, MemberId self, int64_t finished) {
  if (fetcher_->failed() && !view.Contains(source_)) {
    Begin(view, self);
    return false;
  }
  if (fetcher_->step() >= 0) kept_.Began(fetcher_->step());
  // No later snapshot can need steps up to here.
  if (!kept_.useful()) {
    kept_.BeginAnew();
    Fetch(view, self, finished);
  } else if (fetcher_->failed()) {
    kept_.Clear();
    file_.Clear();
    Fetch(view, self, finished);
  }
  if (!fetcher_->complete() || fetcher_->step() > finished) return false;
  kept_.Began(fetcher_->step());
  Restore(fetcher_->TakeSnapshot());
  reached_ = fetcher_->step();
  fetcher_.reset();
  return true;
}

absl::Status StateExchange::ApplyNext() {
  const auto [step, kept] = kept_.TakeFirst();
  RUBATO_CHECK(step == reached_ + 1);
  for (const Kept& one : kept) {
    if (one.sum.empty()) {
      RUBATO_RETURN_IF_ERROR(file_.Read(one.at, one.buffer));
    } else {
      std::copy(one.sum.begin(), one.sum.end(), one.buffer.begin());
    }
  }
  if (options_.apply) options_.apply();
  reached_ = step;
  return absl::OkStatus();
}

absl::StatusOr<bool> StateExchange::CatchUp(const GroupView& view, MemberId self, int64_t finished,
                                            absl::Duration patience) {
  const absl::Time until = ControlLoop::Now() + patience;
  if (!copying()) return false;
  RUBATO_RETURN_IF_ERROR(keeping_);
  if (reached_ < 0 && !Load(view, self, finished)) return false;
  for (int applied = 0; reached_ < finished; ++applied) {
    if (applied >= kAppliedMin && ControlLoop::Now() >= until) return false;
    RUBATO_RETURN_IF_ERROR(ApplyNext());
  }
  Drop();
  return true;
}

void StateExchange::Drop() {
  fetcher_.reset();
  kept_.Clear();
  file_.Clear();
  keeping_ = absl::OkStatus();
  reached_ = -1;
}

std::string StateExchange::Snapshot() const {
  size_t size = 0;
  for (const absl::Span<char> piece : options_.state) size += piece.size();
  std::string bytes;
  bytes.reserve(size);  // The others wait meanwhile.
  for (const absl::Span<char> piece : options_.state) bytes.append(piece.data(), piece.size());
  return bytes;
}

void StateExchange::Restore(const std::string& snapshot) {
  size_t at = 0;
  for (const absl::Span<char> piece : options_.state) {
    RUBATO_CHECK(at + piece.size() <= snapshot.size());
    std::memcpy(piece.data(), snapshot.data() + at, piece.size());
    at += piece.size();
  }
}

}  // namespace rubato
