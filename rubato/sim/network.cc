#include "rubato/sim/network.h"

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
    const bool late = rng_.Chance(weather_.straggling);
    const absl::Duration delay = (late ? weather_.late : weather_.usual) * rng_.Uniform(0.2, 1);
    const std::pair<std::string, std::string> link = std::minmax(from, to);
    queue_.After(delay, [this, link, arrive] {
      if (!cut_.contains(link)) arrive();
    });
  }
}

}  // namespace rubato
