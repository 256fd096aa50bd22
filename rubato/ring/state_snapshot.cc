#include "rubato/ring/state_snapshot.h"

#include <algorithm>
#include <functional>
#include <utility>

namespace rubato {

StateSnapshot::StateSnapshot(int64_t step, absl::Span<const absl::Span<char>> state,
                             const Options& options)
    : step_(step), options_(options) {
  for (absl::Span<const char> part : state) {
    if (part.empty()) continue;
    if (part.size() <= options_.small_bytes) {
      part = small_.emplace_back(part.data(), part.size());
    }
    parts_.push_back({part, bytes_});
    bytes_ += part.size();
  }
  left_ = std::max<size_t>(1, (bytes_ + options_.piece_bytes - 1) / options_.piece_bytes);
  places_.assign(left_, Place::kInPlace);
  pieces_.resize(left_);
}

// From the last on, for an optimizer begins with the first.
void StateSnapshot::Finish() {
  for (size_t i = pieces_.size(); i-- > 0;) CopyOnce(i);
  MutexLock lock(mu_);
  while (left_ > 0) copied_.Wait(mu_);
}

bool StateSnapshot::finished() const {
  MutexLock lock(mu_);
  return left_ == 0;
}

void StateSnapshot::BeforeChange(absl::Span<const char> bytes) {
  const std::less<const char*> before;
  const char* const end = bytes.data() + bytes.size();
  for (const Part& part : parts_) {
    const char* const first = std::max(part.from.data(), bytes.data(), before);
    const char* const last = std::min(part.from.data() + part.from.size(), end, before);
    if (!before(first, last)) continue;
    const size_t at = part.at + static_cast<size_t>(first - part.from.data());
    const size_t last_at = at + static_cast<size_t>(last - first) - 1;
    const size_t last_piece = last_at / options_.piece_bytes;
    for (size_t i = at / options_.piece_bytes; i <= last_piece; ++i) CopyOnce(i);
    for (size_t i = at / options_.piece_bytes; i <= last_piece; ++i) AwaitCopy(i);
  }
}

absl::string_view StateSnapshot::Piece(size_t index) {
  CopyOnce(index);
  AwaitCopy(index);
  return pieces_[index];
}

std::string StateSnapshot::TakePiece(size_t index) {
  Piece(index);
  return std::move(pieces_[index]);
}

void StateSnapshot::CopyOnce(size_t index) {
  {
    MutexLock lock(mu_);
    if (places_[index] != Place::kInPlace) return;
    places_[index] = Place::kUnderWay;
  }
  pieces_[index] = Read(index);
  MutexLock lock(mu_);
  places_[index] = Place::kCopied;
  --left_;
  copied_.NotifyAll();
}

void StateSnapshot::AwaitCopy(size_t index) {
  MutexLock lock(mu_);
  while (places_[index] != Place::kCopied) copied_.Wait(mu_);
}

std::string StateSnapshot::Read(size_t index) const {
  const size_t begin = index * options_.piece_bytes;
  const size_t end = std::min(begin + options_.piece_bytes, bytes_);
  std::string bytes;
  bytes.reserve(end - begin);
  auto part = std::upper_bound(parts_.begin(), parts_.end(), begin,
                               [](size_t at, const Part& one) { return at < one.at; });
  if (part != parts_.begin()) --part;
  for (; part != parts_.end() && part->at < end; ++part) {
    const size_t skipped = std::max(begin, part->at) - part->at;
    const size_t size = std::min(end, part->at + part->from.size()) - part->at - skipped;
    bytes.append(part->from.data() + skipped, size);
  }
  return bytes;
}

}  // namespace rubato
