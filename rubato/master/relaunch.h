// When a process that died is started again: the first time at once, then, while it dies without
// getting anything done, after a wait that doubles; and when a crash loop is hopeless.
#ifndef RUBATO_MASTER_RELAUNCH_H_
#define RUBATO_MASTER_RELAUNCH_H_

#include <cstdint>
#include <string>

#include "absl/time/time.h"

namespace rubato {

// The wait before the relaunch after the `futile`-th death in a row: 0, 0.25 s, 0.5 s,
// ... 10 s.
absl::Duration RelaunchWait(int64_t futile);

// How long one may take to say its first word after `silent` others were given up for saying none:
// `least`, doubled each time, up to eight times as long. A machine that is busy starts everybody
// slowly, and who is killed for that begins anew no sooner.
absl::Duration StartGrace(absl::Duration least, int64_t silent);
// Whether it was the most: who is silent for so long is as good as crashed.
bool IsMostGrace(absl::Duration least, absl::Duration grace);

// One place: a server, or one of the workers.max places of workers.
struct LaunchPlace {
  int64_t futile = 0;  // Deaths since the last progress here.
  absl::Time not_before = absl::InfinitePast();
  std::string why = "the job begins";  // Why somebody is wanted here, for the events.

  void Exited(bool progress, absl::Time now);
};

// Crashes of one role in a row, no batch being committed in between.
struct CrashLoop {
  int64_t crashes = 0;
  int64_t silent = 0;  // Killed before their first word, and not for the longest grace.
  std::string first_error;

  void Crashed(const std::string& error);
  void Progress() { *this = CrashLoop(); }
};

}  // namespace rubato

#endif  // RUBATO_MASTER_RELAUNCH_H_
