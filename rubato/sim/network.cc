#include "rubato/sim/network.h"

#include <algorithm>

namespace rubato {

void SimProcess::Run(std::function<void()> what) {
  if (!alive_) return;
  if (paused_) {
    waiting_.push_back(std::move(what));
  } else {
    what();
  }
}

void SimProcess::After(absl::Duration delay, std::function<void()> what) {
  queue_.After(delay, [this, what = std::move(what)] { Run(what); });
}

void SimProcess::Resume() {
  paused_ = false;
  const std::vector<std::function<void()>> waiting = std::exchange(waiting_, {});
  for (const std::function<void()>& what : waiting) Run(what);
}

void Network::Send(const std::string& from, const std::string& to, std::function<void()> arrive) {
  const int copies = rng_.Chance(weather_.duplication) ? 2 : 1;
  for (int i = 0; i < copies; ++i) {
    if (rng_.Chance(weather_.loss)) continue;
    const absl::Duration delay = Delay();
    const std::pair<std::string, std::string> link = std::minmax(from, to);
    queue_.After(delay, [this, link, arrive] {
      if (!cut_.contains(link)) arrive();
    });
  }
}

absl::Duration Network::Delay() {
  const bool late = rng_.Chance(weather_.straggling);
  return (late ? weather_.late : weather_.usual) * rng_.Uniform(0.2, 1);
}

void Network::SendInOrder(absl::Time* last, const std::string& from, const std::string& to,
                          std::function<void(bool held)> arrive) {
  *last = std::max(*last, queue_.now() + Delay());
  const std::pair<std::string, std::string> link = std::minmax(from, to);
  queue_.After(*last - queue_.now(), [this, link, arrive] { arrive(!cut_.contains(link)); });
}

}  // namespace rubato
