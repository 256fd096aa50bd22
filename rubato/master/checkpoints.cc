#include "rubato/master/checkpoints.h"

#include <algorithm>

namespace rubato {

Checkpoints::Checkpoints(const CheckpointSpec& spec) : spec_(spec), next_at_(spec.every_steps) {}

bool Checkpoints::DueInTraining(int64_t steps) const {
  return spec_.every_steps > 0 && !running() && steps >= next_at_;
}

bool Checkpoints::DueByLog(int64_t bytes) const {
  return spec_.log_bytes > 0 && !running() && bytes > spec_.log_bytes;
}

void Checkpoints::Begin(int64_t version, int64_t step, bool last, std::string cause) {
  wanted_ = version;
  step_ = step;
  cause_ = std::move(cause);
  last_begun_ = last;
  current_ = true;
  if (spec_.every_steps > 0) next_at_ = (step / spec_.every_steps + 1) * spec_.every_steps;
}

void Checkpoints::TakeBack(int64_t steps) {
  last_begun_ = false;
  current_ = false;
  if (spec_.every_steps > 0) next_at_ = (steps / spec_.every_steps + 1) * spec_.every_steps;
}

std::optional<int64_t> Checkpoints::OfOneRound(int64_t rounds, int64_t before) const {
  for (auto it = kept_.rbegin(); it != kept_.rend(); ++it) {
    const auto& [version, saved] = *it;
    if (before > 0 && version >= before) continue;
    if (saved.rounds >= 0 && saved.rounds <= rounds) return version;
  }
  return std::nullopt;
}

std::optional<SavedState> Checkpoints::Find(int64_t version) const {
  for (const auto& [complete, saved] : kept_) {
    if (complete == version) return saved;
  }
  return std::nullopt;
}

void Checkpoints::GoBack(int64_t version, int64_t steps) {
  TakeBack(steps);
  for (; complete() > version; kept_.pop_back()) dropped_ = complete();
  if (best_ > version) best_ = 0;
  step_ = steps;
}

void Checkpoints::Moved() {
  for (auto& [version, saved] : kept_) saved.rounds = -1;
}

// Nothing to remember: versions are consecutive, and every `full_every`th is a full one.
int64_t Checkpoints::base() const {
  const bool full = (wanted_ - 1) % std::max<int64_t>(spec_.full_every, 1) == 0;
  return full || complete() != wanted_ - 1 ? 0 : complete();
}

std::vector<int64_t> Checkpoints::kept() const {
  std::vector<int64_t> versions;
  for (const auto& [version, saved] : kept_) versions.push_back(version);
  return versions;
}

int64_t Checkpoints::oldest() const {
  for (const auto& [version, saved] : kept_) {
    if (version != best_) return version;
  }
  return best_;
}

void Checkpoints::Discard(int64_t version) {
  std::erase_if(kept_, [&](const auto& kept) { return kept.first == version; });
  if (best_ == version) best_ = 0;
}

bool Checkpoints::Complete(int64_t version, const SavedState& saved) {
  settled_ = version;
  kept_.emplace_back(version, saved);
  const auto counts = [&](const auto& kept) { return kept.first != best_; };
  if (std::count_if(kept_.begin(), kept_.end(), counts) <= std::max<int64_t>(spec_.keep, 1)) {
    return false;
  }
  const auto oldest = std::find_if(kept_.begin(), kept_.end(), counts);
  dropped_ = oldest->first;
  kept_.erase(oldest);
  return true;
}

}  // namespace rubato
