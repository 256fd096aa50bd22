#include "rubato/adapters/ring/state_exchange.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstring>
#include <thread>
#include <utility>

#include "rubato/adapters/ring/control_loop.h"
#include "rubato/base/status.h"
#include "rubato/ring/state_copy.h"

namespace rubato {
namespace {

// So many sums are applied between two steps, whatever they take: one more than are added.
constexpr int kAppliedMin = 2;
constexpr size_t kRestoredMin = 1 << 20;  // Likewise bytes of the snapshot.
// What a source is given to make a snapshot, beside training.
constexpr double kBytesASecond = 500e6;

// What a newcomer makes up for begins when the others do with their next step. One of them that was
// to go on with this very processor would wait for a whole turn of it, milliseconds, and with it
// all, for a step begins no sooner at anyone than the last has come to it.
void LetOthersGo() { std::this_thread::yield(); }

// To give a large buffer back takes a while, which the others need not wait for at once.
void FreePages(const char* bytes, size_t size) {
  constexpr uintptr_t kPage = 4096;
  const auto begin = (reinterpret_cast<uintptr_t>(bytes) + kPage - 1) / kPage * kPage;
  const auto end = (reinterpret_cast<uintptr_t>(bytes) + size) / kPage * kPage;
  if (begin < end) madvise(reinterpret_cast<void*>(begin), end - begin, MADV_DONTNEED);
}

absl::Duration TimeToCopy(const std::vector<absl::Span<char>>& state) {
  size_t bytes = 0;
  for (const absl::Span<char> piece : state) bytes += piece.size();
  return absl::Seconds(static_cast<double>(bytes) / kBytesASecond);
}

}  // namespace

StateExchange::StateExchange(Options options)
    : options_(std::move(options)),
      kept_(options_.kept_bytes_max),
      file_(options_.kept_folder),
      sources_(options_.lease, TimeToCopy(options_.state)) {}

void StateExchange::Ask(const EdgeHello& hello, std::unique_ptr<Stream> stream) {
  MutexLock lock(mu_);
  askers_.push_back({hello, std::move(stream)});
}

void StateExchange::Serve(const GroupView& view, MemberId self, int64_t step) {
  std::vector<Asker> askers;
  {
    MutexLock lock(mu_);
    askers.swap(askers_);
  }
  std::shared_ptr<StateSnapshot> snapshot;  // One for all of them.
  for (Asker& asker : askers) {
    const EdgeHello& hello = asker.hello;
    const MemberId learner(hello.from);
    const bool mine = view.Contains(learner) && !view.Holds(learner) && view.Holds(self) &&
                      hello.to == self.value() && hello.mark == view.Mark() &&
                      step >= hello.min_step;
    if (!mine) continue;
    if (!snapshot) snapshot = TakeSnapshot(step);
    server_.Serve(std::move(asker.stream), snapshot);
  }
}

std::shared_ptr<StateSnapshot> StateExchange::TakeSnapshot(int64_t step) {
  std::erase_if(under_way_, [](const auto& one) {
    const auto snapshot = one.lock();
    return !snapshot || snapshot->finished();
  });
  auto snapshot = std::make_shared<StateSnapshot>(
      step, options_.state, StateSnapshot::Options{.piece_bytes = kStateChunkBytes});
  under_way_.push_back(snapshot);
  return snapshot;
}

void StateExchange::BeforeChange(absl::Span<const char> bytes) {
  for (const auto& one : under_way_) {
    if (const auto snapshot = one.lock()) snapshot->BeforeChange(bytes);
  }
}

void StateExchange::BeforeChange() {
  for (const auto& one : under_way_) {
    if (const auto snapshot = one.lock()) snapshot->Finish();
  }
  under_way_.clear();
}

void StateExchange::Begin(const GroupView& view, MemberId self) {
  Drop();
  if (sources_.Begin(view, self)) Fetch(view, self, view.step);
}

void StateExchange::Fetch(const GroupView& view, MemberId self, int64_t min_step) {
  const MemberId source = sources_.source();
  const EdgeHello hello{EdgeHello::kState, options_.group, self.value(),
                        source.value(),    min_step,       view.Mark()};
  fetcher_ =
      std::make_unique<StateFetcher>(view.members[view.RankOf(source)].address, hello, options_.tls,
                                     options_.names != nullptr ? *options_.names : own_names_);
}

// No later snapshot can need the sums up to here.
void StateExchange::FetchElsewhere(const GroupView& view, MemberId self, int64_t finished) {
  fetcher_.reset();
  kept_.Clear();
  file_.Clear();
  if (sources_.Next(view, self)) Fetch(view, self, finished);
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

bool StateExchange::Arrived(const GroupView& view, MemberId self, int64_t finished) {
  if (fetcher_->step() >= 0) kept_.Began(fetcher_->step());
  const bool in_vain =
      !fetcher_->complete() && sources_.InVain(finished, fetcher_->bytes(), ControlLoop::Now());
  if (fetcher_->failed() || in_vain) {
    FetchElsewhere(view, self, finished);
    return false;
  }
  if (!fetcher_->complete() || fetcher_->step() > finished) return false;
  kept_.Began(fetcher_->step());
  snapshot_ = StateChunk{.step = fetcher_->step(), .bytes = fetcher_->TakeSnapshot()};
  fetcher_.reset();
  return true;
}

bool StateExchange::Restored(absl::Time until) {
  if (!snapshot_) return true;
  BeforeChange();
  size_t begin = 0;
  bool first = true;
  for (const absl::Span<char> piece : options_.state) {
    const size_t end = begin + piece.size();
    RUBATO_CHECK(end <= snapshot_->bytes.size());
    while (restored_ < end) {
      if (!std::exchange(first, false) && ControlLoop::Now() >= until) return false;
      LetOthersGo();
      const size_t size = std::min(kRestoredMin, end - restored_);
      std::memcpy(piece.data() + (restored_ - begin), snapshot_->bytes.data() + restored_, size);
      FreePages(&snapshot_->bytes[restored_], size);
      restored_ += size;
    }
    begin = end;
  }
  reached_ = snapshot_->step;
  snapshot_.reset();
  restored_ = 0;
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
  if (fetcher_ && !Arrived(view, self, finished)) return false;
  if (!Restored(until)) return false;
  for (int applied = 0; reached_ < finished; ++applied) {
    if (applied >= kAppliedMin && ControlLoop::Now() >= until) return false;
    LetOthersGo();
    keeping_ = ApplyNext();
    RUBATO_RETURN_IF_ERROR(keeping_);
  }
  Drop();
  return true;
}

void StateExchange::Drop() {
  fetcher_.reset();
  kept_.Clear();
  file_.Clear();
  keeping_ = absl::OkStatus();
  snapshot_.reset();
  restored_ = 0;
  reached_ = -1;
}

}  // namespace rubato
