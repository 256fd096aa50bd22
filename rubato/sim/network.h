// A network that obeys a seed: it loses, delays, repeats and reorders messages, and can be cut.
#ifndef RUBATO_SIM_NETWORK_H_
#define RUBATO_SIM_NETWORK_H_

#include <functional>
#include <set>
#include <string>
#include <utility>

#include "absl/time/time.h"
#include "rubato/base/rng.h"
#include "rubato/sim/event_queue.h"

namespace rubato {

// One process as the simulated machine sees it. While paused (SIGSTOP) everything that would
// happen to it waits; when it is dead nothing happens to it any more.
class SimProcess {
 public:
  SimProcess(EventQueue& queue, std::string name) : queue_(queue), name_(std::move(name)) {}
  virtual ~SimProcess() = default;

  const std::string& name() const { return name_; }
  bool alive() const { return alive_; }
  bool paused() const { return paused_; }

  // Runs `what` in this process: now, when it resumes, or never.
  void Run(std::function<void()> what);
  void After(absl::Duration delay, std::function<void()> what);
  void Die() { alive_ = false; }
  void Pause() { paused_ = true; }
  void Resume();

 private:
  EventQueue& queue_;
  std::string name_;
  bool alive_ = true;
  bool paused_ = false;
  std::vector<std::function<void()>> waiting_;
};

struct Weather {
  double loss = 0;
  double duplication = 0;
  double straggling = 0;  // The chance of a message to take `late` rather than `usual`.
  absl::Duration usual = absl::Milliseconds(1);
  absl::Duration late = absl::Milliseconds(400);
};

class Network {
 public:
  Network(EventQueue& queue, Rng rng) : queue_(queue), rng_(rng) {}

  void SetWeather(const Weather& weather) { weather_ = weather; }
  // Nothing passes between the two, by name, until healed.
  void Cut(const std::string& a, const std::string& b) { cut_.insert(std::minmax(a, b)); }
  void Heal() { cut_.clear(); }

  // `arrive` runs at the far end: never, once or twice, and after messages sent later perhaps.
  void Send(const std::string& from, const std::string& to, std::function<void()> arrive);

  // Over a connection: once, and after what was sent over it before. `last` is the connection's,
  // for the network to keep. `arrive` hears whether the connection still held.
  void SendInOrder(absl::Time* last, const std::string& from, const std::string& to,
                   std::function<void(bool held)> arrive);

 private:
  absl::Duration Delay();

  EventQueue& queue_;
  Rng rng_;
  Weather weather_;
  std::set<std::pair<std::string, std::string>> cut_;
};

}  // namespace rubato

#endif  // RUBATO_SIM_NETWORK_H_
