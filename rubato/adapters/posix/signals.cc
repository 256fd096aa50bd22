#include "rubato/adapters/posix/signals.h"

#include <csignal>

namespace rubato {
namespace {

volatile std::sig_atomic_t stops = 0;

void CountStop(int) { stops = stops + 1; }

}  // namespace

void CatchStopSignals() {
  struct sigaction action = {};
  action.sa_handler = CountStop;
  sigaction(SIGTERM, &action, nullptr);
  sigaction(SIGINT, &action, nullptr);
  sigaction(SIGHUP, &action, nullptr);  // The terminal was closed.
  std::signal(SIGPIPE, SIG_IGN);
  std::signal(SIGXFSZ,
              SIG_IGN);  // A file over its limit is an error like a full disk, not a death.
}

int StopSignals() { return stops; }

}  // namespace rubato
