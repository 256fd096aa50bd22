// What is likely to be asked for next: more of what was asked for lately.
//
// Deadlines count alike, so where not all can be kept a job is worth the others that its GPU time
// could have served. The forecast knows who came in the last while, refused or not, and takes the
// next while to be like it. Where there is room for all of them nobody is priced.
#ifndef RUBATO_SCHEDULE_RUBATO_FORECAST_H_
#define RUBATO_SCHEDULE_RUBATO_FORECAST_H_

#include <vector>

#include "rubato/schedule/rubato_book.h"

namespace rubato {

class Forecast {
 public:
  explicit Forecast(const Roster& roster);

  // How many of the jobs likely to come before the deadline of `job`, which is in the book, find no
  // GPU time left because of it: the cheapest are served first. Jobs of lower priority do not
  // count.
  double Displaced(const Roster& roster, const Book& book, size_t job) const;

 private:
  struct Likely {
    JobId id;
    double gpu_seconds = 0;  // At least.
    double window_s = 0;     // From its submission to its deadline.
    int priority = 0;
  };
  // How many jobs like `job` are to be expected within a window.
  double Expected(const Likely& job, double window_s) const;

  std::vector<Likely> likely_;  // The cheapest first.
  double seen_s_ = 0;           // How long it took them to come.
};

}  // namespace rubato

#endif  // RUBATO_SCHEDULE_RUBATO_FORECAST_H_
